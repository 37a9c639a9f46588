"""Log lines as JSON: stable keys, one line each, no arguments."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import LoopGuard
from loopwarden.telemetry.json_log import JsonFormatter

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = ["time", "severity", "logger", "message"]
LOOP = [
    "event",
    "tool",
    "level",
    "action",
    "detector",
    "count",
    "threshold",
    "run",
    "key",
    "observed",
]


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("loopwarden")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield text
    logger.removeHandler(handler)
    logger.setLevel(before)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    text = stream.getvalue()
    assert text.isascii()
    return [json.loads(line) for line in text.splitlines()]


def loop(tool: str = "read", count: int = 5, **options: Any) -> None:
    guard = LoopGuard({"enabled": True, "warningThreshold": 3}, **options)
    for number in range(count):
        guard.before(tool, {"path": "secret"}, call_id=f"c{number}", run_id="r")


def test_a_loop_event(stream: io.StringIO) -> None:
    loop()
    told, again = lines(stream)
    assert list(told) == HEAD + LOOP
    key = told.pop("key")
    assert key.startswith("repeat:")
    assert told.pop("time")[10] == "T"
    assert told == {
        "severity": "WARNING",
        "logger": "loopwarden",
        "message": "loop tool=read level=warning action=warn detector=generic_repeat count=3 threshold=3 "
        f"run=r key={key}",
        "event": "loop",
        "tool": "read",
        "level": "warning",
        "action": "warn",
        "detector": "generic_repeat",
        "count": 3,
        "threshold": 3,
        "run": "r",
        "observed": False,
    }
    assert (again["severity"], again["count"]) == ("DEBUG", 4)


def test_what_is_observed_says_so(stream: io.StringIO) -> None:
    loop(mode="observe")
    assert [line["observed"] for line in lines(stream)] == [True, True]


def test_an_armed_guard(stream: io.StringIO) -> None:
    LoopGuard({"enabled": True}).compacted(run_id="r")
    (line,) = lines(stream)
    assert list(line) == [*HEAD, "event", "attempts"]
    assert (line["severity"], line["event"], line["attempts"]) == ("INFO", "armed", 3)
    assert line["message"] == "post-compaction guard armed for 3 attempts"


@pytest.mark.parametrize("name", ["\x1b[31m\nWARNING loop", "\u202eevil", "\ud800", "x" * 10_000, '"}'])
def test_names_stay_in_their_place(stream: io.StringIO, name: str) -> None:
    loop(name, count=4)
    (line,) = lines(stream)
    assert list(line) == HEAD + LOOP
    assert line["tool"].isprintable()
    assert len(line["tool"]) <= 200
    assert len(line["message"]) <= 2000


def test_a_fault_says_where_and_not_what(stream: io.StringIO) -> None:
    def listener(*_: object) -> None:
        raise ValueError("hunter2")

    loop(count=4, on_verdict=[listener])
    fault = lines(stream)[-1]
    assert list(fault) == [*HEAD, "error", "trace"]
    assert (fault["severity"], fault["message"], fault["error"]) == (
        "ERROR",
        "fault in a listener",
        "ValueError",
    )
    assert fault["trace"][-1].endswith(" listener")
    assert "hunter2" not in stream.getvalue()


def test_other_loggers_may_use_it() -> None:
    record = logging.LogRecord("app", logging.INFO, "x.py", 1, "hello %s", ("\u20ac",), None)
    line = JsonFormatter().format(record)
    assert list(json.loads(line)) == HEAD
    assert json.loads(line)["message"] == "hello \u20ac"
