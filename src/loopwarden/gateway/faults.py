"""A body against the model of its endpoint: one set of words for what is wrong, wherever it was sent."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from loopwarden.gateway.problems import Problem
from loopwarden.gateway.wire import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

Made = TypeVar("Made", bound=BaseModel)

MOST_FAULTS: Final = 20
_LONGEST_FIELD: Final = 200
_TYPES: Final = {
    dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number",
    float: "a number", type(None): "null",
}  # fmt: skip
_WANTED: Final = {"string_type": str, "list_type": list, "bool_type": bool, "float_type": float}
"""The type that a fault of pydantic asks for."""


def parsed(raw: bytes) -> Any:
    """The JSON value of a body.

    Raises:
        Problem: 400.
    """
    try:
        return parse(raw)
    except ValueError as error:
        raise Problem(400, f"the body can't be read: {error}") from None


def checked(value: Any, model: type[Made], index: int | None = None) -> Made:
    """The value as the model has it. Half of a surrogate pair is written out as its escape.

    Args:
        value: The parsed body, or one event of it.
        model: What it must be.
        index: Of the event in a batch.

    Raises:
        Problem: 422.
    """
    if not isinstance(value, dict):
        raise wrong([{"field": "", "message": f"must be an object, not {type_name(value)}"}])
    try:
        made: Made = model.__pydantic_validator__.validate_python(value)
    except ValidationError as error:
        if not any(one["type"] == "string_unicode" for one in error.errors(include_url=False)):
            raise wrong(list(_faults(error, model, index))) from None
    else:
        return made
    try:
        return model.model_validate({name: _whole(one) for name, one in value.items()})
    except ValidationError as error:
        raise wrong(list(_faults(error, model, index))) from None


def wrong(faults: list[dict[str, Any]], detail: str | None = None) -> Problem:
    """The problem of a body with these faults; by default it says the first one."""
    if detail is None:
        where = f"{faults[0]['field']}: " if faults[0]["field"] else "the body "
        detail = f"{where}{faults[0]['message']}"
    return Problem(422, detail, errors=faults)


def type_name(value: Any) -> str:
    """The type of a JSON value, with its article."""
    return _TYPES.get(type(value), "something else")


def _whole(value: Any) -> Any:
    """A name without half of a surrogate pair: that is written out."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return [_whole(one) for one in value]
    return value


def _faults(error: ValidationError, model: type[BaseModel], index: int | None) -> Iterator[dict[str, Any]]:
    """What pydantic found, in words; no values of the client."""
    allowed = list(model.model_fields)
    head = [] if index is None else ["events", str(index)]
    for one in error.errors(include_url=False, include_context=False)[:MOST_FAULTS]:
        path = [str(part) for part in one["loc"]]
        if one["type"] == "extra_forbidden":
            near = difflib.get_close_matches(path[-1][:_LONGEST_FIELD], allowed, 1)
            hint = f" (did you mean `{near[0]}`?)" if near else ""
            message = f"is not known here{hint}; allowed: {', '.join(allowed)}"
        elif one["type"] == "missing":
            message = "is missing"
        elif one["type"] in _WANTED:
            message = f"must be {_TYPES[_WANTED[one['type']]]}, not {type_name(one['input'])}"
        else:
            message = one["msg"].removeprefix("Value error, ")
            message = message.replace("Input should be", "must be").replace("String should", "must")
        fault = {"field": ".".join([*head, *path])[:_LONGEST_FIELD], "message": message}
        yield fault if index is None else {**fault, "index": index}
