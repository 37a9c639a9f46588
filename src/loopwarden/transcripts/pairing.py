"""Pairs the results of one stream with its calls, and gives every open call an id of its own.

A result belongs to the newest open call of its id. A result without an id belongs to the oldest open
call of its tool. What does not pair is counted in the notes, never guessed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from loopwarden.transcripts.fields import word

if TYPE_CHECKING:
    from loopwarden.transcripts.model import ReadNotes


class Pairing:
    """The open calls of one stream. Each step takes constant time on average."""

    def __init__(self, notes: ReadNotes) -> None:
        self._notes = notes
        self._minted = 0
        self._uses: dict[str, int] = {}
        self._open: set[str] = set()  # ids given out; what is no longer in here is closed everywhere
        self._by_id: dict[str, list[str]] = {}
        self._by_tool: dict[str, deque[str]] = {}

    def call(self, call_id: object, tool: str, line: int | None = None) -> str:
        """The id to use for a call.

        It is the id of the file, a minted one (`c1`, `c2`, ...) if the file has none, and one with a
        suffix if a call of the same id is still open, which the core would take for the same call.
        """
        call_id = word(call_id)
        if call_id is None:
            self._minted += 1
            call_id = f"c{self._minted}"
        uses = self._uses[call_id] = self._uses.get(call_id, 0) + 1
        if uses > 1:
            self._notes.add("reused_id", line)
        given = call_id
        while given in self._open:
            given = f"{given}#{uses}"
        self._open.add(given)
        self._by_id.setdefault(call_id, []).append(given)
        self._by_tool.setdefault(tool, deque()).append(given)
        return given

    def result(self, call_id: object, tool: str | None = None, line: int | None = None) -> str | None:
        """The id of the call that a result belongs to, no longer open; `None`: none, counted, drop it."""
        given = None
        if (identity := word(call_id)) is not None:
            same_id = self._by_id.get(identity, [])
            while same_id and given is None:
                last = same_id.pop()
                given = last if last in self._open else None
        elif tool is not None:
            same_tool = self._by_tool.get(tool, deque())
            while same_tool and given is None:
                first = same_tool.popleft()
                given = first if first in self._open else None
        if given is None:
            self._notes.add("result_without_call", line)
            return None
        self._open.discard(given)
        return given

    def is_open(self, call_id: str) -> bool:
        """Whether a call with this id of the file waits for its result."""
        return any(given in self._open for given in self._by_id.get(call_id, ()))

    def withdraw(self, given: str) -> bool:
        """Forget an open call, by the id that `call` gave; whether it was open."""
        if given not in self._open:
            return False
        self._open.discard(given)
        return True

    def finish(self) -> None:
        """The stream has ended: count the calls that are still open."""
        for _ in self._open:
            self._notes.add("call_without_result")
        self._open.clear()
