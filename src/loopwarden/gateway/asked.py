"""From the body of a request to events, all checked before any is done."""

from __future__ import annotations

import difflib
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import ValidationError

from loopwarden.gateway.bodies import BODIES, LONGEST_ID, Body
from loopwarden.gateway.problems import Problem
from loopwarden.gateway.wire import ordered, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIGEST_BYTES: Final = 16
_MOST_FAULTS: Final = 20
_LONGEST_FIELD: Final = 200
_TYPES: Final = {
    dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number",
    float: "a number", type(None): "null",
}  # fmt: skip


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
    value = _parsed(raw) if raw else {}
    if not isinstance(value, dict):
        raise _wrong([{"field": "", "message": f"must be an object, not {_type(value)}"}])
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
    value = _parsed(raw)
    if not isinstance(value, dict) or not isinstance(value.get("events"), list) or len(value) != 1:
        raise _wrong([{"field": "events", "message": 'must be {"events": [...]} and nothing else'}])
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
            if len(faults) >= _MOST_FAULTS:
                break
    if faults:
        raise _wrong(faults[:_MOST_FAULTS], f"nothing was done: event {faults[0]['index']} is wrong")
    return asked


def _from_batch(event: Any, index: int, run: str | None) -> Asked:
    def fault(field: str, message: str) -> Problem:
        return _wrong([{"field": f"events.{index}{field}", "message": message, "index": index}])

    if not isinstance(event, dict):
        raise fault("", f"must be an object, not {_type(event)}")
    kind = event.pop("event", None)
    if not isinstance(kind, str) or kind not in BODIES:
        raise fault(".event", f"allowed: {', '.join(BODIES)}")
    named = event.pop("run", run)
    if run is not None and named != run:
        raise fault(".run", "must be the run of the path, or missing")
    if named is not None and not (isinstance(named, str) and 1 <= len(named) <= LONGEST_ID):
        raise fault(".run", f"must be null or a string of 1 to {LONGEST_ID} characters")
    return _asked(kind, named, event, index)


def _asked(kind: str, run: str | None, value: dict[str, Any], index: int | None) -> Asked:
    model = BODIES[kind]
    try:
        body = model.__pydantic_validator__.validate_python(value)
    except ValidationError as error:
        if not any(one["type"] == "string_unicode" for one in error.errors(include_url=False)):
            raise _wrong(list(_faults(error, model, index))) from None
        body = _checked({name: _whole(one) for name, one in value.items()}, model, index)
    written = ordered(value)
    return Asked(kind, run, body, blake2b(written, digest_size=_DIGEST_BYTES, person=kind.encode()).digest())


def _checked(value: dict[str, Any], model: type[Body], index: int | None) -> Body:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _wrong(list(_faults(error, model, index))) from None


def _whole(value: Any) -> Any:
    """A name without half of a surrogate pair: that is written out."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return [_whole(one) for one in value]
    return value


def _parsed(raw: bytes) -> Any:
    try:
        return parse(raw)
    except ValueError as error:
        raise Problem(400, f"the body can't be read: {error}") from None


def _check_run(run: str) -> None:
    if not 1 <= len(run) <= LONGEST_ID:
        message = f"must have 1 to {LONGEST_ID} characters, not {len(run)}"
        raise _wrong([{"field": "run", "message": message}])


def _wrong(faults: list[dict[str, Any]], detail: str | None = None) -> Problem:
    if detail is None:
        where = f"{faults[0]['field']}: " if faults[0]["field"] else "the body "
        detail = f"{where}{faults[0]['message']}"
    return Problem(422, detail, errors=faults)


def _faults(error: ValidationError, model: type[Body], index: int | None) -> Iterator[dict[str, Any]]:
    """What pydantic found, in words; no values of the client."""
    allowed = list(model.model_fields)
    head = [] if index is None else ["events", str(index)]
    for one in error.errors(include_url=False, include_context=False)[:_MOST_FAULTS]:
        path = [str(part) for part in one["loc"]]
        if one["type"] == "extra_forbidden":
            near = difflib.get_close_matches(path[-1][:_LONGEST_FIELD], allowed, 1)
            hint = f" (did you mean `{near[0]}`?)" if near else ""
            message = f"is no field of this event{hint}; allowed: {', '.join(allowed)}"
        elif one["type"] == "missing":
            message = "is missing"
        else:
            message = one["msg"].removeprefix("Value error, ")
            message = message.replace("Input should be", "must be").replace("String should", "must")
            if one["type"].endswith("_type"):
                message += f", not {_type(one['input'])}"
        fault = {"field": ".".join([*head, *path])[:_LONGEST_FIELD], "message": message}
        yield fault if index is None else {**fault, "index": index}


def _type(value: Any) -> str:
    return _TYPES.get(type(value), "something else")
