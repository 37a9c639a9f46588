"""Happenings of a run that nobody runs, for what only listens."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from loopwarden.runner.happenings import Happening

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.runner.happenings import HappeningKind


class Told:
    """Makes the happenings of one run."""

    def __init__(self, run: str, session: str = "s1", agent: str = "a1") -> None:
        self.run, self.session, self.agent = run, session, agent
        self._numbers = itertools.count(1)

    def __call__(self, kind: HappeningKind, **data: Any) -> Happening:
        number = next(self._numbers)
        return Happening(
            kind=kind,
            agent=self.agent,
            session=self.session,
            run=self.run,
            time=1000.0 + number,
            number=number,
            data=data,
        )

    def whole(self, calls: int = 2) -> Iterator[Happening]:
        """A run that is done."""
        yield self("began", trigger="user", task="count the files", parent=None)
        for number in range(calls):
            yield self("call", tool="exec", arguments={"command": "ls"}, call_id=f"c{number}")
            yield self("outcome", call_id=f"c{number}", ok=True, text="a b c")
        yield self("text", text="There are three.")
        yield self(
            "ended",
            reason="done",
            code=None,
            message=None,
            answer="There are three.",
            requests=calls + 1,
            input_tokens=70,
            output_tokens=9,
        )
