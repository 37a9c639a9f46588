"""One line of the run record: what happened in a run, when, and at which of its calls.

An entry holds names, counts and ids, each cleaned and cut; never arguments or results, unless the user
switched on shortened, masked ones.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import orjson

from loopwarden.masking import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind: TypeAlias = Literal[
    "begun",
    "detection",
    "refusal",
    "abort",
    "compaction",
    "rereads",
    "user_message",
    "retraction",
    "ended",
]
"""What an entry is about.

`begun`: the first event of a run. `detection`: a loop was seen, and the call ran. `refusal`: the call was
refused. `abort`: the run was ended by the guard. `compaction`: the history was compacted. `rereads`: how
many calls after a compaction repeat calls from before it. `user_message`: a person wrote. `retraction`: a
model reply was rolled back. `ended`: the run is over, with its sums.
"""

Detail: TypeAlias = str | int | float | bool | tuple[str, ...] | None
"""A value of an entry."""

KINDS: Final[frozenset[str]] = frozenset(get_args(Kind))
NAME: Final = 200
"""Characters of a name or an id that are kept."""

_TEXT: Final = 2000
_DETAILS: Final = 40
_HEAD: Final = ("id", "kind", "time", "session", "run", "at", "calls")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_ID: Final = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened in a run.

    Attributes:
        id: Names the run in the record: lower-case hexadecimal, not used again for another run, while a
            host may well use a run id twice.
        kind: What happened.
        time: When it was recorded, UTC, as `2026-07-01T12:00:00.000Z`; texts sort as their times do.
        session: Session id as the guard was told; `None` for the guard's own session.
        run: Run id, `None` for the unscoped session.
        at: Time of the event as the host told it, in seconds on a clock of its own; `None` if it did not.
        calls: Calls of the run so far, this one included.
        details: What else there is to say; see `docs/guides/records.md` for the names by kind.
    """

    id: str
    kind: Kind
    time: str
    session: str | None = None
    run: str | None = None
    at: float | None = None
    calls: int = 0
    details: Mapping[str, Detail] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The entry as one flat mapping, in the order of a line."""
        return {name: getattr(self, name) for name in _HEAD} | dict(self.details)

    def to_json(self) -> bytes:
        """One JSON object without line breaks."""
        return orjson.dumps(self.as_dict())


def from_json(line: bytes | str) -> Entry | None:
    """The entry of a line; `None` for a line that is none, is torn, or is of a kind that is not known."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(data, dict):
        return None
    name, kind, time, session, run, at, calls = (data.pop(key, None) for key in _HEAD)
    whole = (
        isinstance(name, str)
        and _ID.fullmatch(name)
        and isinstance(kind, str)
        and kind in KINDS
        and isinstance(time, str)
        and _TIME.fullmatch(time)
        and (session is None or isinstance(session, str))
        and (run is None or isinstance(run, str))
        and (at is None or (type(at) in (int, float) and math.isfinite(at)))
        and type(calls) is int
    )
    if not whole:
        return None
    details = {clean(key, NAME): _detail(value) for key, value in list(data.items())[:_DETAILS]}
    return Entry(
        id=name,
        kind=kind,
        time=time,
        session=name_of(session),
        run=name_of(run),
        at=at,
        calls=calls,
        details=details,
    )


def name_of(value: object) -> str | None:
    """A name or an id from outside as it stands in a record; `None` stays `None`."""
    return None if value is None else clean(value if isinstance(value, str) else str(value), NAME)


def text_of(value: str) -> str:
    """A sentence as it stands in a record."""
    return clean(value, _TEXT)


def _detail(value: object) -> Detail:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return tuple(clean(item, NAME) for item in value[:64] if isinstance(item, str))
    return clean(value, _TEXT) if isinstance(value, str) else "(unknown)"
