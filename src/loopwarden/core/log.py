"""The calls of a run, in the order in which they were asked for: what the detectors look back on.

Entries have positions that only grow. A position is given when the turn of the call is over, so that
siblings of the present turn are no evidence against each other, and identical calls of one turn share
one. The log keeps the last `history_size` positions for the counts, and somewhat more for cycles.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final
from zlib import crc32

from loopwarden.core.fingerprint import Observed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.core.profile import ToolUse

NEVER = -1
"""A position before the first."""

LONGEST: Final = 64
"""Calls of the longest round that is looked for."""


class Entry:
    """A call that runs or ran, while its turn goes on or its outcome is due.

    Attributes:
        call_id: The host's id.
        use: What kind of call it is.
        signature: Names the call.
        turn: Number of its turn within the run.
        outcome: What came of it, `None` while it runs.
        shared: Fingerprint of what came of it and its twins, `None` while all of them run.
        position: Its place in the log, `NEVER` before its turn is over and for twins.
        twin: The identical call of the same turn that stands for this one too.
    """

    __slots__ = ("call_id", "outcome", "position", "shared", "signature", "turn", "twin", "use")

    def __init__(self, call_id: str, use: ToolUse, signature: bytes, turn: int, twin: Entry | None) -> None:
        self.call_id = call_id
        self.use = use
        self.signature = signature
        self.turn = turn
        self.outcome: Observed | None = None
        self.shared: bytes | None = None
        self.position = NEVER
        self.twin = twin


class Repeats:
    """What the window knows of a signature that came more than once.

    Attributes:
        count: Calls in the window since the last reset.
        streak: Newest outcomes in a row that are the same, in the window, since the last reset.
        outcome: The newest outcome, `None` before the first.
        completed: Position of the newest call with an outcome.
        broke: Position of the newest call with another outcome than `outcome`; resets don't touch it.
        newest: Position of the newest call.
        floor: Positions before it no longer count.
    """

    __slots__ = ("broke", "completed", "count", "floor", "newest", "outcome", "streak")

    def __init__(self) -> None:
        self.count = 0
        self.streak = 0
        self.outcome: bytes | None = None
        self.completed = NEVER
        self.broke = NEVER
        self.newest = NEVER
        self.floor = 0

    def reset(self, floor: int) -> None:
        """Start the counts afresh; the outcome itself stays known."""
        self.count = 0
        self.streak = 0
        self.floor = floor


class Log:
    """The positions kept, as columns, and the counts per signature.

    Attributes:
        signatures: Signature by index; index + `base` is the position.
        outcomes: Outcome fingerprint by index, `None` while the call runs.
        uses: Kind of call by index.
        turns: Turn number by index.
        ids: CRC of the call id by index, to find calls that are rolled back.
        base: Position of index 0.
        start: First position of the window. Calls that only wait take no place in it: a poll after each
            sleep is as good a poll.
        end: Position that the next call gets.
        floor: Positions before it no longer count for calls that are no polls.
        known: By signature what is kept of it: the position of its one call, or its counts.
        again: Newest calls in a row that each came before, no more than `LONGEST` calls ago.
        row: Newest calls in a row that are the same.
        open: Positions without outcome, oldest first.
        marked: What is known of the outcomes with flags, by position.
    """

    __slots__ = (
        "_depth",
        "_history",
        "_inside",
        "_slack",
        "again",
        "base",
        "end",
        "floor",
        "ids",
        "known",
        "marked",
        "open",
        "outcomes",
        "row",
        "signatures",
        "start",
        "turns",
        "uses",
    )

    def __init__(self, history: int, depth: int) -> None:
        self._history = history
        self._depth = max(2 * history, depth)
        self._inside = 0
        self._slack = max(64, self._depth // 4)
        self.signatures: list[bytes] = []
        self.outcomes: list[bytes | None] = []
        self.uses: list[ToolUse] = []
        self.turns: list[int] = []
        self.ids = array("I")
        self.base = 0
        self.start = 0
        self.end = 0
        self.floor = 0
        self.again = 0
        self.row = 0
        self.open: dict[int, None] = {}
        self.marked: dict[int, Observed] = {}
        self.known: dict[bytes, int | Repeats] = {}

    @property
    def oldest(self) -> int:
        """Position of the first call that is kept; those before it are only not thrown away yet."""
        return max(self.base, self.end - self._depth)

    def newest(self, signature: bytes) -> int:
        """Position of the newest call with this signature, `NEVER` where none is kept."""
        known = self.known.get(signature)
        if known is None:
            return NEVER
        return known if isinstance(known, int) else known.newest

    def repeated(self, signature: bytes) -> bool:
        """Whether two calls with this signature or more are kept."""
        return type(self.known.get(signature)) is Repeats

    def outcome(self, signature: bytes) -> bytes | None:
        """The newest outcome of this signature that is kept, `None` where there is none."""
        known = self.known.get(signature, NEVER)
        if isinstance(known, int):
            return None if known == NEVER else self.outcomes[known - self.base]
        return known.outcome if known.completed >= self.oldest else None

    def gave(self, outcome: bytes) -> bool:
        """Whether a call that is kept had this outcome."""
        first = self.oldest - self.base
        return outcome in (self.outcomes[first:] if first else self.outcomes)

    def counts(self, signature: bytes, poll: bool) -> tuple[int, int]:
        """Calls with this signature in the window, and its no-progress streak."""
        known = self.known.get(signature)
        if known is None:
            return 0, 0
        if isinstance(known, int):
            if known < self.start or (known < self.floor and not poll):
                return 0, 0
            return 1, 0 if self.outcomes[known - self.base] is None else 1
        if known.floor < self.floor and not poll:
            known.reset(self.floor)
        return known.count, known.streak

    def broke(self, signature: bytes) -> int:
        """Position of the newest call whose outcome differs from the signature's newest, or `NEVER`."""
        known = self.known.get(signature)
        return known.broke if isinstance(known, Repeats) else NEVER

    def append(self, entry: Entry) -> int:
        """Take in a call whose turn is over; returns its position."""
        try:
            crc = crc32(entry.call_id.encode())
        except UnicodeEncodeError:  # lone surrogates
            crc = _crc(entry.call_id)
        signature = entry.signature
        shared = entry.shared
        use = entry.use
        position = entry.position = self.end
        known = self.known.get(signature)
        if known is None:
            self.known[signature] = position
            self.again = 0
            self.row = 1
        else:
            if isinstance(known, int):
                known = self._promote(known)
            newest = known.newest
            signature = self.signatures[newest - self.base]  # one object for equal signatures
            self.again = self.again + 1 if position - newest <= LONGEST else 0
            self.row = self.row + 1 if position - newest == 1 else 1
            if known.floor < self.floor and not use.poll:
                known.reset(self.floor)
            known.count += 1
            known.newest = position
            if shared is not None:
                if shared == known.outcome:
                    known.streak += 1
                    shared = known.outcome  # one object for equal outcomes
                else:
                    known.broke, known.outcome, known.streak = known.completed, shared, 1
                known.completed = position
        self.end = position + 1
        self.signatures.append(signature)
        self.outcomes.append(shared)
        self.uses.append(use)
        self.turns.append(entry.turn)
        self.ids.append(crc)
        if shared is None:
            self.open[position] = None
        outcome = entry.outcome
        if outcome is not None and outcome.flags:
            self.marked[position] = outcome
        if not use.waits:
            self._inside += 1
        while self._inside > self._history:
            self._narrow()
        if position - self.base >= self._depth:
            self._let_go(position - self._depth)
        return position

    def settle(self, position: int, outcome: bytes) -> bool:
        """The outcome of a call whose turn was already over; false for one that is no longer kept."""
        self.open.pop(position, None)
        if position < self.oldest:
            return False
        index = position - self.base
        first = self.outcomes[index] is None
        self.outcomes[index] = outcome
        known = self.known.get(self.signatures[index])
        if not isinstance(known, Repeats):
            return True
        if known.floor < self.floor and not self.uses[index].poll:
            known.reset(self.floor)
        if position > known.completed:
            _complete(known, position, outcome)
            if position < max(known.floor, self.start):
                known.streak = 0
        elif position < self.start:
            pass
        elif first and position > known.broke and outcome == known.outcome:
            known.streak += position >= known.floor
        else:
            self._recount(self.signatures[index], known)
        return True

    def reset(self) -> None:
        """Start the counts of all calls but polls afresh."""
        self.floor = self.end

    def _promote(self, position: int) -> Repeats:
        repeats = Repeats()
        index = position - self.base
        outcome = self.outcomes[index]
        repeats.newest = position
        if position >= self.start:
            repeats.count = 1
        if outcome is not None:
            repeats.completed = position
            repeats.outcome = outcome
            repeats.streak = repeats.count
        self.known[self.signatures[index]] = repeats
        if not self.uses[index].poll:
            if position < self.floor:
                repeats.reset(self.floor)
            repeats.floor = self.floor
        return repeats

    def _recount(self, signature: bytes, known: Repeats) -> None:
        """Find the newest streak again, after an outcome came late or changed."""
        known.outcome, known.streak, known.broke, known.completed = None, 0, NEVER, NEVER
        base = self.base
        for index in range(len(self.signatures) - 1, self.start - base - 1, -1):
            outcome = self.outcomes[index]
            if outcome is None or self.signatures[index] != signature:
                continue
            if known.outcome is None:
                known.outcome, known.completed = outcome, index + base
            elif outcome != known.outcome:
                known.broke = index + base
                return
            known.streak += index + base >= known.floor

    def find(self, call_ids: Iterable[str]) -> set[int]:
        """Positions of the newest call with each of the ids, where one is kept."""
        wanted = {_crc(call_id) for call_id in call_ids}
        found = set()
        for index in range(len(self.ids) - 1, self.oldest - self.base - 1, -1):
            if self.ids[index] in wanted:
                wanted.remove(self.ids[index])
                found.add(index + self.base)
        return found

    def without(self, positions: set[int]) -> tuple[Log, dict[int, int]]:
        """A log as if the calls at `positions` had not been, and where the others stand in it."""
        log = Log(self._history, self._depth)
        moved = {}
        for entry in self.entries():
            position = entry.position
            crc = self.ids[position - self.base]
            if position == self.floor:
                log.reset()
            if position not in positions:
                moved[position] = log.append(entry)
                log.ids[-1] = crc
        if self.floor == self.end:
            log.reset()
        return log, moved

    def entries(self) -> Iterator[Entry]:
        """The calls that are kept, with what is known of their outcomes."""
        for index in range(self.oldest - self.base, len(self.signatures)):
            entry = Entry("", self.uses[index], self.signatures[index], self.turns[index], None)
            entry.position = index + self.base
            entry.shared = fingerprint = self.outcomes[index]
            if fingerprint is not None:
                entry.outcome = self.marked.get(entry.position) or Observed(fingerprint, 0, None, None)
            yield entry

    def find_known(self) -> None:
        """Find the calls that came only once again, where `known` holds only the others."""
        known = self.known
        for position, signature in enumerate(self.signatures[self.oldest - self.base :], self.oldest):
            if signature not in known:
                known[signature] = position

    def _narrow(self) -> None:
        """The first call of the window leaves it."""
        position = self.start
        index = position - self.base
        known = self.known[self.signatures[index]]
        if type(known) is Repeats and position >= known.floor:
            known.count -= 1
            if position > known.broke and self.outcomes[index] is not None:
                known.streak -= 1
        self.start = position + 1
        if not self.uses[index].waits:
            self._inside -= 1

    def _let_go(self, position: int) -> None:
        """The call at `position` is past keeping."""
        if self.start <= position:
            self._narrow()
        index = position - self.base
        signature = self.signatures[index]
        known = self.known[signature]
        if (known if isinstance(known, int) else known.newest) == position:
            del self.known[signature]
        if self.open:
            self.open.pop(position, None)
        if self.marked:
            self.marked.pop(position, None)
        if index >= self._slack:
            self._forget(index + 1)

    def _forget(self, count: int) -> None:
        del self.signatures[:count], self.outcomes[:count], self.uses[:count], self.turns[:count]
        del self.ids[:count]
        self.base += count


def _crc(call_id: str) -> int:
    return crc32(call_id.encode("utf-8", "surrogatepass"))


def _complete(known: Repeats, position: int, outcome: bytes) -> None:
    """The newest call so far gets its outcome."""
    if outcome == known.outcome:
        known.streak += 1
    else:
        known.broke = known.completed
        known.outcome = outcome
        known.streak = 1
    known.completed = position
