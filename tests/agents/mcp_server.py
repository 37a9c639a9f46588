"""An MCP server on standard input and output with one tool, `look`."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def answered(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    if method == "initialize":
        version = params["protocolVersion"]
        about = {"name": "files", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [{"name": "look", "description": "Looks at a file.", "inputSchema": SCHEMA}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"looked at {params['arguments']['path']}"}]}
    return {}


def main() -> None:
    """Answer until the input is over."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = answered(request["method"], request.get("params", {}))
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            sys.stdout.write(f"{json.dumps(answer)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
