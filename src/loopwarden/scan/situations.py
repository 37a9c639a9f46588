"""Situations: what happened, and bounds on the right verdicts; a user's regression tests.

One JSON object a line, in one of two formats that are told apart by `expect`. A *case* has bounds
(`{"first_warn": 4, "never": "block"}`) and plays in its own mode; a *recording* has one entry per
call, `null` or `[level, detector, count]`, and plays in observe mode, as the reference recorded it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from loopwarden.config import load_config
from loopwarden.errors import LONGEST_REASON, TranscriptError
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.guard import LoopGuard
from loopwarden.masking import clean
from loopwarden.scan.bounds import Answer, broken_bounds, check_bound
from loopwarden.transcripts.events import FIELDS
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.parsing import exact
from loopwarden.transcripts.shape import seconds
from loopwarden.transcripts.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from loopwarden.config import Config
    from loopwarden.core.settings import Mode
    from loopwarden.events import Action, Event, Verdict

Expected: TypeAlias = tuple[str, str, int] | None
"""Level, detector and count of one recorded verdict; `None` where there was none."""

BEYOND_THE_REFERENCE: Final = ("cycle", "unknownToolChurn", "repeatedFailure", "failureStreak", "stagnation")
"""The switches that are off while a recording is played: the reference had no such detectors."""

MOST_NAMED: Final = 20
"""Most lines of a file that are named as being no situations."""

_MODES: Final = ("enforce", "observe")
_FIELDS: Final = ("id", "kind", "title", "mode", "config", "events", "expect")
_NEVER_BROKEN: Final = frozenset({"never", "allowed"})
"""Bounds that hold where the guard says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One line of a file.

    Attributes:
        id: Names the situation in reports.
        title: What it is about; empty for recordings.
        format: Which of the two formats the line has.
        mode: `enforce`: outcomes of refused calls are left out; `observe`: everything ran.
        config: A `tools.loopDetection` block as a user writes it; `None`: the situation has none.
        events: What happened, in order of time.
        always: Indices of the outcomes in `events` that are fed even if their call was refused.
        bounds: Bounds of a case, name to value; empty for a recording.
        expected: One entry per call of a recording; empty for a case.
    """

    id: str
    title: str = ""
    format: Literal["case", "recording"]
    mode: Mode
    config: Mapping[str, Any] | None
    events: tuple[Event, ...]
    always: frozenset[int] = frozenset()
    bounds: Mapping[str, Any] = field(default_factory=dict)
    expected: tuple[Expected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a situation went.

    Attributes:
        situation: What was played.
        held: Whether every expectation was met.
        failures: One line per expectation that was not.
        verdicts: The verdict on each call event, in order.
        idle: Whether it held only because nothing acts: it is a case that says what must not happen, and
            the configuration lets no detector do it.
    """

    situation: Situation
    held: bool
    failures: list[str]
    verdicts: list[Verdict]
    idle: bool = False


class SituationsError(TranscriptError):
    """Lines of a file are no situations.

    Attributes:
        lines: What is wrong, one line of bounded length for each.
    """

    def __init__(self, source: str, lines: list[str]) -> None:
        super().__init__(source, lines[0])
        self.lines = tuple(clean(line, LONGEST_REASON) for line in lines)
        if len(lines) > 1:
            most = f"the first {len(lines)}" if len(lines) >= MOST_NAMED else str(len(lines))
            self.args = ("\n  ".join([f"{self.source}: {most} lines are no situations", *self.lines]),)


def load_situations(path: Path) -> list[Situation]:
    """Every situation of a file, in order; blank lines are skipped.

    Raises:
        TranscriptError: The file can't be read.
        SituationsError: Lines are no situations; the first `MOST_NAMED` are told, each with its number.
    """
    source = Source(path)
    found: list[Situation] = []
    notes = ReadNotes()
    faults: list[tuple[int, str]] = []
    for number, line in source.lines(notes):
        try:
            found.append(_situation(exact(line), number))
        except ValueError as error:
            faults.append((number, f"no valid JSON: {str(error).splitlines()[0]}"))
        except _WrongError as error:
            faults.append((number, str(error)))
        if len(faults) == MOST_NAMED:
            break
    if "long_line" in notes.counts:
        faults.append((notes.first_line["long_line"], "too long"))
    if faults:
        lines = [f"line {number}: {fault}" for number, fault in sorted(faults)]
        raise SituationsError(source.label, lines)
    if not found:
        raise TranscriptError(source.label, "holds no situation")
    return found


