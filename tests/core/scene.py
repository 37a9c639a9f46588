"""Strips for the tests of the core: those of `loopwarden.testing`, with turns and calls that still run.

`(ab)` is one model reply that asks for both calls at once, `a?` a call that goes on running, and `;` ends
all calls that still run, the newest first. These marks stand in the answer as they are; where an outcome
ends the run, the mark that brought it (or else the call) is `X`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loopwarden.guard import LoopGuard
from loopwarden.testing import LETTERS, Played

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from loopwarden.core.settings import Mode
    from loopwarden.events import Verdict

SMALL: Final[dict[str, Any]] = {
    "enabled": True,
    "warningThreshold": 3,
    "criticalThreshold": 5,
    "globalCircuitBreakerThreshold": 9,
    "unknownToolThreshold": 3,
}
"""Thresholds that fit into a line."""

SWITCHES: Final = (
    "genericRepeat",
    "knownPollNoProgress",
    "pingPong",
    "cycle",
    "unknownToolChurn",
    "repeatedFailure",
    "failureStreak",
    "stagnation",
)

LONG: Final = "These are the three lines that the index gives for whatever is asked of it."

LEGEND: Final[tuple[tuple[str, str, Mapping[str, Any], Any], ...]] = (
    ("e", "edit", {"path": "f", "content": "version {n}"}, "written"),
    ("i", "edit", {"path": "f", "content": "the same"}, "written"),
    ("p", "process", {"action": "poll", "sessionId": "s1"}, "running"),
    ("q", "process", {"action": "poll", "sessionId": "s2"}, "running"),
    ("z", "sleep", {"seconds": 5}, "slept"),
    ("u", "search_web", {"query": "try {n}"}, "!Unknown tool: search_web"),
    ("v", "web_search", {"query": "try {n}"}, "!Unknown tool: web_search"),
    ("f", "exec", {"command": "deploy --try {n}"}, "!permission denied"),
    ("g", "fetch", {"url": "https://example.org/{n}"}, "!host {n} is down"),
    ("s", "search", {"query": "words in way {n}"}, LONG),
    ("x", "read", {"path": "part {n}"}, "part {n}"),
)
"""What letters stand for; others are calls of `read` with the letter as path. `{n}` is the call's number."""


def alone(*switches: str, **fields: Any) -> dict[str, Any]:
    """Small thresholds with only these detectors switched on."""
    return {**SMALL, "detectors": {name: name in switches for name in SWITCHES}, **fields}


def act(
    strip: str,
    config: Mapping[str, Any] = SMALL,
    *,
    legend: Iterable[tuple[str, str, Mapping[str, Any], Any]] = LEGEND,
    mode: Mode = "enforce",
    run_id: str | None = "run",
) -> Played:
    """Play a strip; there is one verdict for each call, compaction and message, and none for marks."""
    return _Stage(LoopGuard(config, mode=mode, on_error="raise"), legend, run_id).play(strip)


class _Stage:
    def __init__(self, guard: LoopGuard, legend: Iterable[Any], run_id: str | None) -> None:
        self.guard = guard
        self.run_id = run_id
        self.meanings = {letter: (tool, arguments, came) for letter, tool, arguments, came in legend}
        self.turn: str | None = None
        self.due: list[tuple[str, str, int]] = []
        self.running: list[tuple[str, str, int]] = []
        self.letters: list[str] = []
        self.verdicts: list[Verdict] = []

    def play(self, strip: str) -> Played:
        for place, mark in enumerate(strip):
            if mark == "(":
                self.end()
                self.turn = f"turn {place}"
            elif mark == "?":
                self.running.append(self.due.pop())
            elif mark.isalpha():
                if self.turn is None:
                    self.end()
                self.ask(mark, place)
                continue
            else:
                self.end()
            self.mark(mark)
        self.end()
        return Played("".join(self.letters), tuple(self.verdicts))

    def mark(self, mark: str) -> None:
        if mark == ")":
            self.turn = None
        elif mark == ";":
            self.letters.append(mark)
            self.due, self.running = self.running[::-1], []
            self.end()
            return
        elif mark == "|":
            verdict = self.guard.compacted(run_id=self.run_id)
            self.verdicts.append(verdict)
            mark = "X" if verdict.action == "abort" else mark
        elif mark == "@":
            self.verdicts.append(self.guard.user_message(run_id=self.run_id))
        self.letters.append(mark)

    def ask(self, letter: str, place: int) -> None:
        usual = letter.lower()
        number = len(self.verdicts) + 1
        tool, arguments, _ = self.meanings.get(usual, ("read", {"path": usual}, None))
        verdict = self.guard.before(
            _fill(tool, number),
            {name: _fill(value, number) for name, value in arguments.items()},
            call_id=f"call {place}",
            run_id=self.run_id,
            turn_id=self.turn,
        )
        self.letters.append(LETTERS[verdict.would or verdict.action])
        self.verdicts.append(verdict)
        if verdict.action not in {"block", "abort"}:
            self.due.append((letter, f"call {place}", number))
        else:
            self.due.append((letter, "", number))

    def end(self) -> None:
        """Give the outcomes that are due; an abort stands at the newest mark."""
        for letter, call_id, number in self.due:
            if not call_id:
                continue
            came = self.meanings.get(letter.lower(), ("", {}, f"content of {letter.lower()}"))[2]
            came = _fill(came, number)
            if isinstance(came, str) and letter.isupper():
                came = f"{came} ({number})"
            if isinstance(came, str) and came.startswith("!"):
                verdict = self.guard.after(call_id, error=came[1:], run_id=self.run_id)
            else:
                result = {"content": [{"type": "text", "text": came}]} if isinstance(came, str) else came
                verdict = self.guard.after(call_id, result=result, run_id=self.run_id)
            if verdict.action == "abort" or verdict.would == "abort":
                self.letters[-1] = "X"
                self.verdicts[-1] = verdict
        self.due = []


def _fill(value: Any, number: int) -> Any:
    return value.replace("{n}", str(number)) if isinstance(value, str) else value
