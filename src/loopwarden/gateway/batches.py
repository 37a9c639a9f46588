"""Batches that come again: a client that was not answered sends the whole batch once more."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from loopwarden.events import Verdict
    from loopwarden.gateway.asked import Asked

MOST: Final = 100_000
"""Verdicts of batches that are remembered, all together."""

_DIGEST_BYTES: Final = 16

_Answers: TypeAlias = "asyncio.Future[list[Verdict]]"


class Batches:
    """Answers a batch once, and with the same verdicts when it comes again, also while it is being answered.

    Its calls may be over by then, so that its events by themselves would be new ones.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[int, _Answers]] = OrderedDict()
        self._size = 0

    async def once(
        self, batch: Sequence[Asked], answer: Callable[[Sequence[Asked]], Awaitable[list[Verdict]]]
    ) -> list[Verdict]:
        """The verdicts on a batch; what `answer` raises comes out, and the batch is not remembered."""
        if not batch:
            return []
        name = _name(batch)
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            return await asyncio.shield(known[1])
        answers: _Answers = asyncio.get_running_loop().create_future()
        self._known[name] = len(batch), answers
        self._size += len(batch)
        try:
            verdicts = await answer(batch)
        except BaseException as error:
            if self._known.get(name, (0, None))[1] is answers:  # too many others may have pushed it out
                self._drop(name)
            answers.set_exception(error)
            answers.exception()  # looked at, also where nobody else waits
            raise
        answers.set_result(verdicts)
        while self._size > MOST and len(self._known) > 1:
            self._drop(next(iter(self._known)))
        return verdicts

    def _drop(self, name: bytes) -> None:
        self._size -= self._known.pop(name)[0]


def _name(batch: Sequence[Asked]) -> bytes:
    """The same for the same events of the same runs, in the same order."""
    found = blake2b(digest_size=_DIGEST_BYTES)
    for asked in batch:
        run = b"" if asked.run is None else asked.run.encode("utf-8", "surrogatepass")
        found.update(asked.digest + len(run).to_bytes(4, "big") + (b"-" if asked.run is None else b"+") + run)
    return found.digest()
