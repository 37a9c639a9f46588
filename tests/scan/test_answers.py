"""Answers to events that come line by line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from loopwarden.guard import LoopGuard
from loopwarden.scan.answers import Answering

CALL = {"type": "call", "id": "c1", "tool": "look"}


def answers(*lines: object, line_bytes: int = 1000) -> list[dict[str, Any]]:
    text = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    guard = LoopGuard({"enabled": True}, on_error="raise")
    return list(Answering(guard, line_bytes=line_bytes).answers(io.BytesIO(text)))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"{", "no valid JSON"),
        (b"\xff", "no valid JSON"),
        (b"[" * 900 + b"]" * 900, "an event is one JSON object"),
        (b"[" * 2000 + b"]" * 2000, "nested deeper than the limit"),
        (b"{} {}", "an event is one JSON object"),
        (b"7", "an event is one JSON object"),
        ({}, "`type` is None; allowed are call, outcome, compaction, user, retract"),
        ({"type": ["call"]}, "`type` is list; allowed are"),
        ({"type": "x" * 900}, "..."),
        ({"type": "call", "id": "c"}, "a line of type call must have `id` and `tool`"),
        ({"type": "outcome"}, "a line of type outcome must have `id`"),
        ({"type": "outcome", "id": "c9"}, "no call with the id 'c9' is open"),
        ({"type": "retract", "ids": []}, "a line of type retract must have `ids`"),
        ({"type": "call", "id": "c", "tool": "t" * 9000}, "longer than 5000 bytes, the limit for a line"),
    ],
)
def test_a_bad_line_is_answered_and_the_next_one_is_read(line: object, fault: str) -> None:
    first, bad, after = answers(CALL, b"", line, {"type": "outcome", "id": "c1"}, line_bytes=5000)
    assert (first["action"], after["action"]) == ("allow", "allow")
    assert list(bad) == ["error", "line"]
    assert fault in bad["error"]
    assert len(bad["error"]) < 200
    assert bad["line"] == 3


def test_every_line_that_is_not_blank_has_one_answer() -> None:
    calls = [{"type": "call", "id": f"c{n}", "tool": "look", "run": f"r{n}"} for n in range(3)]
    retraction = {"type": "retract", "ids": ["c0", "c1", "c2"]}
    found = answers(b"\xef\xbb\xbf", *calls, b"  ", retraction, {"type": "user", "stream": "s2"})
    assert [answer["type"] for answer in found] == ["call", "call", "call", "retract", "user"]
    assert found[-1] == {"stream": "s2", "type": "user", "action": "allow"}


def test_a_line_that_is_as_long_as_it_may_be() -> None:
    line = json.dumps(CALL).encode()
    assert [answer.get("action") for answer in answers(line, line, line_bytes=len(line))] == ["allow"] * 2
    assert ["error" in answer for answer in answers(line, line, line_bytes=len(line) - 1)] == [True] * 2