def play(situation: Situation, config_override: Mapping[str, Any] | Config | None = None) -> Result:
    """Feed the situation to a fresh guard and check every expectation.

    Args:
        situation: What to play.
        config_override: Used in place of the situation's own configuration, exactly as it is. Without
            either the one that `load_config` finds.

    Raises:
        ConfigError: The configuration is wrong.
    """
    config = load_config(config_override if config_override is not None else _own_config(situation))
    session = LoopGuard(config, mode=situation.mode).session("situation")
    refused: set[tuple[str | None, str]] = set()
    verdicts: list[Verdict] = []
    answers: list[Answer] = []
    for index, event in enumerate(situation.events):
        if (
            isinstance(event, Outcome)
            and (event.run_id, event.call_id) in refused
            and index not in situation.always
        ):
            continue
        verdict, _ = session.examine(event)
        action: Action = verdict.action if situation.mode == "enforce" else verdict.would or "allow"
        if isinstance(event, ToolCall):
            verdicts.append(verdict)
            known = (event.run_id, event.call_id)
            if verdict.action in ("block", "abort"):
                refused.add(known)
            else:
                refused.discard(known)
        answers.append(
            Answer(calls=len(verdicts), call=isinstance(event, ToolCall), action=action, verdict=verdict)
        )
    if situation.format == "recording":
        failures = _differences(situation.expected, verdicts)
    else:
        failures = broken_bounds(situation.bounds, answers)
    return Result(
        situation=situation,
        held=not failures,
        failures=failures,
        verdicts=verdicts,
        idle=_cannot_fail(situation, config),
    )


def _cannot_fail(situation: Situation, config: Config) -> bool:
    """Whether a case only says what must not happen, with a guard that does nothing in it."""
    enabled = config.settings().enabled
    silent = enabled is False or (
        enabled is None
        and situation.mode == "enforce"
        and not any(isinstance(event, Compaction) for event in situation.events)
    )
    return silent and situation.format == "case" and situation.bounds.keys() <= _NEVER_BROKEN


def _own_config(situation: Situation) -> Mapping[str, Any] | None:
    if situation.format == "case" or situation.config is None:
        return situation.config
    written = situation.config.get("detectors")
    switches = dict(written) if isinstance(written, dict) else {}
    return {
        **situation.config,
        "detectors": switches | dict.fromkeys(BEYOND_THE_REFERENCE, False),
        "resetOnWrite": False,
    }


def _differences(expected: tuple[Expected, ...], verdicts: list[Verdict]) -> list[str]:
    failures = []
    for number, (wanted, verdict) in enumerate(zip(expected, verdicts, strict=True), 1):
        got = None if verdict.level is None else (verdict.level, verdict.detector or "", verdict.count)
        if got != wanted:
            failures.append(f"call {number}: expected {_entry(wanted)}, got {_entry(got)}")
    return failures


def _entry(entry: Expected) -> str:
    return "nothing" if entry is None else f"{entry[0]} {entry[1]} with count {entry[2]}"


class _WrongError(Exception):
    """Why a line is no situation."""


def _situation(record: Any, number: int) -> Situation:
    if not isinstance(record, dict):
        raise _WrongError("a situation is a JSON object")
    _known_only(record, _FIELDS, "a situation")
    config = record.get("config")
    if config is not None and not isinstance(config, dict):
        raise _WrongError("`config` must be an object (a tools.loopDetection block)")
    written = record.get("events")
    if not isinstance(written, list):
        raise _WrongError("`events` must be a list")
    runs: dict[str, str | None] = {}
    events = tuple(_event(entry, f"event {place}", runs) for place, entry in enumerate(written, 1))
    always = frozenset(place for place, entry in enumerate(written) if entry.get("always") is True)
    expect = record.get("expect")
    calls = sum(isinstance(event, ToolCall) for event in events)
    mode = record.get("mode")
    if mode not in (None, *_MODES):
        raise _WrongError(f"`mode` is {mode!r}; allowed are {' and '.join(_MODES)}")
    recording = isinstance(expect, list)
    if recording and mode == "enforce":
        raise _WrongError("`mode` is 'enforce', but `expect` is a list: a recording plays in observe mode")
    situation = Situation(
        id=str(record.get("id", f"line {number}")),
        title=str(record.get("title", "")),
        format="recording" if recording else "case",
        mode="observe" if recording else cast("Mode", mode or "enforce"),
        config=config,
        events=events,
        always=always,
    )
    if isinstance(expect, list):
        return replace(situation, expected=_recorded(expect, calls))
    return replace(situation, bounds=_bounds(expect, calls))


