"""What a record keeps of one run in memory: sums, and which calls were made before a compaction.

No I/O and no clock: events and verdicts in, what is to be recorded out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from loopwarden.errors import StoreError
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage
from loopwarden.masking import shorten
from loopwarden.records.entry import name_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from loopwarden.core.settings import Settings
    from loopwarden.events import Event, Verdict
    from loopwarden.records.entry import Detail, Kind

Noted: TypeAlias = "tuple[Kind, Mapping[str, Detail]]"
"""The kind of an entry, and its details."""

_SIGNATURES: Final = 1024
"""Different calls that are remembered of a run; the one that was first made longest ago is forgotten."""

_DIGEST: Final = 8
"""Bytes of a signature that are kept: enough to tell the calls of one run apart."""

_SUMS: Final = (
    "outcomes",
    "detections",
    "warnings",
    "refusals",
    "announcements",
    "compactions",
    "after_abort",
)
_VERSION: Final = 1


class Tally:
    """The sums of one run.

    Args:
        name: Names the run in the record.

    Attributes:
        calls: Calls asked for, the refused ones included.
    """

    __slots__ = ("_error", "_signatures", "_sums", "_watch", "calls", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self._sums = dict.fromkeys(_SUMS, 0)
        self._error: str | None = None
        self._signatures: dict[bytes, int] = {}
        self._watch: _Watch | None = None

    def saw(
        self, event: Event, verdict: Verdict, compared: bytes | None, settings: Settings, *, payloads: bool
    ) -> Iterator[Noted]:
        """Count an event; what is to be recorded of it, in order."""
        full = False
        if type(event) is ToolCall:
            if compared is None:  # told twice, or the run was ended already
                self._sums["after_abort"] += self._error is not None
                return
            full = self._call(compared)
        elif type(event) is Outcome:
            self._sums["outcomes"] += compared is not None
        elif type(event) is Compaction:
            yield from self._compaction(event, settings)
        elif type(event) is UserMessage:
            self._error = self._error if event.run_id is not None else None  # the session starts afresh
            yield "user_message", {}
        elif type(event) is Retraction:
            yield "retraction", {"retracted": len(event.call_ids)}
        if verdict.detector is not None and (verdict.action != "abort" or verdict.announce):
            yield self._found(event, verdict, payloads=payloads)
        if full:
            yield from self._rereads()

    def ended(self, why: str) -> Iterator[Noted]:
        """What is to be recorded when the run is over."""
        yield from self._rereads()
        yield "ended", {"why": why, **self._sums, "error": self._error}

    def _call(self, signature: bytes) -> bool:
        """Whether enough calls were seen since the compaction."""
        self.calls += 1
        first = self._signatures.setdefault(signature[:_DIGEST], self.calls)
        if len(self._signatures) > _SIGNATURES:
            del self._signatures[next(iter(self._signatures))]
        watch = self._watch
        if watch is None:
            return False
        watch.seen += 1
        watch.repeats += first <= watch.before
        return watch.seen >= watch.window

    def _compaction(self, event: Compaction, settings: Settings) -> Iterator[Noted]:
        yield from self._rereads()
        self._sums["compactions"] += 1
        number = self._sums["compactions"]
        self._watch = _Watch(number, self.calls, settings.history_size)
        details: dict[str, Detail] = {"compaction": number, "armed": settings.post_compaction_window}
        if event.continues is not None and event.continues != event.run_id:
            details["continues"] = name_of(event.continues)
        yield "compaction", details

    def _rereads(self) -> Iterator[Noted]:
        watch, self._watch = self._watch, None
        if watch is not None:
            yield (
                "rereads",
                {
                    "compaction": watch.number,
                    "next_calls": watch.seen,
                    "repeats": watch.repeats,
                    "window": watch.window,
                },
            )

    def _found(self, event: Event, verdict: Verdict, *, payloads: bool) -> Noted:
        sums = self._sums
        kind: Kind = "detection"
        if verdict.action == "abort":
            kind = "abort"
            self._error = verdict.error
        elif verdict.action == "block":
            kind = "refusal"
            sums["refusals"] += 1
        sums["detections"] += 1
        sums["warnings"] += verdict.level == "warning"
        sums["announcements"] += verdict.announce
        details: dict[str, Detail] = {
            "level": verdict.level,
            "detector": verdict.detector,
            "count": verdict.count,
            "threshold": verdict.threshold,
            "action": verdict.action,
            "would": verdict.would,
            "announced": verdict.announce,
            "tool": name_of(verdict.tool),
            "paired_tools": tuple(str(name_of(tool)) for tool in verdict.paired_tools),
            "key": name_of(verdict.key),
            "call_id": name_of(getattr(event, "call_id", None)),
            "turn_id": name_of(getattr(event, "turn_id", None)),
            "error": verdict.error,
        }
        if verdict.message is not None and (verdict.announce or kind != "detection"):
            details["message"] = text_of(verdict.message)
        if payloads and type(event) is ToolCall:
            details["arguments"] = shorten(event.arguments)
        elif payloads and type(event) is Outcome:
            details["result"] = shorten(event.result if event.error is None else event.error)
        return kind, details


class _Watch:
    """The calls after a compaction.

    Attributes:
        number: Which compaction of the run.
        before: Calls of the run before it.
        window: Calls that are looked at.
        seen: Calls since.
        repeats: Those among them whose signature is one from before.
    """

    __slots__ = ("number", "before", "window", "seen", "repeats")  # noqa: RUF023 - in the order of the arguments

    def __init__(self, number: int, before: int, window: int, seen: int = 0, repeats: int = 0) -> None:
        self.number = number
        self.before = before
        self.window = window
        self.seen = seen
        self.repeats = repeats


def dump(tally: Tally) -> bytes:
    """The sums as JSON bytes, for a store."""
    watch = tally._watch  # noqa: SLF001 - one module
    return orjson.dumps(
        {
            "version": _VERSION,
            "name": tally.name,
            "calls": tally.calls,
            "sums": tally._sums,  # noqa: SLF001 - one module
            "error": tally._error,  # noqa: SLF001 - one module
            "signatures": {name.hex(): first for name, first in tally._signatures.items()},  # noqa: SLF001 - one module
            "watch": None if watch is None else [getattr(watch, name) for name in _Watch.__slots__],
        }
    )


def load(stored: bytes) -> Tally:
    """What `dump` gave, as it was.

    Raises:
        StoreError: It is damaged, or of another version.
    """
    try:
        data = orjson.loads(stored)
        if data["version"] != _VERSION:
            raise StoreError(f"sums of a run of version {data['version']}; this loopwarden knows {_VERSION}")
        tally = Tally(str(data["name"]))
        tally.calls = int(data["calls"])
        tally._sums = {name: int(data["sums"][name]) for name in _SUMS}  # noqa: SLF001 - one module
        tally._error = None if data["error"] is None else str(data["error"])  # noqa: SLF001 - one module
        tally._signatures = {  # noqa: SLF001 - one module
            bytes.fromhex(name): int(first) for name, first in data["signatures"].items()
        }
        if data["watch"] is not None:
            tally._watch = _Watch(*map(int, data["watch"]))  # noqa: SLF001 - one module
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"the sums of a run are damaged: {error}") from error
    return tally
