"""For tests of agents, adapters and configurations: strips of letters in, strips of verdicts out.

A strip is a run written down as letters, one a call. `a` is a call with its usual result, `A` the same
call with a new result; other letters are other calls. `|` is a compaction, `@` a user message. The
answer is a strip of the same length: `.` allow, `w` warn, `B` block, `X` abort.

    >>> from loopwarden.testing import play
    >>> play("aaaaaaaaaaaaaaaaaaaaaaa", {"enabled": True}).strip
    '..........wwwwwwwwwwBBB'
    >>> play("aAaAaAaAaAaAaAaAaAaAaAaAa", {"enabled": True}).strip
    '..........wwwwwwwwwwwwwww'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from loopwarden.guard import LoopGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from loopwarden.config import Config
    from loopwarden.core.settings import Mode
    from loopwarden.events import Verdict

Legend: TypeAlias = "Iterable[tuple[str, str, Mapping[str, Any], str]]"
"""What letters stand for: letter, tool, arguments, and the text of the result; a text that begins with `!`
is an error. `{n}` in an argument or a text is the number of the call."""

LETTERS: Final = {"allow": ".", "warn": "w", "block": "B", "abort": "X"}
"""The letter for each action."""


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a strip.

    Attributes:
        strip: One letter for each of the strip: `.` allow, `w` warn, `B` block, `X` abort (also where an
            outcome or a compaction ended the run); `|` and `@` where a compaction or a message did nothing.
        verdicts: One verdict for each letter; for a call whose outcome ended the run, that verdict.
    """

    strip: str
    verdicts: tuple[Verdict, ...]


def play(
    strip: str,
    config: Config | Mapping[str, Any] | None = None,
    *,
    legend: Legend = (),
    mode: Mode = "enforce",
    run_id: str | None = "run",
) -> Played:
    """Play a run and say what the guard answered.

    Args:
        strip: The run.
        config: A `tools.loopDetection` block or a `Config`; `None` for the defaults.
        legend: What letters stand for; others are calls of `read` with the letter as path.
        mode: As for `LoopGuard`; in `observe` the letters say what would have been done.
        run_id: Run of the calls; `None` for the unscoped session.

    Raises:
        ConfigError: The configuration is wrong.
        ValueError: The strip has a letter that means nothing.
    """
    guard = LoopGuard({} if config is None else config, mode=mode, on_error="raise")
    meanings = {letter: (tool, arguments, text) for letter, tool, arguments, text in legend}
    verdicts: list[Verdict] = []
    letters: list[str] = []
    for number, letter in enumerate(strip, 1):
        if letter == "|":
            verdict = guard.compacted(run_id=run_id)
            letters.append("X" if _action(verdict) == "abort" else "|")
        elif letter == "@":
            verdict = guard.user_message(run_id=run_id)
            letters.append("@")
        else:
            verdict = _call(guard, letter, number, meanings, run_id)
            letters.append(LETTERS[_action(verdict)])
        verdicts.append(verdict)
    return Played("".join(letters), tuple(verdicts))


@dataclass(slots=True)
class ScriptedAgent:
    """An agent without a model: it asks for the calls of a script and reacts to refusals as told.

    Attributes:
        guard: The guard that it asks.
        tools: Functions by name; a name that is missing is an unknown tool.
        on_refusal: `insist` goes on with the script, `stop` ends the run.
        run_id: Its run.
    """

    guard: LoopGuard
    tools: Mapping[str, Callable[..., Any]]
    on_refusal: Literal["insist", "stop"] = "insist"
    run_id: str | None = "run"

    def run(self, script: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Verdict]:
        """Ask for each call (tool and arguments) in turn; returns the verdicts up to the end of the run."""
        verdicts: list[Verdict] = []
        for number, (tool, arguments) in enumerate(script, 1):
            call_id = f"call-{number}"
            verdict = self.guard.before(tool, dict(arguments), call_id=call_id, run_id=self.run_id)
            if verdict.action in {"allow", "warn"}:
                ended = self._execute(tool, arguments, call_id)
                verdict = ended if ended.action == "abort" else verdict
            verdicts.append(verdict)
            if verdict.action == "abort" or (verdict.action == "block" and self.on_refusal == "stop"):
                break
        return verdicts

    def _execute(self, tool: str, arguments: Mapping[str, Any], call_id: str) -> Verdict:
        function = self.tools.get(tool)
        if function is None:
            return self.guard.after(call_id, error=f"Unknown tool: {tool}", run_id=self.run_id)
        try:
            result = function(**arguments)
        except Exception as error:  # noqa: BLE001 - whatever the tool raises is its outcome
            return self.guard.after(call_id, error=error, run_id=self.run_id)
        return self.guard.after(call_id, result=result, run_id=self.run_id)


def _call(
    guard: LoopGuard,
    letter: str,
    number: int,
    meanings: Mapping[str, tuple[str, Mapping[str, Any], str]],
    run_id: str | None,
) -> Verdict:
    if not letter.isalpha():
        raise ValueError(f"{letter!r} is no letter of a strip; allowed: letters, '|' and '@'")
    usual = letter.lower()
    tool, arguments, text = meanings.get(usual, ("read", {"path": usual}, f"content of {usual}"))
    call_id = f"call-{number}"
    filled = {name: _fill(value, number) for name, value in arguments.items()}
    verdict = guard.before(tool, filled, call_id=call_id, run_id=run_id)
    if verdict.action in {"block", "abort"}:
        return verdict
    said = _fill(text, number) + (f" ({number})" if letter != usual else "")
    if said.startswith("!"):
        ended = guard.after(call_id, error=said[1:], run_id=run_id)
    else:
        ended = guard.after(call_id, result={"content": [{"type": "text", "text": said}]}, run_id=run_id)
    return ended if ended.detector is not None else verdict


def _fill(value: Any, number: int) -> Any:
    return value.replace("{n}", str(number)) if isinstance(value, str) else value


def _action(verdict: Verdict) -> str:
    return verdict.would or verdict.action
