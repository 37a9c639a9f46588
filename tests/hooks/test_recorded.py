"""Events of the real programs, and what they were answered; written by `scripts/check-agents --record`.

The programs ran with a scripted model and small thresholds: parallel calls, a call that fails, a compaction,
the same call until the run is over, a sub-agent. Events of programs that were not run are written by hand,
after their vendors' documentation, and say so: calls, one that fails, a compaction, a loop.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.hooks.answering import Answering
from loopwarden.hooks.faults import faults
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.payload import read_event
from tests.agents.place import TIGHT, TIGHTER
from tests.agents.recordings import FOLDER, recorded

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.hooks.answers import Answer

NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))

SEEN = {
    "claude-code": {"before", "after", "failed", "batch", "prompt", "compacted", "ended"},
    "codex": {"before", "after", "compacted"},
    "gemini": {"before", "after", "prompt", "request", "ended"},
    "qwen": {"before", "after", "failed", "batch", "compacted", "request"},
    "kimi": {"before", "after", "failed", "prompt", "compacted"},
    "copilot": {"before", "after", "failed", "prompt", "compacted"},
    "cursor": {"before", "after", "failed", "compacted"},
    "hermes": {"before", "after"},
}
"""Kinds of events in a recording."""

DECISIONS = ("permissionDecision", "permission", "decision")

SETTINGS = {"qwen": TIGHTER}
"""Other settings than `TIGHT`."""


def test_what_was_not_recorded_says_so() -> None:
    for name in NAMES:
        sources = {line.get("source") for line in recorded(name)}
        assert sources == ({"documentation"} if HOSTS[name].tested == "payloads" else {None})
    assert set(NAMES) == {name for name, host in HOSTS.items() if host.dialect != "plugin"}


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_where_the_table_says(name: str) -> None:
    host = HOSTS[name]
    kinds = set()
    for line in recorded(name):
        data = line["event"]
        event = read_event(host, json.dumps(data).encode(), line.get("name"))
        if event.kind is None:
            continue
        kinds.add(event.kind)
        assert event.session
        assert event.project == "/home/user/project"
        if event.kind in {"before", "after", "failed"}:
            assert len(event.calls) == 1, data
        for call in event.calls:
            assert call.tool
            assert isinstance(call.arguments, dict)
            assert (call.call_id is not None) == bool(host.fields.call)
            assert event.run is not None or not host.fields.run
            assert event.kind == "before" or (call.result is not None) or (call.error is not None)
        assert event.kind != "request" or name != "gemini" or event.summary is not None
    assert kinds == SEEN[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_are_what_they_were(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "loopwarden.json5"
    path.write_text(json.dumps({"tools": {"loopDetection": SETTINGS.get(name, TIGHT)}}), encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    answering = Answering(tmp_path)
    variables = {"LOOPWARDEN_CONFIG": str(path)}
    answers = [
        said(answering.answer(name, json.dumps(line["event"]).encode(), variables, line.get("name")))
        for line in recorded(name)
    ]
    answering.close()
    assert faults(tmp_path) == []
    then = [line["answer"] for line in recorded(name)]
    assert [decision(answer) for answer in answers] == [decision(answer) for answer in then]
    assert {("refused", False), ("nothing", True), ("refused", True)} & {decision(answer) for answer in then}


def said(answer: Answer) -> dict[str, Any] | None:
    """An answer as it is recorded."""
    said: dict[str, Any] | None = json.loads(answer.out or "null")
    return {"stderr": answer.err.decode()} if answer.code == 2 else said


def decision(answer: dict[str, Any] | None) -> tuple[str, bool]:
    """What an answer decides, and whether it ends the run; not its words."""
    if answer is None:
        return "nothing", False
    specific = answer.get("hookSpecificOutput", {})
    decisions = {one.get(key) for one in (answer, specific) for key in DECISIONS}
    refused = not decisions.isdisjoint({"deny", "block"})
    told = (
        "told" if {"additionalContext", "additional_context", "stderr"} & {*answer, *specific} else "nothing"
    )
    return "refused" if refused else told, answer.get("continue") is False
