"""Situations: reading them, playing them, and what is said of those that do not hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.config import load_config
from loopwarden.errors import ConfigError, TranscriptError
from loopwarden.events import Outcome
from loopwarden.scan.situations import load_situations, play

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.scan.situations import Result, Situation

TUNED = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 4}


def calls(count: int, **extra: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for number in range(count):
        events.append({"type": "call", "id": f"c{number}", "tool": "t", "args": {"a": 1}, **extra})
        events.append({"type": "outcome", "id": f"c{number}", "result": "same", **extra})
    return events


def case(expect: Any, count: int = 8, **given: Any) -> dict[str, Any]:
    return {"id": "one", "config": TUNED, "events": calls(count), "expect": expect} | given


def load(tmp_path: Path, *records: dict[str, Any]) -> list[Situation]:
    path = tmp_path / "situations.jsonl"
    path.write_text("\n\n".join(json.dumps(record) for record in records))
    return load_situations(path)


def played(tmp_path: Path, record: dict[str, Any], override: Any = None) -> Result:
    (situation,) = load(tmp_path, record)
    return play(situation, override)


@pytest.mark.parametrize(
    ("expect", "failure"),
    [
        ({"first_warn": 3, "first_block": 5, "blocked": [5, 6], "allowed": [1, 4]}, None),
        ({"warn_by": 3, "block_by": 5, "never": "abort", "detector": "generic_repeat"}, None),
        ({"warn_by": 2}, "warn_by 2: no warning up to call 2 (first: warn at call 3 by generic_repeat)"),
        ({"block_by": 4}, "block_by 4: no block up to call 4 (first: block at call 5 by generic_repeat)"),
        ({"abort_by": 8}, "abort_by 8: no abort up to call 8 (first: never)"),
        ({"never": "warn"}, "never warn: warn at call 3 by generic_repeat"),
        ({"never": "block"}, "never block: block at call 5 by generic_repeat"),
        ({"first_warn": 4}, "first_warn 4: first answer other than allow: warn at call 3 by generic_repeat"),
        ({"first_block": 6}, "first_block 6: first block or abort: block at call 5 by generic_repeat"),
        ({"blocked": [4, 5]}, "blocked [4, 5]: ran: [4]"),
        ({"allowed": [1, 5]}, "allowed [1, 5]: block at call 5 by generic_repeat"),
        ({"detector": "cycle"}, "detector cycle: first finding: block at call 5 by generic_repeat"),
        ({"error": "tool_loop_persisted"}, "error tool_loop_persisted: first abort: never"),
    ],
)
def test_bounds(tmp_path: Path, expect: dict[str, Any], failure: str | None) -> None:
    result = played(tmp_path, case(expect))
    assert result.failures == ([] if failure is None else [failure])
    assert result.held is (failure is None)
    assert len(result.verdicts) == 8


def test_an_abort_by_a_compaction_counts(tmp_path: Path) -> None:
    events = [{"type": "compaction", "run": "r"}] * 3 + calls(1, run="r")
    expect = {"abort_by": 1, "error": "compaction_loop_persisted"}
    assert played(tmp_path, case(expect, events=events)).held
    assert not played(tmp_path, case({"never": "abort"}, events=events)).held


def test_outcomes_of_refused_calls_are_fed_only_if_the_host_reports_them(tmp_path: Path) -> None:
    events = calls(6)
    assert played(tmp_path, case({"blocked": [5, 6]}, events=events)).held
    events[-3] = {"type": "outcome", "id": "c4", "error": "refused", "always": True}
    assert played(tmp_path, case({"blocked": [5, 6]}, events=events)).held


def test_observe_mode_answers_what_would_have_been(tmp_path: Path) -> None:
    result = played(tmp_path, case({"first_warn": 3, "first_block": 5}, mode="observe"))
    assert result.held
    assert {verdict.action for verdict in result.verdicts} == {"allow"}


def test_recordings(tmp_path: Path) -> None:
    expect = [None, None, ["warning", "generic_repeat", 2], ["warning", "generic_repeat", 3]]
    record = {"config": TUNED, "events": calls(4), "expect": expect}
    result = played(tmp_path, record)
    assert (result.held, result.situation.id, result.situation.format) == (True, "line 1", "recording")
    record["expect"] = [None, ["warning", "cycle", 9], None, expect[3]]
    assert played(tmp_path, record).failures == [
        "call 2: expected warning cycle with count 9, got nothing",
        "call 3: expected nothing, got warning generic_repeat with count 2",
    ]


def test_another_configuration_takes_the_place_of_its_own(tmp_path: Path) -> None:
    record = case({"never": "warn"})
    assert not played(tmp_path, record).held
    assert played(tmp_path, record, {"enabled": True}).held
    assert played(tmp_path, record, load_config({"enabled": False})).held


def test_without_a_configuration_the_one_that_is_found_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tmp_path / "found.json5"
    monkeypatch.setenv("LOOPWARDEN_CONFIG", str(found))
    found.write_text("{ enabled: true, warningThreshold: 2, criticalThreshold: 4 }")
    for missing in ({"config": None}, {}):
        record = case({"first_warn": 3, "first_block": 5}, **missing)
        if not missing:
            del record["config"]
        assert played(tmp_path, record).held
    recording = {"events": calls(3), "expect": [None, None, ["warning", "generic_repeat", 2]]}
    assert played(tmp_path, recording).held


@pytest.mark.parametrize(
    ("expect", "fields", "idle"),
    [
        ({"never": "block"}, {}, True),
        ({"never": "block", "allowed": [1]}, {"config": {"enabled": False}}, True),
        ({"never": "block"}, {"config": {"enabled": False}, "mode": "observe"}, True),
        ({"never": "block"}, {"config": {"enabled": True}}, False),
        ({"never": "block"}, {"mode": "observe"}, False),
        ({"never": "abort"}, {"events": [{"type": "compaction"}, *calls(2)]}, False),
        ({"never": "block", "first_warn": 3}, {}, False),
    ],
)
def test_what_cannot_fail_is_marked(
    tmp_path: Path, expect: dict[str, Any], fields: dict[str, Any], idle: bool
) -> None:
    assert played(tmp_path, case(expect, **{"config": {}} | fields)).idle is idle


def test_a_wrong_configuration_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="warningTreshold"):
        played(tmp_path, case({"never": "warn"}, config={"warningTreshold": 3}))


def test_every_kind_of_event(tmp_path: Path) -> None:
    events = [
        {"type": "user", "run": "r", "at": 1},
        {"type": "call", "id": "c", "tool": "t", "run": "r", "turn": "x", "at": 2.5},
        {"type": "outcome", "id": "c", "error": "bad", "unknown_tool": "t", "at": "2026-01-02T03:04:05Z"},
        {"type": "call", "id": 7, "tool": "t"},
        {"type": "compaction", "run": "r2", "continues": "r"},
        {"type": "retract", "ids": ["c"], "run": "r2"},
    ]
    result = played(tmp_path, case({"never": "warn"}, events=events))
    assert result.held
    outcome = result.situation.events[2]
    assert isinstance(outcome, Outcome)
    assert (outcome.run_id, outcome.unknown_tool, outcome.at) == ("r", "t", 1767323045.0)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "a situation is a JSON object"),
        ({"events": 1}, "`events` must be a list"),
        ({"events": [], "config": 3}, "`config` must be an object"),
        ({"events": [7]}, "event 1 must be an object"),
        ({"events": [{"type": "cal"}]}, "event 1 has type 'cal'; allowed are call, outcome"),
        ({"events": [{"type": "call", "id": 1.5, "tool": "t"}]}, "event 1: `id` must be a text, not float"),
        ({"events": [{"type": "call", "id": True, "tool": "t"}]}, "event 1: `id` must be a text, not bool"),
        ({"events": [{"type": "call", "id": "c"}]}, "event 1: `tool` must be a text"),
        ({"events": [{"type": "user", "at": "now"}]}, "event 1: `at` must be a number of seconds"),
        ({"events": [{"type": "outcome", "id": "c"}]}, "must have either `result` or `error`"),
        ({"events": [{"type": "retract", "ids": "c"}]}, "must have `ids`, a list of texts"),
        ({"events": calls(1)}, "`expect` must be an object of bounds or a list"),
        ({"events": calls(1), "expect": []}, "`expect` has 0 entries for 1 calls"),
        ({"events": calls(1), "expect": [[1]]}, "`expect` entry 1 must be null or"),
        ({"events": calls(1), "expect": {"frist_warn": 1}}, "did you mean 'first_warn'"),
        ({"events": calls(1), "expect": {"first_warn": 2}}, "first_warn has 2; allowed are call numbers"),
        ({"events": calls(1), "expect": {"blocked": 1}}, "blocked must be a list of call numbers"),
        ({"events": calls(1), "expect": {"never": "allow"}}, "never is 'allow'; allowed are warn, block"),
        ({"events": calls(1), "expect": {"detector": "x"}}, "detector is 'x'; allowed are"),
        ({"events": calls(1), "expect": {}, "mode": "ask"}, "`mode` is 'ask'; allowed are enforce and"),
        ({"events": calls(1), "expect": [None], "mode": "enforce"}, "a recording plays in observe mode"),
        ({"events": calls(1), "expect": {}}, "`expect` is empty, so the situation cannot fail"),
        ({"events": [], "expect": []}, "`expect` is empty, so the situation cannot fail"),
        ({"events": calls(1), "expect": {"allowed": []}}, "allowed is empty; give call numbers"),
        (
            {"events": calls(1), "confg": {}},
            "a situation has no field 'confg' (did you mean 'config'?); known",
        ),
        (
            {"events": calls(1, argz={})},
            "event 1 (call) has no field 'argz' (did you mean 'args'?); known are",
        ),
        ({"events": calls(1, stream="s")}, "event 1 (call) has no field 'stream'"),
        (
            {"events": [{"type": "user", "tool": "t"}]},
            "event 1 (user) has no field 'tool'; known are at, run",
        ),
    ],
)
def test_what_is_no_situation_is_said_with_its_line(tmp_path: Path, record: Any, message: str) -> None:
    with pytest.raises(TranscriptError) as error:
        load(tmp_path, case({"never": "abort"}), record)
    assert error.value.reason.startswith("line 3: ")
    assert message in error.value.reason


@pytest.mark.parametrize(
    ("text", "message"), [("", "holds no situation"), ("{nope", "line 1: no valid JSON")]
)
def test_files_that_are_no_situations(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(TranscriptError, match=message):
        load_situations(path)
    with pytest.raises(TranscriptError, match="No such file"):
        load_situations(tmp_path / "missing.jsonl")
