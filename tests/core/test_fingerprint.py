"""What is compared: signatures of calls, fingerprints of outcomes, and what is a failure (SPEC section 3)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.core.fingerprint import FAILED, SUBSTANTIAL, TIMED_OUT, mixed, observe, signature
from loopwarden.core.profile import ToolUse
from loopwarden.core.settings import Settings, ToolProfile

if TYPE_CHECKING:
    from loopwarden.core.fingerprint import Observed
    from loopwarden.core.settings import ToolKind


def use(kind: ToolKind = "other", tool: str = "tool", **profile: Any) -> ToolUse:
    return ToolUse(tool, kind, ToolProfile(pattern=tool, **profile), Settings())


def parts(text: str = "", **details: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "details": details}


def seen(tool: ToolUse, result: object = None, error: str | None = None) -> Observed:
    return observe(tool, result, error, None, False)


def same(tool: ToolUse, one: object, other: object) -> bool:
    return seen(tool, one).fingerprint == seen(tool, other).fingerprint


class Status(enum.StrEnum):
    FAILED = "failed"
    RUNNING = "running"


EXEC = {"status": "completed", "exitCode": 0, "aggregated": "out", "durationMs": 5, "pid": 7, "cwd": "/a"}
RUNNING = {"status": "running", "tail": "10%", "pid": 7, "sessionId": "s", "startedAt": 5, "cwd": "/a"}
APPROVAL = {
    "status": "approval-pending",
    "reason": "policy",
    "host": "gateway",
    "command": "rm x",
    "warning": "careful",
    "expiresAt": 12,
    "approvalId": "a1",
}
POLL = {
    "status": "running",
    "exitCode": None,
    "exitSignal": None,
    "aggregated": "out",
    "totalLines": 3,
    "totalChars": 30,
    "truncated": False,
    "retryInMs": 500,
    "sessionId": "s",
}
SENT = {"ok": True, "channel": "general", "messageId": "m1", "ts": 12, "to": {"id": "c1", "runId": "r1"}}

COUNTS: dict[str, tuple[ToolKind, dict[str, Any], dict[str, Any]]] = {
    "exec: status": ("exec", EXEC, {"status": "failed"}),
    "exec: exit code": ("exec", EXEC, {"exitCode": 3}),
    "exec: timed out": ("exec", EXEC, {"timedOut": True}),
    "exec: output": ("exec", EXEC, {"aggregated": "other"}),
    "exec running: tail": ("exec", RUNNING, {"tail": "20%"}),
    "exec running: status": ("exec", RUNNING, {"status": "completed"}),
    "exec approval: status": ("exec", APPROVAL, {"status": "approval-unavailable"}),
    "exec approval: reason": ("exec", APPROVAL, {"reason": "other"}),
    "exec approval: host": ("exec", APPROVAL, {"host": "node"}),
    "exec approval: command": ("exec", APPROVAL, {"command": "rm y"}),
    "exec approval: warning": ("exec", APPROVAL, {"warning": "none"}),
    "poll: status": ("poll", POLL, {"status": "completed"}),
    "poll: exit code": ("poll", POLL, {"exitCode": 0}),
    "poll: exit signal": ("poll", POLL, {"exitSignal": "SIGKILL"}),
    "poll: output": ("poll", POLL, {"aggregated": "more"}),
    "poll: total lines": ("poll", POLL, {"totalLines": 4}),
    "poll: total characters": ("poll", POLL, {"totalChars": 31}),
    "poll: truncated": ("poll", POLL, {"truncated": True}),
    "send: another detail": ("send", SENT, {"channel": "other"}),
    "send: success": ("send", SENT, {"ok": False}),
    "send: a detail in depth": ("send", SENT, {"to": {"id": "c2", "runId": "r1"}}),
    "other: any detail": ("other", {"page": 1}, {"page": 2}),
    "read: any detail": ("read", {"durationMs": 1}, {"durationMs": 2}),
}

IGNORED: dict[str, tuple[ToolKind, dict[str, Any], dict[str, Any]]] = {
    "exec: duration": ("exec", EXEC, {"durationMs": 9}),
    "exec: process": ("exec", EXEC, {"pid": 8}),
    "exec: session": ("exec", EXEC, {"sessionId": "s2"}),
    "exec: folder": ("exec", EXEC, {"cwd": "/b"}),
    "exec: start": ("exec", EXEC, {"startedAt": 99}),
    "exec running: process": ("exec", RUNNING, {"pid": 8, "sessionId": "s2", "startedAt": 6, "cwd": "/b"}),
    "exec running: an enumeration": ("exec", RUNNING, {"status": Status.RUNNING, "pid": 8}),
    "exec approval: id and end": ("exec", APPROVAL, {"approvalId": "a2", "expiresAt": 13}),
    "poll: hint": ("poll", POLL, {"retryInMs": 900}),
    "poll: session": ("poll", POLL, {"sessionId": "s2"}),
    "send: message": ("send", SENT, {"messageId": "m2", "message_id": "m3"}),
    "send: file and poll": ("send", SENT, {"fileId": "f", "pollId": "p"}),
    "send: receipts": ("send", SENT, {"receipt": {"a": 1}, "receipts": [1]}),
    "send: key": ("send", SENT, {"idempotencyKey": "k"}),
    "send: time": ("send", SENT, {"ts": 13, "timestamp": "now", "sentAt": 5}),
    "send: run in depth": ("send", SENT, {"to": {"id": "c1", "runId": "r2"}}),
}


@pytest.mark.parametrize("name", COUNTS)
def test_what_counts(name: str) -> None:
    kind, details, change = COUNTS[name]
    assert not same(use(kind), parts("t", **details), parts("t", **{**details, **change}))


@pytest.mark.parametrize("name", IGNORED)
def test_what_does_not_count(name: str) -> None:
    kind, details, change = IGNORED[name]
    assert same(use(kind), parts("t", **details), parts("t", **{**details, **change}))
    assert not same(use("other"), parts("t", **details), parts("t", **{**details, **change}))


@pytest.mark.parametrize(
    ("kind", "details", "counts"),
    [
        ("exec", EXEC, False),  # the output stands in the details
        ("exec", RUNNING, False),
        ("exec", APPROVAL, False),
        ("exec", {}, True),
        ("poll", POLL, True),
        ("poll", {}, True),
        ("send", SENT, False),
        ("send", {}, False),
        ("other", {}, True),
        ("read", {"page": 1}, True),
        ("write", {}, True),
        ("wait", {}, True),
    ],
)
def test_whether_the_text_counts(kind: ToolKind, details: dict[str, Any], counts: bool) -> None:
    assert same(use(kind), parts("one", **details), parts("other", **details)) is not counts


def test_pictures_count_by_their_data() -> None:
    def shot(data: object) -> dict[str, Any]:
        return {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}

    assert same(use(), shot("iVBORw0KGgo"), shot("iVBORw0KGgo"))
    assert not same(use(), shot("iVBORw0KGgo"), shot("iVBORw0KGgp"))
    assert not same(use(), shot(b"\x00\xff"), shot(b"\x00\xfe"))
    assert not same(use(), shot("x"), {"content": []})


DIFFERENT: dict[str, tuple[object, object]] = {
    "text": ("a", "b"),
    "text and number": ("1", 1),
    "nothing and empty": (None, ""),
    "false and zero": (False, 0),
    "missing and null": ({"a": 1}, {"a": 1, "b": None}),
    "whole results": ({"rows": [1]}, {"rows": [2]}),
    "a text and a part": ("x", {"rows": "x"}),
    "two parts and their order": (
        {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"content": [{"type": "text", "text": "b"}, {"type": "text", "text": "a"}]},
    ),
    "an error flag": ({"content": "x"}, {"content": "x", "isError": True}),
    "bytes": (b"a", b"b"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_results_that_differ(name: str) -> None:
    one, other = DIFFERENT[name]
    assert not same(use(), one, other)
    assert same(use(), one, one)


def test_equal_json_values_are_equal() -> None:
    assert same(use(), {"a": 1, "b": [1.0]}, {"b": [1], "a": 1.0})
    assert same(use(), parts("t", a=1, b=2), parts("t", b=2.0, a=1))
    tool = use()
    assert signature(tool, {"a": 1, "b": 2}) == signature(tool, {"b": 2.0, "a": 1})
    assert signature(tool, {"a": None}) != signature(tool, {})
    assert signature(tool, {}) != signature(use(tool="other"), {})
    assert signature(use(tool="a"), "b") != signature(use(tool="ab"), "")


def test_errors_are_compared_by_message() -> None:
    one, again, other = (seen(use(), error=text) for text in ("no", "no", "not"))
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert one.fingerprint != seen(use(), "no").fingerprint


def test_a_mixed_turn_is_like_no_outcome() -> None:
    assert len({mixed(1), mixed(2), seen(use(), "x").fingerprint}) == 3


FLAGS: dict[str, tuple[ToolKind, Any, int]] = {
    "a plain text": ("other", "fine", 0),
    "nothing": ("other", None, 0),
    "prose about errors": ("other", "Error: it failed, unknown tool x", 0),
    "a long text": ("other", "x" * 64, SUBSTANTIAL),
    "one byte short": ("other", "x" * 63, 0),
    "isError": ("other", {"content": "no", "isError": True}, FAILED),
    "is_error": ("other", {"content": "no", "is_error": True}, FAILED),
    "isError in a bare result": ("other", {"isError": True, "why": "no"}, FAILED),
    "isError that is not true": ("other", {"content": "no", "isError": "yes"}, 0),
    "a failed status": ("other", parts("x", status="error"), FAILED),
    "a failed status in a bare result": ("other", {"status": "failed"}, FAILED),
    "a failed status of an enumeration": ("other", parts("x", status=Status.FAILED), FAILED),
    "another status": ("other", parts("x", status="completed"), 0),
    "an exit code": ("exec", parts(exitCode=2, aggregated="no"), FAILED),
    "exit code 0": ("exec", parts(exitCode=0, aggregated="no"), 0),
    "exit code 0 with a flag": ("exec", {**parts(exitCode=0, aggregated="no"), "isError": True}, FAILED),
    "exit code 1 without output, with a flag": (
        "exec",
        {**parts(exitCode=1, aggregated=""), "isError": True},
        0,
    ),
    "exit code 1 with output": ("exec", parts(exitCode=1, aggregated="no"), FAILED),
    "exit code 1 without output": ("exec", parts(exitCode=1, aggregated=""), 0),
    "exit code 1 with blank output": ("exec", parts(exitCode=1, aggregated=" \n"), 0),
    "exit code 2 without output": ("exec", parts(exitCode=2, aggregated=""), FAILED),
    "a negative exit code": ("exec", parts(exitCode=-9, aggregated=""), FAILED),
    "a running command": ("exec", parts(status="running", tail="error"), 0),
    "an approval that is due": ("exec", parts(status="approval-pending"), 0),
    "a command that failed without a code": ("exec", parts(status="failed", aggregated="x"), FAILED),
    "a command out of time": ("exec", parts(timedOut=True, aggregated="x"), FAILED | TIMED_OUT),
    "another tool's exit code": ("other", parts("x", exitCode=2), 0),
    "a poll of a job that failed": ("poll", parts(status="failed", exitCode=2), 0),
    "a poll that failed": ("poll", {"content": "x", "isError": True}, FAILED),
    "a flag whose name is like it": ("other", {"error": True}, 0),
}


@pytest.mark.parametrize("name", FLAGS)
def test_what_a_failure_is(name: str) -> None:
    kind, result, flags = FLAGS[name]
    outcome = seen(use(kind), result)
    assert outcome.flags == flags
    assert outcome.fingerprint[-1] == flags
    assert (outcome.failure is not None) is (flags == FAILED)


def test_what_the_host_says_by_structure() -> None:
    late = observe(use(), None, "out of time", None, True)
    assert (late.flags, late.failure) == (FAILED | TIMED_OUT, None)
    gone = observe(use(), "what?", None, "lookup", False)
    assert (gone.flags, gone.missing) == (FAILED, "lookup")
    assert observe(use(), None, "Unknown tool: a", "b", False).missing == "b"
    assert observe(use(), None, "Unknown tool: a", None, False).missing == "a"
    assert observe(use(), "Unknown tool: a", None, None, False).missing is None
    assert seen(use(), {"content": "Unknown tool: a", "isError": True}).missing == "a"


def test_failures_with_one_cause_are_one() -> None:
    texts = ("12:00:01 refused (pid 12)", "12:00:02 refused (pid 13)", "12:00:02 denied (pid 13)")
    first, second, third = (seen(use(), error=text) for text in texts)
    assert first.failure == second.failure != third.failure
    assert first.fingerprint != second.fingerprint
    codes = [seen(use("exec"), parts(exitCode=code, aggregated="no")).failure for code in (1, 1, 2)]
    assert codes[0] == codes[1] != codes[2]


NAMED: dict[str, tuple[dict[str, Any], Any, Any, bool]] = {
    "a name": ({"ignore_result": ("took",)}, {"rows": 1, "took": 5}, {"rows": 1, "took": 6}, True),
    "a name in depth": (
        {"ignore_result": ("took",)},
        {"a": [{"b": {"took": 5}}]},
        {"a": [{"b": {"took": 6}}]},
        True,
    ),
    "a name in details": ({"ignore_result": ("took",)}, parts("t", took=1), parts("t", took=2), True),
    "another name": ({"ignore_result": ("took",)}, {"rows": 1}, {"rows": 2}, False),
    "a pointer": ({"ignore_result": ("/a/0/b",)}, {"a": [{"b": 1}]}, {"a": [{"b": 2}]}, True),
    "a pointer to another place": (
        {"ignore_result": ("/a/1/b",)},
        {"a": [{"b": 1}]},
        {"a": [{"b": 2}]},
        False,
    ),
    "a pointer is no name": ({"ignore_result": ("/b",)}, {"a": {"b": 1}}, {"a": {"b": 2}}, False),
    "an escaped pointer": (
        {"ignore_result": ("/a~1b/c~0d",)},
        {"a/b": {"c~d": 1}},
        {"a/b": {"c~d": 2}},
        True,
    ),
    "a pattern": ({"ignore_text": (r"took \d+ ms",)}, "ok, took 5 ms", "ok, took 6 ms", True),
    "a pattern in parts": ({"ignore_text": (r"took \d+ ms",)}, parts("took 5 ms"), parts("took 6 ms"), True),
    "a pattern that does not match": ({"ignore_text": (r"took \d+ ms",)}, "took 5 s", "took 6 s", False),
    "a pattern far behind": ({"ignore_text": (r"\d+",)}, "x" * 20_000 + "1", "x" * 20_000 + "2", False),
}


@pytest.mark.parametrize("name", NAMED)
def test_profiles_leave_parts_of_results_out(name: str) -> None:
    profile, one, other, alike = NAMED[name]
    assert same(use(**profile), one, other) is alike
    assert not same(use(), one, other)


def test_patterns_are_blanked_in_errors_and_in_a_commands_output() -> None:
    tool = use("exec", ignore_text=(r"took \d+ ms",))
    assert seen(tool, error="took 5 ms").fingerprint == seen(tool, error="took 6 ms").fingerprint
    for kind, details in (
        ("exec", {"exitCode": 0}),
        ("exec", {"status": "running"}),
        ("poll", {"exitCode": 0}),
    ):
        tool = use(kind, ignore_text=(r"took \d+ ms",))  # type: ignore[arg-type]  # kinds
        for field in ("tail", "aggregated"):
            one, other = (parts(**details, **{field: f"took {ms} ms"}) for ms in (5, 6))
            assert same(tool, one, other), (kind, details, field)


SIGNED: dict[str, tuple[dict[str, Any], Any, Any, bool]] = {
    "all": ({}, {"q": 1, "why": "a"}, {"q": 1, "why": "b"}, False),
    "ignored": ({"ignore_arguments": ("why",)}, {"q": 1, "why": "a"}, {"q": 1, "why": "b"}, True),
    "ignored in depth": ({"ignore_arguments": ("why",)}, {"q": [{"why": "a"}]}, {"q": [{"why": "b"}]}, True),
    "ignored by pointer": ({"ignore_arguments": ("/q/why",)}, {"q": {"why": 1}}, {"q": {"why": 2}}, True),
    "not that one": ({"ignore_arguments": ("/why",)}, {"q": {"why": 1}}, {"q": {"why": 2}}, False),
    "identity": ({"identity": ("id",)}, {"id": 1, "q": "a"}, {"id": 1, "q": "b"}, True),
    "identity that differs": ({"identity": ("id",)}, {"id": 1, "q": "a"}, {"id": 2, "q": "a"}, False),
    "identity by pointer": (
        {"identity": ("/a/id",)},
        {"a": {"id": 1}, "q": 1},
        {"a": {"id": 1}, "q": 2},
        True,
    ),
    "identity that is missing": ({"identity": ("id",)}, {"q": "a"}, {"id": None}, False),
    "identity of what is no mapping": ({"identity": ("id",)}, "one", "other", False),
}


@pytest.mark.parametrize("name", SIGNED)
def test_profiles_say_which_arguments_count(name: str) -> None:
    profile, one, other, alike = SIGNED[name]
    tool = use(**profile)
    assert (signature(tool, one) == signature(tool, other)) is alike
