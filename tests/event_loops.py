"""Event loops that hosts make where there is none, as `run_sync` does, and leave open."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def closed_at_the_end() -> Iterator[None]:
    """There is a loop to find, and whichever there is at the end is closed.

    One that is left open is complained of when it is collected as garbage, in whichever test that is.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        with suppress(RuntimeError):  # there is none any more
            asyncio.get_event_loop().close()
        asyncio.set_event_loop(None)
        loop.close()
