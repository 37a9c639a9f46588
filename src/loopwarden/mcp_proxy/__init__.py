"""The guard between an MCP client and an MCP server, over stdio or streamable HTTP.

`calls.py` decides and does no I/O; `stdio.py` and `http.py` carry the lines.
"""
