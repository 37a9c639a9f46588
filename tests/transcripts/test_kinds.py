"""Loops of shell commands and polls whose results differ in nothing but times, ids and process numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.guard import LoopGuard
from loopwarden.transcripts.model import Recorded
from loopwarden.transcripts.registry import read
from tests.transcripts.written import written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Records = Callable[[int], Iterator[dict[str, Any]]]

TIMES = 25

SHELL = {"generic_repeat": "block"}
POLL = {"known_poll_no_progress": "block"}


def claude_code(tool: str, asked: dict[str, Any], structured: Callable[[int], dict[str, Any]]) -> Records:
    def records(number: int) -> Iterator[dict[str, Any]]:
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": asked}
        answer = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"said at {number}"}
        for uuid, kind, part in (("c", "assistant", call), ("r", "user", answer)):
            message = {"role": kind, "id": f"msg_{number}", "content": [part]}
            record = {"type": kind, "uuid": f"{uuid}{number}", "sessionId": "s", "message": message}
            yield record | ({"toolUseResult": structured(number)} if kind == "user" else {})

    return records


def codex(tool: str, asked: dict[str, Any], output: Callable[[int], str]) -> Records:
    def records(number: int) -> Iterator[dict[str, Any]]:
        call = {"type": "function_call", "name": tool, "arguments": json.dumps(asked)}
        for payload in (call, {"type": "function_call_output", "output": output(number)}):
            yield {"type": "response_item", "payload": payload | {"call_id": f"call_{number}"}}

    return records


def gemini(number: int) -> Iterator[dict[str, Any]]:
    if number == 0:
        yield {"sessionId": "s", "projectHash": "p"}
    output = f"Output: bad\nExit Code: 2\nProcess Group PGID: {number + 4000}"
    answer = {"functionResponse": {"id": "x", "name": "run_shell_command", "response": {"output": output}}}
    call = {"id": f"x{number}", "name": "run_shell_command", "args": {"command": "make"}, "result": [answer]}
    yield {"id": f"m{number}", "type": "gemini", "content": "", "toolCalls": [call]}


def hermes(number: int) -> Iterator[dict[str, Any]]:
    """All in one record, the first."""
    messages: list[dict[str, Any]] = []
    for at in range(TIMES if number == 0 else 0):
        call = {"id": str(at), "function": {"name": "process", "arguments": {"action": "poll", "id": "p"}}}
        state = {"status": "running", "pid": 7, "uptime_seconds": at, "output_preview": "busy"}
        messages.append({"id": 2 * at, "role": "assistant", "tool_calls": [call]})
        answer = {"tool_call_id": str(at), "tool_name": "process", "content": json.dumps(state)}
        messages.append({"id": 2 * at + 1, "role": "tool"} | answer)
    if messages:
        yield {"id": "s", "source": "cli", "parent_session_id": None, "started_at": 1.0, "messages": messages}


def openclaw(tool: str, asked: dict[str, Any], details: Callable[[int], dict[str, Any]]) -> Records:
    def records(number: int) -> Iterator[dict[str, Any]]:
        if number == 0:
            yield {"type": "session", "id": "s", "cwd": "/", "timestamp": "2026-01-01T00:00:00Z"}
        part = {"type": "toolCall", "id": f"c{number}", "name": tool, "arguments": asked}
        text = [{"type": "text", "text": "same"}]
        answer = {"role": "toolResult", "toolCallId": f"c{number}", "toolName": tool, "content": text}
        yield {"type": "message", "id": f"a{number}", "message": {"role": "assistant", "content": [part]}}
        yield {"type": "message", "id": f"b{number}", "message": answer | {"details": details(number)}}

    return records


CASES: dict[str, tuple[Records, dict[str, str]]] = {
    "Claude Code, a command": (
        claude_code("Bash", {"command": "make"}, lambda _: {"stdout": "bad", "stderr": "", "exitCode": 2}),
        SHELL,
    ),
    "Claude Code, started in the background": (
        claude_code("Bash", {"command": "serve"}, lambda at: {"stdout": "", "backgroundTaskId": f"b{at}"}),
        SHELL,
    ),
    "Claude Code, a poll": (
        claude_code("BashOutput", {"bash_id": "b"}, lambda at: {"stdout": "", "status": "running", "at": at}),
        POLL,
    ),
    "Codex, a command": (
        codex(
            "shell",
            {"command": ["make"]},
            lambda at: json.dumps({"output": "bad", "metadata": {"exit_code": 2, "duration_seconds": at}}),
        ),
        SHELL,
    ),
    "Codex, a command of the unified tool": (
        codex(
            "exec_command",
            {"cmd": "make"},
            lambda at: (
                f"Chunk ID: {at:x}\nWall time: {at}.5 seconds\nProcess exited with code 2\nOutput:\nbad"
            ),
        ),
        SHELL,
    ),
    "Codex, a poll": (
        codex(
            "write_stdin",
            {"session_id": 7, "chars": ""},
            lambda at: f"Wall time: {at} seconds\nProcess running with session ID 7\nOutput:\nbusy",
        ),
        POLL,
    ),
    "Gemini CLI, a command": (gemini, SHELL),
    "Hermes, a poll": (hermes, POLL),
    "OpenClaw, a command": (
        openclaw(
            "exec",
            {"command": "make"},
            lambda at: {"status": "failed", "exitCode": 2, "durationMs": at, "aggregated": "bad"},
        ),
        SHELL,
    ),
    "OpenClaw, a poll": (
        openclaw(
            "process",
            {"action": "poll", "sessionId": "p"},
            lambda at: {"status": "running", "sessionId": "p", "startedAt": at, "tail": "busy"},
        ),
        POLL,
    ),
    "OpenClaw, any tool": (openclaw("fetch", {"url": "x"}, lambda at: {"tookMs": at}), SHELL),
}


@pytest.mark.parametrize("case", CASES)
def test_volatile_text_hides_no_loop(case: str) -> None:
    records, expected = CASES[case]
    guard = LoopGuard({"enabled": True}, mode="observe", on_error="raise")
    source = written(*(record for number in range(TIMES) for record in records(number)))
    found: dict[str, str] = {}
    for item in read(source).items:
        if isinstance(item, Recorded):
            verdict = guard.feed(item.event)
            if verdict.detector is not None and verdict.would is not None:
                found[verdict.detector] = verdict.would
    assert found == expected
