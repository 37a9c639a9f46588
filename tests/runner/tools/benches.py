"""A workspace with tools, and calls to try them with."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from loopwarden.config.runtime import ListedAgent
from loopwarden.runner.channels import Channels
from loopwarden.runner.processes import Processes
from loopwarden.runner.tools import Bench, toolset

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.runner.channels import Message

SECONDS = 60
"""How long a test waits for something that must happen."""


@dataclass
class Result:
    """What a tool gave: for the model, and for the guard."""

    text: str
    shaped: dict[str, Any]

    @property
    def details(self) -> dict[str, Any]:
        details: dict[str, Any] = self.shaped["details"]
        return details

    @property
    def failed(self) -> bool:
        return self.shaped["isError"] is True


@dataclass
class Scene:
    """The tools of one run.

    Attributes:
        workspace: Its folder.
        agent: What is configured of the agent, in the words of the file; commands are allowed if it says
            nothing else.
        options: More of the bench.
        shown: What the terminal was shown.
    """

    workspace: Path
    agent: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    shown: list[Message] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        tools = self.agent.get("tools", {})
        rules = {"exec": {"policy": "allow"} | tools.get("exec", {})}
        agent = ListedAgent.model_validate({"id": "tester"} | self.agent | {"tools": tools | rules})
        self.processes = Processes()
        self.bench = Bench(
            agent=agent,
            session="s1",
            run="r1",
            workspace=self.workspace,
            processes=self.processes,
            channels=Channels(agent.tools.channels, self.workspace, show=self.shown.append),
            **self.options,
        )
        self.tools = {tool.name: tool for tool in toolset(self.bench)}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.processes.close()

    async def call(self, tool: str, **arguments: Any) -> Result:
        """One call, as the model makes it, without the check of the policy (see `test_agent.py`)."""
        schema = self.tools[tool].function_schema
        returned = await schema.call(schema.validator.validate_python(arguments), None)  # type: ignore[arg-type]
        assert type(returned.metadata) is dict, "the guard looks at plain dicts only"
        return Result(returned.return_value, returned.metadata)

    async def until(self, tool: str, holds: Callable[[Result], bool], **arguments: Any) -> Result:
        """Call again until something holds."""
        end = time.monotonic() + SECONDS
        while not holds(result := await self.call(tool, **arguments)):
            assert time.monotonic() < end, result
            await asyncio.sleep(0.01)
        return result


def alive(pid: int) -> bool:
    """Whether a process runs; one that is over and not waited for doesn't."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        if Path("/proc/self").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


async def gone(pid: int) -> bool:
    """Wait until a process is over."""
    end = time.monotonic() + SECONDS
    while alive(pid):
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


async def file_text(path: Path) -> str:
    """Wait until there is a whole line in a file."""
    end = time.monotonic() + SECONDS
    while not (text := _text(path)).endswith("\n"):
        assert time.monotonic() < end, path
        await asyncio.sleep(0.01)
    return text


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
