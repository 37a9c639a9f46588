"""What an object is made of that is no plain data: as far as possible without running code of its class.

Attributes are read from the instance's own dictionary and slots through the descriptors that the
interpreter made, so properties, `__getattr__` and `__getattribute__` are never asked. Only where that
shows nothing, or where the class keeps its state out of Python's sight, the object is asked for its raw
memory, its pickling state (taken apart here, never loaded) and at last its `repr` without addresses. Two
objects of one class that show no difference in any of these ways are taken for alike.
"""

from __future__ import annotations

import copyreg
import dataclasses
import re
from collections import defaultdict
from contextlib import suppress
from enum import Enum
from itertools import islice
from pathlib import PurePath
from types import (
    AsyncGeneratorType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

REPR_LIMIT: Final = 100_000
"""Characters of a `repr` that are kept; of a longer one the length counts too."""

REDUCED_LIMIT: Final = 1_000_000
"""Items taken from an iterator in an object's pickling state."""

_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{4,}")
_WORD: Final = tuple.__itemsize__
_HEADER_WORDS: Final = 2  # an instance's dictionary and its list of weak references
_EXTRA_FIELDS: Final = "__pydantic_extra__"  # the one dunder slot that holds data

_uuid_number = UUID.__dict__["int"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
_size_of = type.__dict__["__basicsize__"].__get__
_item_size_of = type.__dict__["__itemsize__"].__get__


def class_name(kind: type) -> str:
    """Give `module.Qualified.Name` of a class, without asking its metaclass."""
    try:
        module = _module_of(kind)
    except AttributeError:
        module = None
    return f"{module if type(module) is str else '?'}.{_qualname_of(kind)}"


def describe(value: object) -> tuple[str, object]:
    """Give the class name of an object and what tells it from others of its class.

    The second part holds plain containers with any objects in them, the object itself perhaps included.
    Never raises; does not advance iterators and generators.
    """
    kind = type(value)
    with suppress(Exception):  # a subclass may break what its base promises
        known = _known(value)
        if known is not None:
            return class_name(kind), known
    return class_name(kind), _unknown(value, kind)


def own_attributes(value: object) -> dict[str, object]:
    """Give the attributes an instance holds itself: slots by name, its dictionary under `__dict__`.

    Names with two leading and trailing underscores and slots without a value are left out, and of a
    dataclass all that is not compared. Empty where there is none.
    """
    found, _ = _attributes(value, type(value))
    return found


def _known(value: Any) -> object:
    """Describe an object whose attributes would say too much or too little; None for any other kind."""
    kind = type(value)
    if issubclass(kind, Enum):
        return [value._name_, value._value_]
    if issubclass(kind, UUID):
        return _uuid_number(value, kind)
    if issubclass(kind, PurePath):
        return PurePath.__str__(value)
    if issubclass(kind, ModuleType):
        return object.__getattribute__(value, "__dict__").get("__name__")
    if kind is MethodType:
        return [value.__func__, value.__self__]
    if kind is FunctionType:
        cells = [_cell(cell) for cell in value.__closure__ or ()]
        return [value.__module__, value.__code__, value.__defaults__, value.__kwdefaults__, cells]
    if kind is CodeType:
        return [value.co_qualname, value.co_code, value.co_consts, value.co_names]
    if kind is GeneratorType:
        return _suspended(value.gi_code, value.gi_frame)
    if kind is CoroutineType:
        return _suspended(value.cr_code, value.cr_frame)
    if kind is AsyncGeneratorType:
        return _suspended(value.ag_code, value.ag_frame)
    if kind is orjson.Fragment:
        return orjson.dumps(value)
    return None


def _cell(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return Ellipsis


def _suspended(code: CodeType, frame: FrameType | None) -> object:
    """Describe a generator by its place and variables; `frame` is None when it has ended."""
    return [code, None] if frame is None else [code, frame.f_lasti, {**frame.f_locals}]


def _unknown(value: object, kind: type) -> object:
    attributes, hidden = _attributes(value, kind)
    if attributes and not hidden:
        return attributes
    for ask in (_memory, _reduced, _repr):
        try:
            more = ask(value)
        except Exception:  # noqa: BLE001, S112 - an object may refuse, in any way, to be asked
            continue
        return [attributes, ask.__name__, more]
    return attributes


def _attributes(value: object, kind: type) -> tuple[dict[str, object], bool]:
    """Give the attributes of an instance and whether its class holds state besides."""
    found: dict[str, object] = {}
    own: object = None
    words = _HEADER_WORDS
    for base in _mro_of(kind):
        for name, descriptor in [*_namespace_of(base).items()]:
            if type(descriptor) is MemberDescriptorType and base is not defaultdict:
                words += 1
                if name == _EXTRA_FIELDS or not _is_dunder(name):
                    with suppress(AttributeError):  # a slot without a value
                        found.setdefault(name, descriptor.__get__(value, kind))
            elif name == "__dict__" and type(descriptor) is GetSetDescriptorType and own is None:
                own = descriptor.__get__(value, kind)
    if type(own) is dict and own and own is not value:
        found["__dict__"] = own
    hidden = _size_of(kind) - object.__basicsize__ > words * _WORD or _item_size_of(kind) != 0
    return _compared(found, kind), hidden


def _compared(found: dict[str, object], kind: type) -> dict[str, object]:
    """Keep of the attributes of a dataclass those that take part in comparison, if there are any."""
    fields = _namespace_of(kind).get("__dataclass_fields__")
    if type(fields) is not dict:
        return found
    own = found.get("__dict__")
    everything = {**found, **own} if type(own) is dict else found
    kept = {
        name: everything[name]
        for name, field in fields.items()
        if type(field) is dataclasses.Field and field.compare and name in everything
    }
    return kept or found


def _is_dunder(name: object) -> bool:
    return type(name) is str and name.startswith("__") and name.endswith("__")


def _memory(value: Any) -> object:
    with memoryview(value) as view:
        if "O" in view.format or "P" in view.format:
            raise TypeError("the memory holds addresses")
        if view.format == "B" and view.ndim == 1:
            return view.tobytes()
        return [view.format, view.shape, view.tobytes()]


def _reduced(value: object) -> object:
    """Ask for the pickling state; its iterators are made for the purpose and may be used up."""
    reducer = copyreg.dispatch_table.get(type(value))
    state = reducer(value) if reducer is not None else value.__reduce_ex__(4)
    if type(state) is not tuple:
        return state
    items: list[Iterator[object]] = [item for item in state[3:5] if item is not None]
    return [*state[:3], *([*islice(item, REDUCED_LIMIT)] for item in items)]


def _repr(value: object) -> object:
    text = repr(value)
    return [len(text), _ADDRESS.sub("", text[:REPR_LIMIT])]
