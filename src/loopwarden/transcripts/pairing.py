"""Pairs the results of one stream with its calls, and gives every open call an id of its own.

A result belongs to the newest open call of its id. A result without an id belongs to the oldest open
call of its tool. What does not pair (a result before its call, for one) is counted in the notes, never
guessed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from loopwarden.transcripts.fields import word

if TYPE_CHECKING:
    from loopwarden.transcripts.model import ReadNotes

MOST_OPEN = 100_000
"""How many calls may wait for a result; beyond it the oldest is given up, as one without a result."""


class Pairing:
    """The open calls of one stream. Each step takes constant time; closed calls leave only their id."""

    def __init__(self, notes: ReadNotes) -> None:
        self._notes = notes
        self._minted = 0
        self._uses: dict[str, int] = {}
        self._open: OrderedDict[str, tuple[str, str]] = OrderedDict()  # given id -> id in the file, tool
        self._by_id: dict[str, dict[str, None]] = {}
        self._by_tool: dict[str, OrderedDict[str, None]] = {}

    def call(self, call_id: object, tool: str, line: int | None = None) -> str:
        """The id to use for a call.

        It is the id of the file, a minted one (`c1`, `c2`, ...) if the file has none, and one with a
        suffix if a call of the same id is still open, which the core would take for the same call.
        """
        identity = word(call_id)
        if identity is None:
            self._minted += 1
            identity = f"c{self._minted}"
        uses = self._uses[identity] = self._uses.get(identity, 0) + 1
        if uses > 1:
            self._notes.add("reused_id", line)
        given = identity
        while given in self._open:
            given = f"{given}#{uses}"
        self._open[given] = identity, tool
        self._by_id.setdefault(identity, {})[given] = None
        if tool in self._by_tool:
            self._by_tool[tool][given] = None
        else:
            self._by_tool[tool] = OrderedDict.fromkeys((given,))
        if len(self._open) > MOST_OPEN:
            self.withdraw(next(iter(self._open)))
            self._notes.add("call_without_result", line)
        return given

    def result(self, call_id: object, tool: str | None = None, line: int | None = None) -> str | None:
        """The id of the call that a result belongs to, no longer open; `None`: none, counted, drop it."""
        given = None
        if (identity := word(call_id)) is not None:
            if same_id := self._by_id.get(identity):
                given = same_id.popitem()[0]
        elif tool is not None and (same_tool := self._by_tool.get(tool)):
            given = next(iter(same_tool))
        if given is None:
            self._notes.add("result_without_call", line)
            return None
        self.withdraw(given)
        return given

    def tool_of(self, call_id: object) -> str | None:
        """Tool of the call that a result with this id belongs to."""
        same_id = self._by_id.get(word(call_id) or "")
        return self._open[next(reversed(same_id))][1] if same_id else None

    def withdraw(self, given: str) -> bool:
        """Close a call, by the id that `call` gave, without a result; whether it was open."""
        if given not in self._open:
            return False
        identity, tool = self._open.pop(given)
        same_id, same_tool = self._by_id[identity], self._by_tool[tool]
        same_id.pop(given, None)
        if not same_id:
            del self._by_id[identity]
        del same_tool[given]
        if not same_tool:
            del self._by_tool[tool]
        return True

    def finish(self) -> None:
        """The stream has ended: count the calls that are still open."""
        for _ in self._open:
            self._notes.add("call_without_result")
        self._open.clear()
        self._by_id.clear()
        self._by_tool.clear()