def _known_only(entry: dict[str, Any], known: Collection[str], what: str) -> None:
    for name in entry:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise _WrongError(f"{what} has no field {name!r}{hint}; known are {', '.join(known)}")


def _bounds(expect: Any, calls: int) -> dict[str, Any]:
    if not isinstance(expect, dict):
        raise _WrongError("`expect` must be an object of bounds or a list with one entry per call")
    if not expect:
        raise _WrongError("`expect` is empty, so the situation cannot fail; give a bound")
    for name, value in expect.items():
        fault = check_bound(name, value, calls)
        if fault is not None:
            raise _WrongError(f"`expect`: {fault}")
    return expect


def _recorded(expect: list[Any], calls: int) -> tuple[Expected, ...]:
    if len(expect) != calls:
        raise _WrongError(f"`expect` has {len(expect)} entries for {calls} calls")
    if not expect:
        raise _WrongError("`expect` is empty, so the situation cannot fail; record a call")
    return tuple(_expected(entry, place) for place, entry in enumerate(expect, 1))


def _expected(entry: Any, place: int) -> Expected:
    match entry:
        case None:
            return None
        case [str() as level, str() as detector, int() as count]:
            return level, detector, count
        case _:
            raise _WrongError(f"`expect` entry {place} must be null or [level, detector, count]")


def _event(entry: Any, where: str, runs: dict[str, str | None]) -> Event:
    """One event as written; `runs` has the run of each call so far, for outcomes that do not name it."""
    if not isinstance(entry, dict):
        raise _WrongError(f"{where} must be an object")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise _WrongError(f"{where} has type {kind!r}; allowed are {', '.join(FIELDS)}")
    _known_only(entry, sorted(FIELDS[kind] - {"stream"}), f"{where} ({kind})")
    run = _text(entry, "run", where, optional=True)
    at = _time(entry, where)
    match kind:
        case "call":
            call_id = cast("str", _text(entry, "id", where))
            runs[call_id] = run
            return ToolCall(
                tool=cast("str", _text(entry, "tool", where)),
                arguments=entry.get("args"),
                call_id=call_id,
                run_id=run,
                turn_id=_text(entry, "turn", where, optional=True),
                at=at,
            )
        case "outcome":
            if ("result" in entry) == ("error" in entry):
                raise _WrongError(f"{where} (outcome) must have either `result` or `error`")
            call_id = cast("str", _text(entry, "id", where))
            return Outcome(
                call_id=call_id,
                result=entry.get("result"),
                error=_text(entry, "error", where, optional=True),
                unknown_tool=_text(entry, "unknown_tool", where, optional=True),
                run_id=run if run is not None else runs.get(call_id),
                at=at,
            )
        case "compaction":
            return Compaction(run_id=run, continues=_text(entry, "continues", where, optional=True), at=at)
        case "user":
            return UserMessage(run_id=run, at=at)
        case _:
            ids = entry.get("ids")
            if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
                raise _WrongError(f"{where} (retract) must have `ids`, a list of texts")
            return Retraction(call_ids=tuple(ids), run_id=run, at=at)


def _text(entry: dict[str, Any], name: str, where: str, *, optional: bool = False) -> str | None:
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) or (optional and value is None):
        return value
    raise _WrongError(f"{where}: `{name}` must be a text, not {type(value).__name__}")


def _time(entry: dict[str, Any], where: str) -> float | None:
    value = entry.get("at")
    found = seconds(value)
    if found is None and value is not None:
        raise _WrongError(f"{where}: `at` must be a number of seconds or a time in ISO 8601")
    return found
