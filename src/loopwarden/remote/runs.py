"""The runs of a guard at a gateway: the same small interface as `Runs`, each event one question.

A question carries an id of its own, so that it counts once even where the connection was lost on the way
back and it is put again.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import orjson

from loopwarden.core.settings import Settings
from loopwarden.errors import StoreError
from loopwarden.events import (
    AbortCode,
    Action,
    Compaction,
    Level,
    Outcome,
    Retraction,
    ToolCall,
    Verdict,
)
from loopwarden.outages import Outages
from loopwarden.remote.service import RefusedError, Service
from loopwarden.remote.values import name, seconds, sendable, text
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.core.settings import Mode
    from loopwarden.events import Event
    from loopwarden.runs import Key

DECIDED_THERE: Final = Settings(post_compaction_window=0)
"""Stands for the settings of a gateway, which are not known here: nothing is armed here."""

_PATH: Final = "/v1/events"
_QUIET_SECONDS: Final = 60.0
"""For so long a question that the gateway doesn't take is not logged again."""

_COMPARED: Final = 15  # bytes, as in the core


class RemoteRuns:
    """Runs by session and run at a gateway. Safe to share between threads, and after a fork.

    While the gateway is out of order every use raises `StoreError`. The log says once that it is, and once
    that it is back; a question that it does not take is logged once a minute.

    Args:
        address: As for `Service`.
        agent: Whose settings apply there.
        mode: Whether verdicts are acted on; `None` leaves it to the gateway.
        clock: Seconds that don't go back.

    Attributes:
        newest_key: Always `None`: nothing is kept from one event to the next.
        newest: Never set.

    Raises:
        StoreError: The address is wrong.
    """

    __slots__ = ("_always", "_clock", "_outages", "_quiet_until", "_service", "newest", "newest_key")

    def __init__(
        self,
        address: str,
        *,
        agent: str | None = None,
        mode: Mode | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = Service(address)
        self._always = {
            key: value for key, value in (("agent", name(agent)), ("mode", mode)) if value is not None
        }
        self._clock = clock
        self._outages = Outages("gateway", clock)
        self._quiet_until = -_QUIET_SECONDS
        self.newest: RemoteRun
        self.newest_key: Key | None = None

    def get(self, key: Key) -> RemoteRun:
        """A run; whether it is known turns out there."""
        return RemoteRun(self, key)

    def move(self, key: Key, to: Key) -> None:
        """Nothing: the compaction that follows names the run that it continues."""

    def forget(self, key: Key) -> None:
        """A run is over.

        Raises:
            StoreError: The gateway is out of order.
        """
        self.tell(key, {"event": "forget"})

    def save(self, key: Key) -> bytes | None:  # noqa: ARG002 - as `Runs.save`
        """Not possible.

        Raises:
            StoreError: Always.
        """
        raise StoreError("a run at a gateway is kept there; it can't be saved from here")

    def restore(self, key: Key, saved: bytes) -> None:  # noqa: ARG002 - as `Runs.restore`
        """Not possible.

        Raises:
            StoreError: Always.
        """
        raise StoreError("a run at a gateway is kept there; it can't be restored from here")

    def tell(self, key: Key, fields: dict[str, Any]) -> Verdict:
        """Put one event to the gateway.

        Args:
            key: Session and run.
            fields: The event, all but these.

        Raises:
            StoreError: No verdict was given.
        """
        session, run = key
        event = {
            "event_id": token_hex(8),
            **fields,
            "run": name(run),
            "session": name(session),
            **self._always,
        }
        body = orjson.dumps({"events": [event]})
        answer = self._outages.ask(lambda: self._answer(body))
        if isinstance(answer, Verdict):
            return answer
        now = self._clock()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET_SECONDS
            log.logger.warning("gateway: %s; the call is let through (told once a minute)", answer)
        raise answer

    def close(self) -> None:
        """Close the connections."""
        self._service.close()

    def _answer(self, body: bytes) -> Verdict | RefusedError:
        try:
            answer = self._service.post(_PATH, body)
        except RefusedError as error:
            return error
        try:
            (given,) = answer["verdicts"]
            return _verdict(given)
        except (KeyError, TypeError, ValueError):
            raise StoreError(f"{self._service.url} answers something that is no verdict") from None


class RemoteRun:
    """One run at a gateway; what `RunState` answers, this answers.

    Attributes:
        compared: After `apply` a digest of the call or outcome as it was sent, for the run record; `None`
            for other events, and in a run that was ended already.
    """

    __slots__ = ("_key", "_runs", "compared")

    def __init__(self, runs: RemoteRuns, key: Key) -> None:
        self._runs = runs
        self._key = key
        self.compared: bytes | None = None

    def apply(self, event: Event) -> Verdict:
        """As `RunState.apply`."""
        if isinstance(event, ToolCall):
            fields = _call(event.tool, event.arguments, event.call_id, event.turn_id, event.at)
            counts = orjson.dumps([fields["tool"], fields["arguments"]])
        elif isinstance(event, Outcome):
            fields = _outcome(event.call_id, event.result, event.error, event.unknown_tool, event.timed_out)
            fields["at"] = seconds(event.at)
            counts = orjson.dumps([fields.get("result"), fields.get("error")])
        else:
            return self._runs.tell(self._key, _other(event))
        verdict = self._runs.tell(self._key, fields)
        if verdict.action != "abort" or verdict.announce:
            self.compared = blake2b(counts, digest_size=_COMPARED).digest()
        return verdict

    def call(
        self, tool: str, arguments: object, call_id: str, turn_id: str | None, at: float | None
    ) -> Verdict:
        """As `RunState.call`."""
        return self._runs.tell(self._key, _call(tool, arguments, call_id, turn_id, at))

    def outcome(
        self, call_id: str, result: object, error: str | None, unknown_tool: str | None, timed_out: bool
    ) -> Verdict:
        """As `RunState.outcome`."""
        return self._runs.tell(self._key, _outcome(call_id, result, error, unknown_tool, timed_out))


def _call(
    tool: str, arguments: object, call_id: str, turn_id: str | None, at: float | None
) -> dict[str, Any]:
    return {
        "event": "before",
        "tool": name(tool) or "",
        "arguments": sendable(arguments),
        "call_id": name(call_id) or "",
        "turn_id": name(turn_id),
        "at": seconds(at),
    }


def _outcome(
    call_id: str, result: object, error: str | None, unknown_tool: str | None, timed_out: bool
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "event": "after",
        "call_id": name(call_id) or "",
        "unknown_tool": name(unknown_tool),
        "timed_out": bool(timed_out),
    }
    if error is None:
        return fields | {"result": sendable(result)}
    return fields | {"error": text(error if isinstance(error, str) else str(error))}


def _other(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = {"at": seconds(event.at)}
    if isinstance(event, Compaction):
        return fields | {"event": "compacted", "continues": name(event.continues)}
    if isinstance(event, Retraction):
        return fields | {"event": "retract", "call_ids": [name(one) or "" for one in event.call_ids]}
    return fields | {"event": "user_message"}


_ACTIONS: Final = frozenset(get_args(Action))
_LEVELS: Final = frozenset({None, *get_args(Level)})
_CODES: Final = frozenset({None, *get_args(AbortCode)})


def _verdict(given: dict[str, Any]) -> Verdict:
    """A verdict as a gateway writes it; a newer one may name detectors that are not known here.

    Raises:
        KeyError: It is none.
        TypeError: The same.
        ValueError: The same.
    """
    verdict = Verdict(
        action=given["action"],
        level=given["level"],
        detector=cast("Any", _word(given["detector"])),
        count=given["count"],
        threshold=given["threshold"],
        tool=_word(given["tool"]),
        paired_tools=tuple(str(_word(one)) for one in given["paired_tools"]),
        message=_word(given["message"]),
        key=_word(given["key"]),
        error=given["error"],
        would=given["would"],
        announce=given["announce"] is True,
    )
    words = verdict.action in _ACTIONS and verdict.level in _LEVELS and verdict.error in _CODES
    if not words or verdict.would not in {None, *_ACTIONS}:
        raise ValueError("a word that is not known")
    if type(verdict.count) is not int or type(verdict.threshold) is not int:
        raise TypeError("a count that is no number")
    return verdict


def _word(given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise TypeError("not a text")
    return given
