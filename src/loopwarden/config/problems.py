"""Faults in the words of the person who wrote the configuration: where, what was given, what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from loopwarden.config.schema import Block, LoopDetection
from loopwarden.config.wording import LARGEST, dotted, line_of, nearest, shown
from loopwarden.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

    from loopwarden.config.document import Path

MOST: Final = 200
"""Most faults that one error tells; a file with more is no configuration."""

_NUMBERS: Final = frozenset({"int_type", "greater_than_equal", "less_than_equal"})
_ALLOWED: Final = {
    "bool_type": "true or false",
    "float_type": "a number above 0",
    "greater_than": "a number above 0",
    "finite_number": "a number above 0",
    "model_type": "an object",
    "dict_type": "an object",
    "list_type": "a list of strings",
    "string_type": "a string",
    "string_unicode": "a string of valid characters",
    "string_too_short": "a string that is not empty",
}


def problems_of(
    error: ValidationError, at: Path, lines: Mapping[Path, int], model: type[Block] = LoopDetection
) -> list[ConfigProblem]:
    """Every fault that `model` found in the block at `at`, up to `MOST`."""
    return [_problem(detail, at, lines, model) for detail in error.errors(include_url=False)[:MOST]]


def _problem(detail: ErrorDetails, at: Path, lines: Mapping[Path, int], model: type[Block]) -> ConfigProblem:
    loc = tuple(part for part in detail["loc"] if part != "[key]")
    path = (*at, *loc)
    kind = detail["type"]
    suggestion = None
    if kind == "extra_forbidden":
        known = known_keys(loc[:-1], model)
        suggestion = nearest(str(loc[-1]), known)
        message = f"unknown key (with {shown(detail['input'])}); known here: {', '.join(known)}"
    elif kind == "missing":
        message = "missing; it has to be there"
    else:
        message = f"{shown(detail['input'])} is not allowed; {_allowed(detail, loc, model)}"
    return ConfigProblem(path=dotted(path), message=message, line=line_of(path, lines), suggestion=suggestion)


def _allowed(detail: ErrorDetails, loc: Path, model: type[Block]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _NUMBERS:
        return f"allowed: {_numbers(_field_at(loc, model), beyond=kind == 'less_than_equal')}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"allowed: {str(context['expected']).replace(chr(39), chr(34))}"
    if kind == "string_too_long":
        return f"allowed: up to {context['max_length']} characters"
    if kind == "too_long":
        return f"allowed: up to {context['max_length']} entries"
    if kind == "too_short":
        return "allowed: at least one entry"
    return f"allowed: {_ALLOWED.get(kind, detail['msg'])}"


def known_keys(loc: Path, model: type[Block] = LoopDetection) -> list[str]:
    """The keys that the models know in the block at `loc`, counted from a block of `model`."""
    return [str(one.alias) for one in _block_at(loc, model).model_fields.values()]


def _block_at(loc: Path, model: type[Block]) -> type[Block]:
    """The model of the block at `loc`."""
    inside_mapping = False
    for part in loc:
        if inside_mapping:  # a tool name under toolProfiles: the model stays the one of its values
            inside_mapping = False
            continue
        annotation: Any = next(one.annotation for one in model.model_fields.values() if one.alias == part)
        inside_mapping = get_origin(annotation) is dict
        kinds = get_args(annotation) or (annotation,)  # `X | None` is an X
        model = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Block))
    return model


def _field_at(loc: Path, model: type[Block]) -> FieldInfo:
    """The field at `loc`, which is one of a block."""
    fields = _block_at(loc[:-1], model).model_fields
    return next(one for one in fields.values() if one.alias == loc[-1])


def _numbers(field: FieldInfo, *, beyond: bool) -> str:
    """The numbers that a field takes; `beyond`: the one that was given is too large."""
    marks, word = list(field.metadata), "a whole number" if field.annotation is int else "a number"
    for kind in get_args(field.annotation):  # `Annotated[int, Field(...)] | None` has them inside
        word = "a whole number" if int in get_args(kind) else word
        marks += [mark for given in get_args(kind)[1:] for mark in given.metadata]
    bounds: dict[str, int] = {}
    for mark in marks:
        bounds |= {name: getattr(mark, name) for name in ("ge", "le") if hasattr(mark, name)}
    low, high = bounds.get("ge", 1), bounds.get("le", LARGEST)
    if high != LARGEST:
        return f"{word} from {low} to {high}"
    return f"{word} up to {high}" if beyond else f"{word}, {low} or more"
