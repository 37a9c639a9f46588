"""From the body of a request to events, all checked before any is done."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, NamedTuple

from loopwarden.gateway.bodies import BODIES, LONGEST_ID
from loopwarden.gateway.faults import MOST_FAULTS, checked, parsed, type_name, wrong
from loopwarden.gateway.problems import Problem
from loopwarden.gateway.wire import ordered

_DIGEST_BYTES: Final = 16


class Asked(NamedTuple):
    """One event, checked.

    Attributes:
        kind: As in a batch.
        run: Its run; `None`: the unscoped session.
        body: The other fields.
        digest: The same for the same event sent again.
    """

    kind: str
    run: str | None
    body: Any
    digest: bytes


def read_one(kind: str, run: str, raw: bytes) -> Asked:
    """The event of an endpoint of its own; no body is an empty one.

    Raises:
        Problem: 400 or 422.
    """
    _check_run(run)
    value = parsed(raw) if raw else {}
    return _asked(kind, run, value, None)


def read_batch(raw: bytes, most: int, run: str | None = None) -> list[Asked]:
    """The events of a batch.

    Args:
        raw: The body.
        most: Events that it may hold.
        run: The run of all; `None` where each names its own.

    Raises:
        Problem: 400, 413 or 422; with 422 each fault names the index of its event.
    """
    if run is not None:
        _check_run(run)
    value = parsed(raw)
    if not isinstance(value, dict) or not isinstance(value.get("events"), list) or len(value) != 1:
        raise wrong([{"field": "events", "message": 'must be {"events": [...]} and nothing else'}])
    events = value["events"]
    if len(events) > most:
        raise Problem(413, f"{len(events)} events in one batch; allowed: {most} (gateway.limits.batchEvents)")
    asked: list[Asked] = []
    faults: list[dict[str, Any]] = []
    for index, event in enumerate(events):
        try:
            asked.append(_from_batch(event, index, run))
        except Problem as problem:
            faults += map(dict, problem.errors)
            if len(faults) >= MOST_FAULTS:
                break
    if faults:
        raise wrong(faults[:MOST_FAULTS], f"nothing was done: event {faults[0]['index']} is wrong")
    return asked


def _from_batch(event: Any, index: int, run: str | None) -> Asked:
    def fault(field: str, message: str) -> Problem:
        return wrong([{"field": f"events.{index}{field}", "message": message, "index": index}])

    if not isinstance(event, dict):
        raise fault("", f"must be an object, not {type_name(event)}")
    kind = event.pop("event", None)
    if not isinstance(kind, str) or kind not in BODIES:
        raise fault(".event", f"allowed: {', '.join(BODIES)}")
    named = event.pop("run", run)
    if run is not None and named != run:
        raise fault(".run", "must be the run of the path, or missing")
    if named is not None and not (isinstance(named, str) and 1 <= len(named) <= LONGEST_ID):
        raise fault(".run", f"must be null or a string of 1 to {LONGEST_ID} characters")
    return _asked(kind, named, event, index)


def _asked(kind: str, run: str | None, value: Any, index: int | None) -> Asked:
    body = checked(value, BODIES[kind], index)
    written = ordered(value)
    return Asked(kind, run, body, blake2b(written, digest_size=_DIGEST_BYTES, person=kind.encode()).digest())


def _check_run(run: str) -> None:
    if not 1 <= len(run) <= LONGEST_ID:
        message = f"must have 1 to {LONGEST_ID} characters, not {len(run)}"
        raise wrong([{"field": "run", "message": message}])
