"""What is kept of a stream while it is replayed: one number per call and question, never contents.

The arguments of the last few calls are held so that a loop can be shown once it is found; large ones are
shortened at once, which bounds the memory.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Final

from loopwarden.masking import shorten

if TYPE_CHECKING:
    from loopwarden.events import ToolCall

RECENT: Final = 64
"""Calls whose arguments are held: one lap of the longest cycle that is looked for."""

_FAR: Final = 1e12
"""Seconds and dollars from here on are no real ones."""

_MANY: Final = 10**12
"""Most tokens of a reply that are believed."""

_HEAVY_TEXT: Final = 16_384
_HEAVY_PARTS: Final = 64
_KEPT_TEXT: Final = 1024  # more than is looked at when it is shown


class Shown(str):
    """Arguments that were shortened already."""

    __slots__ = ()


@dataclass(slots=True)
class Reply:
    """One model reply: its calls are those from `first` up to, not including, `end`."""

    first: int
    end: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    cached_tokens: int = 0


class Trace:
    """A stream so far. Indices of calls count from 0.

    Attributes:
        signature: Per call the number of its signature.
        tool: Per call the index of its tool in `tools`.
        run: Per call the number of its run id.
        turn: Per call the number of its turn; calls of one reply share it.
        at: Per call its time, NaN where unknown.
        seconds: Per call the time it took, from the latest moment recorded before it to its end.
        result: Per call a number for its outcome, 0 where there is none yet.
        weight: Per call what the guard would have said, 0 to 3.
        replies: Model replies that the file gives tokens for.
        compactions: How many calls there were at each compaction.
    """

    def __init__(self) -> None:
        self.signature = array("L")
        self.tool = array("L")
        self.run = array("L")
        self.turn = array("L")
        self.at = array("d")
        self.seconds = array("d")
        self.result = array("q")
        self.weight = bytearray()
        self.replies: list[Reply] = []
        self.compactions: list[int] = []
        self.tools: dict[str, int] = {}
        self.timed = False
        self.last_at: float | None = None
        self._signatures: dict[bytes | int, int] = {}
        self._runs: dict[str | None, int] = {}
        self._turn: str | None = None
        self._turns = 0
        self._open: dict[tuple[str | None, str], int] = {}
        self._recent: deque[tuple[int, object]] = deque(maxlen=RECENT)
        self._reply_start = 0

    def __len__(self) -> int:
        return len(self.weight)

    def call(self, event: ToolCall, signature: bytes | None) -> int:
        """A call was asked for.

        Args:
            event: The call.
            signature: What names it; `None` where nothing is compared: it is like no other then.

        Returns:
            Its index; that of the open call if the id is still open.
        """
        known = (event.run_id, event.call_id)
        index = self._open.get(known)
        if index is not None:
            return index
        index = len(self.weight)
        self._open[known] = index
        number = self._signatures.setdefault(signature or index, len(self._signatures))
        self.signature.append(number)
        self.tool.append(self.tools.setdefault(event.tool, len(self.tools)))
        self.run.append(self._runs.setdefault(event.run_id, len(self._runs)))
        if event.turn_id is None or event.turn_id != self._turn:
            self._turns += 1
            self._turn = event.turn_id
        self.turn.append(self._turns)
        self.result.append(0)
        self.weight.append(0)
        at = event.at
        if at is None or not -_FAR < at < _FAR:
            self.at.append(nan)
            self.seconds.append(0.0)
        else:
            self.at.append(at)
            self.seconds.append(self._pass(at))
        self._recent.append((number, _light(event.arguments)))
        return index

    def outcome(self, run: str | None, call_id: str, result: int, at: float | None) -> int | None:
        """A call ended.

        Returns:
            Index of the call, `None` if the id is not open.
        """
        index = self._open.pop((run, call_id), None)
        if index is not None:
            self.result[index] = result or 1
            if at is not None and -_FAR < at < _FAR:
                self.seconds[index] += self._pass(at)
        return index

    def pause(self, at: float | None) -> None:
        """Time up to `at` went by without the agent, as before a person's message."""
        if at is not None and -_FAR < at < _FAR:
            self._pass(at)

    def retract(self, run: str | None, call_ids: tuple[str, ...]) -> None:
        """The ids of a reply that is made again are free anew."""
        for call_id in call_ids:
            self._open.pop((run, call_id), None)

    def spent(
        self, input_tokens: int, output_tokens: int, cost: float | None, cached_tokens: int = 0
    ) -> None:
        """A reply is complete: it asked for every call since the reply before it.

        Numbers that no reply can have count as the nearest possible one, money as unknown.
        """
        end = len(self.weight)
        read, written = min(max(input_tokens, 0), _MANY), min(max(output_tokens, 0), _MANY)
        paid = cost if cost is not None and 0 <= cost < _FAR else None
        self.replies.append(
            Reply(self._reply_start, end, read, written, paid, min(max(cached_tokens, 0), read))
        )
        self._reply_start = end

    def recent_arguments(self) -> dict[int, object]:
        """Arguments of the last calls by number of signature."""
        return dict(self._recent)

    def _pass(self, at: float) -> float:
        before, self.timed = self.last_at, True
        if before is None or at > before:
            self.last_at = at
            return 0.0 if before is None else at - before
        return 0.0


def _light(arguments: object) -> object:
    """The arguments themselves, or as much of them as may be shown if they are large."""
    if isinstance(arguments, dict) and len(arguments) <= _HEAVY_PARTS:
        long = False
        for value in arguments.values():
            if type(value) is str:
                long = long or len(value) > _HEAVY_TEXT
            elif isinstance(value, dict | list) and _parts(value, _HEAVY_PARTS) <= 0:
                return Shown(shorten(arguments))
        if not long:
            return arguments
        return {
            name: value[:_KEPT_TEXT] if type(value) is str else value for name, value in arguments.items()
        }
    if isinstance(arguments, str):
        return arguments[:_KEPT_TEXT]
    return Shown(shorten(arguments)) if isinstance(arguments, dict | list) else arguments


def _parts(value: object, left: int) -> int:
    """`left` less the parts of `value`; 0 or less as soon as it has more parts or long text."""
    if left <= 0:
        return 0
    if isinstance(value, str):
        return left - 1 if len(value) <= _HEAVY_TEXT else 0
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            left = _parts(item, left - 1)
            if left <= 0:
                return 0
    return left - 1
