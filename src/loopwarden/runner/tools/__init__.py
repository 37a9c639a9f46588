"""The tools of the runner's agents: real commands, files and messages.

Each gives back a `ToolReturn` whose text the model reads and whose metadata (`Shaped`) the guard compares.
What a tool can't do is a result that says so (`isError`), not an exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from loopwarden.config.runtime import ToolName
from loopwarden.errors import MissingExtraError

try:
    import pydantic_ai  # noqa: F401 - what all tools are made with
except ImportError as error:
    raise MissingExtraError("pydantic-ai-slim", "runner") from error

from loopwarden.runner.tools.bench import Answer, Bench
from loopwarden.runner.tools.exec import exec_tool
from loopwarden.runner.tools.files import edit_tool, read_tool, write_tool
from loopwarden.runner.tools.message import message_tool
from loopwarden.runner.tools.process import process_tool, status_tool
from loopwarden.runner.tools.sessions import send_tool, spawn_tool
from loopwarden.runner.tools.shapes import Shaped

if TYPE_CHECKING:
    from pydantic_ai import Tool

__all__ = ["Answer", "Bench", "Shaped", "toolset"]


def toolset(bench: Bench) -> list[Tool[Any]]:
    """The tools that the agent may use, in a fixed order.

    `sessions_send` and `sessions_spawn` are left out where the host can't do that.
    """
    block = bench.agent.tools
    names = {
        name
        for name in get_args(ToolName)
        if (block.allow is None or name in block.allow) and name not in block.deny
    }
    tools = {
        "exec": exec_tool(bench, sessions="process" in names),
        "process": process_tool(bench),
        "command_status": status_tool(bench),
        "read": read_tool(bench),
        "write": write_tool(bench),
        "edit": edit_tool(bench),
        "message": message_tool(bench),
    }
    if bench.send is not None:
        tools["sessions_send"] = send_tool(bench, bench.send)
    if bench.spawn is not None:
        tools["sessions_spawn"] = spawn_tool(bench, bench.spawn)
    return [tool for name, tool in tools.items() if name in names]
