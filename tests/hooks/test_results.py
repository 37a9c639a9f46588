"""What is compared of a result is what the model reads, and whatever else differs."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.config.resolve import defaults
from loopwarden.core.fingerprint import FAILED, SUBSTANTIAL, Observed, observe
from loopwarden.core.profile import ToolUses
from loopwarden.hooks.answering import Answering
from loopwarden.hooks.results import readable
from tests.agents.recordings import recorded
from tests.hooks.agents import Agent

if TYPE_CHECKING:
    from pathlib import Path

BASH: dict[str, Any] = {
    "stdout": "1 passed",
    "stderr": "",
    "interrupted": False,
    "isImage": False,
    "noOutputExpected": False,
}
LONG = "x" * 64
USES = ToolUses(defaults().settings("a", "enforce"))


def seen(result: object, tool: str = "Bash") -> Observed:
    return observe(USES.find(tool, {}), readable(result), None, None, False)


SIZED = [
    ("Bash", {**BASH, "stdout": "{}"}),
    ("Bash", {**BASH, "stdout": "", "stderr": "{}"}),
    ("Bash", {"stdout": "{}"}),
    ("Shell", {"stdout": "{}", "exitCode": 0, "durationOfAllThatWasDoneInSeconds": 100000000000000000000}),
    ("Grep", {"mode": "content", "numFiles": 1, "filenames": ["a" * 80], "content": "{}"}),
    (
        "WebFetch",
        {"bytes": 1, "code": 200, "codeText": "OK" * 40, "result": "{}", "url": "https://a.example"},
    ),
    ("Read", {"type": "text", "file": {"filePath": "/a" * 40, "content": "{}", "numLines": 1}}),
    ("view", {"resultType": "success" * 10, "textResultForLlm": "{}"}),
    ("mcp__a__b", [{"type": "text", "text": "{}"}]),
    ("mcp__a__b", {"content": [{"type": "text", "text": "{}"}]}),
]


@pytest.mark.parametrize(("tool", "result"), SIZED, ids=range(len(SIZED)))
def test_the_size_is_that_of_the_text(tool: str, result: object) -> None:
    text = json.dumps(result)
    short = json.loads(text.replace('"{}"', '"1 passed"'))
    assert seen(short, tool).flags == 0
    assert seen(json.loads(text.replace('"{}"', f'"{LONG}"')), tool).flags == SUBSTANTIAL


UNLIKE: list[object] = [
    BASH,
    {**BASH, "stdout": "2 passed"},
    {**BASH, "stderr": "1 passed"},
    {**BASH, "stdout": "", "stderr": "1 passed"},
    {**BASH, "stdout": "1 ", "stderr": "passed"},
    {**BASH, "stdout": "1 \0passed", "stderr": "x"},
    {**BASH, "stdout": "1 ", "stderr": "passed\0x"},
    {**BASH, "stderr": 5},
    {**BASH, "interrupted": True},
    {**BASH, "isImage": True},
    {**BASH, "more": {"a": 1}},
    {**BASH, "exitCode": 0},
    {**BASH, "exitCode": 3},
    {**BASH, "exitCode": 3, "signal": "TERM"},
    {**BASH, "status": "running"},
    {**BASH, "aggregated": "x"},
    {name: value for name, value in BASH.items() if name != "stderr"},
    {"stdout": "1 passed"},
    {"result": "1 passed"},
    {"result": "1 passed", "stdout": None},
    {"result": "1 passed", "output": "1 passed"},
    {"content": "1 passed", "numFiles": 1},
    {"content": "1 passed", "numFiles": 2},
    {"file": {"content": "1 passed", "startLine": 1}},
    {"file": {"content": "1 passed", "startLine": 2}},
    {"file": {"content": "2 passed", "startLine": 2}},
    [{"type": "text", "text": "1 passed", "annotations": {}}],
    [{"type": "text", "text": "1"}, {"type": "text", "text": "passed"}],
    [{"type": "image", "data": "1 passed"}],
    [],
    {},
    5,
    "",
]


def test_what_differs_anywhere_differs_still() -> None:
    alike = [
        (one, other)
        for one, other in combinations(UNLIKE, 2)
        if seen(one).fingerprint == seen(other).fingerprint
    ]
    assert alike == []


def test_what_differs_from_call_to_call_does_not_count() -> None:
    assert seen({**BASH, "backgroundTaskId": "b1"}).fingerprint == seen(BASH).fingerprint
    page = {"bytes": 1, "code": 200, "result": "x", "durationMs": 5}
    assert seen(page, "WebFetch").fingerprint == seen({**page, "durationMs": 6}, "WebFetch").fingerprint


@pytest.mark.parametrize(("code", "failed"), [(0, 0), (2, FAILED), (None, 0)])
def test_a_command_says_how_it_ended(code: int | None, failed: int) -> None:
    result = {"stdout": "3 failed", "stderr": "", "exitCode": code, "duration": 5}
    assert seen(result).flags == failed


@pytest.mark.parametrize(
    "result",
    [
        {"isError": True, "output": "no"},
        {"status": "failed", "stdout": "no"},
        {"content": [], "isError": True},
    ],
    ids=range(3),
)
def test_a_result_that_says_it_failed_did(result: dict[str, Any]) -> None:
    assert seen(result).flags == FAILED


def warned(folder: Path, host: str, tool: str, result: object) -> list[str]:
    answering = Answering(folder)
    agent = Agent(host, answering.answer)
    said = [agent.call(tool, {"command": f"pytest {number}"}, result).model for number in range(12)]
    answering.close()
    return [one for one in said if one]


@pytest.mark.parametrize(("host", "tool"), [("claude-code", "Bash"), ("cursor", "Shell"), ("qwen", "Bash")])
@pytest.mark.parametrize(("text", "times"), [("1 passed", 0), (LONG, 1)])
def test_short_outputs_are_no_stagnation(tmp_path: Path, host: str, tool: str, text: str, times: int) -> None:
    result: object = {**BASH, "stdout": text}
    if host == "cursor":
        result = json.dumps({"exitCode": 0, "stdout": text})
    assert len(warned(tmp_path, host, tool, result)) == times


def test_recorded_results_keep_their_text() -> None:
    events = [line["event"] for line in recorded("claude-code")]
    results = [one["tool_response"] for one in events if isinstance(one.get("tool_response"), dict)]
    commands = [one for one in results if "stdout" in one]
    assert commands
    for one in commands:
        text = {"type": "text", "text": one["stdout"]}
        assert readable(one) == {"content": [text], "details": {**one, "stdout": None}}
    assert [one for one in results if "stdout" not in one and readable(one) != one] == []
