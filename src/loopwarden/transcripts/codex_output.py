"""What a Codex tool gave, in the shape that the core reads: without times, process and chunk ids."""

from __future__ import annotations

import re
from typing import Any

import orjson

from loopwarden.transcripts.fields import whole
from loopwarden.transcripts.shape import command_result, text_of, tool_result

SHELLS = frozenset({"shell", "shell_command", "exec_command", "local_shell", "container.exec", "write_stdin"})
"""Tools whose exit code is the outcome of a command, not a failure of the tool."""

_HEAD_LINE = re.compile(
    r"Chunk ID: \S+"
    r"|Wall time:? [\d.]+ (?:s|ms|seconds?)"
    r"|Original token count: \d+"
    r"|Total output lines: \d+"
    r"|(?:Exit code:|Process exited with code) (?P<code>-?\d{1,10})"
    r"|(?P<running>Process running with session ID \S+|Script running with cell ID \S+)"
    r"|Script completed|(?P<failed>Script failed)"
)
_HEAD_LINES = 8
_HEAD_BYTES = 1_000
_HEAD_END = ("Output:", "Final output:")


def result(output: object, tool: str) -> dict[str, Any]:
    """The result of one call.

    Args:
        output: The field `output`: text, JSON text with `output` and `metadata`, a list of parts, or an
            object with `content` and `success`.
        tool: Name of the tool.
    """
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content", output.get("output"))
    if isinstance(output, list):
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in output):
            return tool_result(output, is_error=failed)
        output = text_of(output)
    if not isinstance(output, str):
        return tool_result(output, is_error=failed)
    text, code = _from_json(output)
    running = False
    if code is None:
        text, code, running, said = _without_head(text)
        failed = failed or said
    if code is None and not running:
        return tool_result(text, is_error=failed)
    if tool not in SHELLS and code not in (None, 0):
        failed = True
    return command_result(text, exit_code=code, running=running, is_error=failed)


def _from_json(text: str) -> tuple[str, int | None]:
    """Output and exit code of `{"output": ..., "metadata": {...}}`; other text unchanged."""
    if text.startswith("{"):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text, None
        metadata = value.get("metadata")
        if isinstance(value.get("output"), str) and isinstance(metadata, dict):
            return value["output"], whole(metadata.get("exit_code"))
    return text, None


def _without_head(text: str) -> tuple[str, int | None, bool, bool]:
    """Text without the lines that Codex puts before it; exit code; still running; said to have failed."""
    code: int | None = None
    running = failed = False
    place = 0
    for number in range(_HEAD_LINES):
        end = text.find("\n", place, _HEAD_BYTES)
        line = text[place : end if end >= 0 else _HEAD_BYTES].rstrip("\r")
        if number and line in _HEAD_END:
            return text[end + 1 if end >= 0 else len(text) :], code, running, failed
        match = _HEAD_LINE.fullmatch(line)
        if match is None or end < 0:
            break
        if match["code"]:
            code = int(match["code"])
        running = running or match["running"] is not None
        failed = failed or match["failed"] is not None
        place = end + 1
    return text, None, False, False
