"""One run as server-sent events: what happened, from where the reader left off, then what happens.

The id of an event is its number in the run. A reader that comes back says the last one that it has
(`Last-Event-ID`), and goes on from there, also with another process of the gateway. Pieces of text
(`partial`) are only sent as they come: who comes back gets the whole text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response, StreamingResponse

from loopwarden.gateway.problems import Problem
from loopwarden.gateway.run_feed import MOST_READERS
from loopwarden.runner.plain_json import to_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from loopwarden.gateway.run_desk import RunDesk
    from loopwarden.runner.happenings import Happening
    from loopwarden.runner.kept import KeptRun

BEAT_SECONDS: Final = 15.0
"""After so long without an event a comment is sent, so that nobody on the way gives the connection up."""

_PAGE: Final = 200
_RETRY: Final = "retry: 1000\n\n"
_NO_CONTENT: Final = 204


def events(desk: RunDesk, run: KeptRun, after: int) -> Response:
    """The answer for one reader; where the gateway ends, it does so after the last event of the run.

    Args:
        desk: The agents.
        run: The run.
        after: Number of the last event that the reader has.

    Raises:
        Problem: There are too many readers.
        StoreError: The journal can't be read.
    """
    over = run.state != "open"
    if over and after and not desk.journal.happenings(run.id, after, 1):
        return Response(status_code=_NO_CONTENT)  # a browser then stops coming back
    if desk.feed.readers >= MOST_READERS:
        detail = f"{MOST_READERS} readers of runs at once are the most"
        raise Problem(503, detail, headers={"retry-after": "5"})
    headers = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
    told = _stream(desk, run.id, after, over)
    return StreamingResponse(told, headers=headers, media_type="text/event-stream")


async def _stream(desk: RunDesk, run: str, after: int, over: bool) -> AsyncIterator[str]:
    with desk.feed.reading(run) as reader:
        yield _RETRY
        while page := desk.journal.happenings(run, after, _PAGE):
            for happening in page:
                yield _event(happening)
            after = page[-1].number
            over = over or page[-1].kind == "ended"
        while not (over or reader.lost):
            try:
                found = await reader.next(BEAT_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if found is None:
                return
            if found.number > after:
                after, over = found.number, found.kind == "ended"
                yield _event(found)


def _event(happening: Happening) -> str:
    fields = ("kind", "agent", "session", "run", "time", "number", "data")
    data = to_json({name: getattr(happening, name) for name in fields})
    return f"id: {happening.number}\nevent: {happening.kind}\ndata: {data}\n\n"
