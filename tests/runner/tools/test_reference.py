"""The reference page says what the tools take, and their bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra runner")

from loopwarden.runner import channels, output, processes, webhook
from loopwarden.runner.tools import exec as exec_module
from loopwarden.runner.tools import files, message, process, shapes
from tests.runner.tools.benches import Scene

pytestmark = pytest.mark.tree

PAGE = Path(__file__).parents[3] / "docs/reference/runner-tools.md"

BOUNDS = {
    "what the model reads of one result": f"about {shapes.TEXT:,} characters",
    "output kept of one command": f"{output.HEAD // 1024} KiB of its beginning, "
    f"{output.TAIL // 1024} KiB of its end",
    "commands in the background": f"{processes.MOST_RUNNING} running, {processes.MOST_FINISHED} finished",
    "a finished one is forgotten after": f"{processes.KEPT_SECONDS // 60} minutes",
    "commands at once": f"{processes.MOST_AT_ONCE}",
    "between the request to end and the end by force": f"{processes.GRACE_SECONDS:g} seconds",
    "text that waits on a standard input": f"{processes.INPUT_BYTES // 1024} KiB",
    "lines of a log, where no number is given": f"{process.LINES}",
    "a person is waited for": f"{exec_module.ASK_SECONDS // 60} minutes",
    "lines read at once": f"{files.LINES:,}",
    "bytes of a file looked through for a line": f"{files.SCANNED // 2**20} MiB",
    "a file that is edited": f"{files.EDITED // 2**20} MiB",
    "text that is written at once": f"{files.WRITTEN:,} characters",
    "a file that goes with a message": f"{message.FILE_BYTES // 1024} KiB",
    "a file channel": f"{channels.FILE_BYTES // 2**20} MiB; messages are read from its last "
    f"{channels.READ_BYTES // 1024} KiB",
    "a webhook": f"{webhook.SECONDS:g} seconds, {webhook.ANSWER_BYTES // 1024} KiB of its answer",
}


def kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    options = schema.get("anyOf", [schema])
    return next(option["type"] for option in options if option["type"] != "null")


def rows(schema: dict[str, Any]) -> str:
    lines = ["| argument | type | meaning |", "| --- | --- | --- |"]
    for name, value in schema["properties"].items():
        meaning = value["description"]
        if name in schema.get("required", ()):
            meaning += " Required."
        elif value.get("default") not in (None, "", False):
            meaning += f" Default `{value['default']}`."
        lines.append(f"| `{name}` | {kind(value)} | {meaning} |")
    return "\n".join(lines)


async def unused(*_: str) -> Any:
    raise AssertionError


def test_the_arguments_are_those_of_the_tools(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")

    async def main() -> None:
        async with Scene(tmp_path, {}, {"spawn": unused, "send": unused}) as scene:
            for name, tool in scene.tools.items():
                section = page.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
                table = rows(tool.tool_def.parameters_json_schema)
                assert table in section, f"the section of {name} lacks:\n{table}"

    asyncio.run(main())


def test_the_bounds_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8").split("\n## Bounds\n", 1)[1]
    table = "\n".join(f"| {what} | {bound} |" for what, bound in BOUNDS.items())
    assert table in page, table
