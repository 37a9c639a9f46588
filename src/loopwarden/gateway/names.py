"""Short names for runs and loops, to be shown, put into addresses and kept whatever their ids are."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

_BYTES: Final = 8
_SHORT: Final = 500
"""Characters of ids that names are remembered for."""


def run_name(agent: str | None, mode: str, session: str | None, run: str | None) -> str:
    """Sixteen hexadecimal digits that name a run; the same in every process.

    Args:
        agent: Agent of the run; runs of two agents are apart even where their ids are the same.
        mode: Whether the guard acts in it (`enforce`) or observes; for the same reason.
        session: Id of its session; `None`: none.
        run: Its id; the same.
    """
    parts = agent, mode, session, run
    if sum(map(len, filter(None, parts))) > _SHORT:
        return _named(parts)
    return _kept(parts)


def _named(parts: tuple[str | None, ...]) -> str:
    digest = blake2b(digest_size=_BYTES)
    for part in parts:
        text = b"" if part is None else part.encode("utf-8", "surrogatepass")
        digest.update(b"-" if part is None else b"%d:" % len(text))
        digest.update(text)
    return digest.hexdigest()


_kept = lru_cache(maxsize=4096)(_named)


def loop_name(key: str) -> str:
    """The same for a loop, from the key of its verdicts."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=_BYTES).hexdigest()
