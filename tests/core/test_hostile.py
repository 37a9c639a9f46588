"""Whatever tools are given and give: the guard answers, and goes on counting."""

from __future__ import annotations

import functools
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.guard import LoopGuard
from tests.core.scene import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable


class Liar:
    """Equal to all, of no length, without a hash and without words."""

    def __eq__(self, other: object) -> bool:
        return True

    def __len__(self) -> int:
        raise ValueError("no length")

    def __bool__(self) -> bool:
        raise ValueError("neither")

    def __repr__(self) -> str:
        raise ValueError("no words")

    __hash__ = None  # type: ignore[assignment]  # that is the point

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Text(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    __hash__ = str.__hash__


def circle() -> object:
    inner: dict[str, object] = {}
    inner["content"] = ["x", inner]
    return {**inner, "details": {"more": inner}}


def deep(wrap: Callable[[Any], Any], depth: int = 1_000) -> object:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


@functools.cache
def hostile() -> dict[str, object]:
    lists = deep(lambda inner: [inner])
    return {
        "a circle": circle(),
        "deep lists": lists,
        "deep mappings": deep(lambda inner: {"a": inner}),
        "deep content": {"content": lists, "details": lists},
        "deep details": {"content": [], "details": {"a": lists}},
        "a large text": "1.0 tool x not found at 12:00 " * 10_000,
        "half of a pair": "\ud800",
        "half of a pair as a key": {"\udfff": {"content": "\ud800"}},
        "no number": math.nan,
        "no end": {"content": [{"type": "text", "text": "x"}], "details": {"exitCode": math.inf}},
        "a huge number": 10**50_000,
        "a huge exit code": {"details": {"exitCode": 10**5_000, "aggregated": "x"}},
        "a liar": Liar(),
        "a liar as content": {"content": Liar()},
        "a liar in content": {"content": [Liar(), {"text": Liar()}]},
        "a liar as details": {"content": [], "details": Liar()},
        "liars in details": {"details": dict.fromkeys(("status", "exitCode", "timedOut", "tail"), Liar())},
        "a liar as flag": {"isError": Liar(), "status": Liar()},
        "a text that does not compare": Text("running"),
        "such texts in details": {"content": [Text("x")], "details": {"status": Text("running")}},
        "odd keys": {("content",): 1, None: 2, 1.5: 3, b"x": 4},
        "bytes": b"\xff\x00",
        "sets": {1, "a", frozenset({2})},
        "a type": int,
        "a generator": (number for number in range(3)),
    }


NAMES = tuple(hostile())
TOOLS = ("read", "exec", "process", "sessions_send", "edit", "picky")
CONFIG = {
    **SMALL,
    "toolProfiles": {
        "picky": {
            "ignoreResult": ["a", "/content/0/text", "/details/status"],
            "ignoreArguments": ["b", "/a/b"],
            "ignoreText": ["x+"],
            "identity": ["content", "/details/exitCode", "a"],
        }
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_no_value_breaks_the_guard(name: str) -> None:
    value = hostile()[name]
    for tool in TOOLS:
        guard = LoopGuard(CONFIG, on_error="raise")
        answers = []
        for number in range(6):
            arguments: object = value if number else {"action": "poll", "a": value}
            answers.append(guard.before(tool, value, call_id="c", run_id="r").action)
            guard.after("c", result=value, run_id="r")
            guard.before(tool, arguments, call_id=f"d{number}", run_id="other")
            guard.after(f"d{number}", error=str(value) if isinstance(value, str) else "x", run_id="other")
        assert answers == ["allow"] * 3 + ["warn"] * 2 + ["block"], tool


@pytest.mark.parametrize("tool", ["exec", "read"])
def test_a_very_large_text_does_not_either(tool: str) -> None:
    text = "1.0 tool x not found at 12:00 " * 1_700_000  # some 50 MB
    guard = LoopGuard(CONFIG, on_error="raise")
    guard.before(tool, text, call_id="c")
    guard.after("c", error=text)
    guard.before(tool, text, call_id="c")
    assert guard.after("c", result=text).action == "allow"


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_very_deep_values_do_not_either(wrap: Callable[[Any], Any]) -> None:
    value = deep(wrap, 30_000)
    guard = LoopGuard(CONFIG, on_error="raise")
    assert guard.before("exec", value, call_id="c").action == "allow"
    assert guard.after("c", result={"content": [value], "details": {"a": value}}).action == "allow"


@pytest.mark.parametrize("tool", ["", "\ud800", "a b\nc", "x" * 1_000_000, "*", "[", "\x00"])
def test_no_name_breaks_the_guard(tool: str) -> None:
    guard = LoopGuard(SMALL, on_error="raise")
    for number in range(4):
        verdict = guard.before(tool, None, call_id=f"{tool}{number}", run_id=tool, turn_id=f"{tool}{number}")
        guard.after(f"{tool}{number}", error=tool, run_id=tool, unknown_tool=None)
    assert (verdict.detector, verdict.count) == ("generic_repeat", 3)
    assert len(verdict.message or "") < 1000
    guard.retract([tool], run_id=tool)
    guard.compacted(run_id=tool, continues=tool)
    guard.user_message(run_id=tool)
    guard.forget(run_id=tool)


def test_two_long_names_that_differ_at_the_end_are_two_tools() -> None:
    guard = LoopGuard(SMALL, on_error="raise")
    for number in range(4):
        one = guard.before("x" * 500 + str(number), {}, call_id=f"c{number}")
        assert one.action == "allow"


def test_a_large_document_is_answered() -> None:
    rows = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(5_000)]
    guard = LoopGuard(SMALL, on_error="raise")
    for number in range(6):
        copied = json.loads(
            json.dumps({"content": [{"type": "json", "json": rows}], "details": {"rows": rows}})
        )
        verdict = guard.before("query", {"all": True}, call_id=f"c{number}")
        guard.after(f"c{number}", result=copied)
    assert verdict.action == "block"
