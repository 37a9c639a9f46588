"""A run as a program sees it that follows its journal: the state, and answers that may be wanted again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from loopwarden.core.snapshot import pack, unpack
from loopwarden.core.steps import step_of, stray, take
from loopwarden.errors import StoreError
from loopwarden.events import ALLOW, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.core.profile import ToolUses
    from loopwarden.core.run_state import RunState
    from loopwarden.core.settings import Settings
    from loopwarden.core.steps import Step
    from loopwarden.events import Event
    from loopwarden.stores.journal import Found, Place

ANSWERS: Final = 64
"""Answers of a run that are remembered. They are part of its journal, so that all programs agree on them."""

_DAMAGE: Final = (AttributeError, LookupError, TypeError, ValueError)


class Mark(NamedTuple):
    """What an event is known by when it comes again.

    Attributes:
        name: Of the event.
        digest: Of all that it says; with another one it is another event.
        ends: Name of an event that is over with this one, and may come anew.
    """

    name: str
    digest: str
    ends: str | None


class Over(NamedTuple):
    """What a host says of a run of which nothing is to be kept.

    Attributes:
        run_id: The run.
    """

    run_id: str | None


class Told(NamedTuple):
    """An event that the guard is told along with others.

    Attributes:
        session: Its session; `None`: the guard's own.
        event: What happened, or that the run is over.
        mark: What it is known by when it comes again; `None`: nothing.
    """

    session: str | None
    event: Event | Over
    mark: Mark | None = None


class Answered(NamedTuple):
    """An answer.

    Attributes:
        verdict: The answer.
        compared: As `RunState.compared`.
        again: Whether the event had been answered before, and did not count.
    """

    verdict: Verdict
    compared: bytes | None = None
    again: bool = False


class Line(NamedTuple):
    """A step on its way into a journal.

    Attributes:
        data: As it stands there.
        mark: What the step is known by.
        step: What `take` takes.
    """

    data: bytes
    mark: Mark | None
    step: Step


class LiveRun:
    """A run up to some place in its journal. For one thread at a time.

    A journal holds lines of JSON: a state where it was written anew, and the answers that belong to it; then
    the steps, each in a list of its mark and the step itself.

    Args:
        begin: Gives the state of a run that has just begun.
        settings: The settings of the run.
        uses: As for `RunState`.

    Attributes:
        state: The state.
        place: Up to where; `None`: nothing is stored.
        steps: Taken since the journal was written anew.
        size: Bytes of them.
        used: When it was used last.
        damage: What was wrong with the journal, after which the run starts afresh.
    """

    __slots__ = (
        "_answers",
        "_begun",
        "_settings",
        "_uses",
        "damage",
        "place",
        "size",
        "state",
        "steps",
        "used",
    )

    def __init__(self, begin: Callable[[], RunState], settings: Settings, uses: ToolUses) -> None:
        self._begun = begin
        self._settings = settings
        self._uses = uses
        self._answers: dict[str, tuple[str, Verdict]] = {}
        self.state = begin()
        self.place: Place | None = None
        self.steps = 0
        self.size = 0
        self.used = 0.0
        self.damage: StoreError | None = None

    def line(self, event: Event, mark: Mark | None, *, current: bool) -> Line | None:
        """An event as a line of the journal.

        Args:
            event: What happened.
            mark: What it is known by.
            current: Whether all is known that stands in the journal.

        Returns:
            The line; `None` for one that can't be made before all is known.
        """
        step = step_of(event, self.state, self._uses)
        if step is None and current and isinstance(event, Outcome):
            step = stray(str(event.call_id))
        if step is None:
            return None
        return Line(_dump([list(mark) if mark is not None else None, step]) + b"\n", mark, step)

    def known(self, mark: Mark | None) -> Answered | None:
        """What this event was answered; `None` for one that is new."""
        found = self._answers.get(mark.name) if mark is not None else None
        return Answered(found[1], again=True) if mark and found and found[0] == mark.digest else None

    def follow(self, found: Found) -> None:
        """Take in what others have put into the journal, as the store says."""
        if found.afresh:
            self._begin()
        self.place = found.place
        try:
            for line in found.news.split(b"\n"):
                if line:
                    self._follow(line)
        except StoreError as error:
            self._begin()
            self.damage = error

    def take(self, mark: Mark | None, step: Step, size: int) -> Answered:
        """Take a step whose line has a size in bytes.

        Raises:
            StoreError: It is damaged.
        """
        self.steps += 1
        self.size += size
        known = self.known(mark)
        if known is not None:
            return known
        verdict = take(step, self.state, self._uses)
        if mark is not None:
            self._remember(mark, verdict)
        return Answered(verdict, self.state.compared)

    def written(self) -> bytes:
        """All of it as a journal that is written anew."""
        answers = [[name, digest, _fields(verdict)] for name, (digest, verdict) in self._answers.items()]
        return pack(self.state) + b"\n" + (_dump({"answers": answers}) + b"\n" if answers else b"")

    def _follow(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            self.take(*_step(line), len(line) + 1)
        elif line.startswith(b'{"answers":'):
            self._answers.update(_answers(line))
        else:
            self.state = unpack(line, self._settings, self._uses)

    def _begin(self) -> None:
        self.state = self._begun()
        self._answers.clear()
        self.steps = self.size = 0

    def _remember(self, mark: Mark, verdict: Verdict) -> None:
        answers = self._answers
        if mark.ends is not None:
            answers.pop(mark.ends, None)
        answers.pop(mark.name, None)
        answers[mark.name] = mark.digest, verdict
        if len(answers) > ANSWERS:
            del answers[next(iter(answers))]


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates in names and ids
        return json.dumps(value, separators=(",", ":")).encode()


def _parse(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            return json.loads(line)
        except (RecursionError, ValueError) as error:
            raise StoreError(f"a line of a run is damaged: {error}") from error


def _fields(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON values, without what is as in `ALLOW`."""
    found = {name: getattr(verdict, name) for name in Verdict.__slots__}
    return {name: value for name, value in found.items() if value != getattr(ALLOW, name)}


def _answers(line: bytes) -> dict[str, tuple[str, Verdict]]:
    try:
        return {
            str(name): (
                str(digest),
                Verdict(**{**fields, "paired_tools": tuple(fields.get("paired_tools", ()))}),
            )
            for name, digest, fields in _parse(line)["answers"]
        }
    except _DAMAGE as error:
        raise StoreError(f"the answers of a run are damaged: {error}") from error


def _step(line: bytes) -> tuple[Mark | None, Step]:
    try:
        found, step = _parse(line)
        if type(step) is not list:
            raise TypeError("a step is a list")
        if found is None:
            return None, step
        mark = Mark(*found)
        if type(mark.name) is not str or type(mark.digest) is not str:
            raise TypeError("a mark is of texts")
    except _DAMAGE as error:
        raise StoreError(f"a line of a run is no step: {error}") from error
    return mark, step
