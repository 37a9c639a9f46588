"""From what a person wrote to settings: read it and check all of it with the models, then resolve it."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import ValidationError

from loopwarden.config.document import Document
from loopwarden.config.find import read_config
from loopwarden.config.json5_reader import MAX_DEPTH, Json5Error, read_json5
from loopwarden.config.layout import Layout, lay_out
from loopwarden.config.merge import Layer, Written
from loopwarden.config.problems import MOST, problems_of
from loopwarden.config.resolve import resolve
from loopwarden.config.schema import LoopDetection
from loopwarden.config.wording import named, shown
from loopwarden.errors import ConfigError, ConfigProblem

if TYPE_CHECKING:
    from loopwarden.config.resolved import Config

_MAX_ITEMS = 200_000  # a Python mapping that holds itself many times over has to end somewhere


def load(source: str | PathLike[str] | Mapping[str, Any]) -> Config:
    """Do what `loopwarden.config.load_config` says, for a configuration that there is."""
    if isinstance(source, Mapping):
        return _resolve(Document(value=_plain(source, 0, [_MAX_ITEMS])), None)
    if not isinstance(source, (str, PathLike)):
        _refuse(f"{shown(source)} is no configuration; give a path or a mapping", None)
    try:
        return _load_file(Path(fspath(source)))
    except TypeError:
        _refuse("a path in bytes; give it as text", None)


def _load_file(path: Path) -> Config:
    text = read_config(path)
    if not text.strip():
        _refuse("the file is empty; {} is the smallest configuration", str(path))
    try:
        document = read_json5(text)
    except Json5Error as error:
        _refuse(f"no valid JSON5: {error.reason}", str(path), error.line)
    return _resolve(document, str(path))


def _refuse(message: str, source: str | None, line: int | None = None) -> NoReturn:
    raise ConfigError((ConfigProblem(path="", message=message, line=line),), source=source)


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    """A Python value with mappings as dicts and sequences as lists; anything else stays for the models."""
    left[0] -= 1
    if depth > MAX_DEPTH or left[0] < 0:
        _refuse(f"nested deeper than {MAX_DEPTH} levels, or holding more than {_MAX_ITEMS} values", None)
    if isinstance(value, Mapping):
        result = {}
        for key, one in value.items():
            if not isinstance(key, str):
                _refuse(f"{shown(key)} is no key; allowed: strings", None)
            result[key] = _plain(one, depth + 1, left)
        return result
    if isinstance(value, (list, tuple)):
        return [_plain(one, depth + 1, left) for one in value]
    return value


def _resolve(document: Document, source: str | None) -> Config:
    layout = lay_out(document)
    shared, own = _check(layout, document, source)
    return resolve(
        shared,
        own,
        source=source,
        agents=tuple(layout.agents),
        notices=tuple(layout.notices),
        document=document,
    )


def _check(
    layout: Layout, document: Document, source: str | None
) -> tuple[Written | None, dict[str, Written]]:
    """The global block and those of agents, checked.

    Raises:
        ConfigError: With every fault of the whole configuration (at most `MOST`), in the order of the file.
    """
    faults = list(layout.faults)
    shared: Written | None = None
    own: dict[str, Written] = {}
    for found in layout.blocks:
        try:
            values = LoopDetection.model_validate(found.value).written()
        except ValidationError as error:
            faults += problems_of(error, found.path, document.lines)
            continue
        if found.agent is None:
            shared = Written(layer=Layer.GLOBAL, origin="global", path=found.path, values=values)
        else:
            origin = f"agent {named(found.agent)}"
            own[found.agent] = Written(layer=Layer.AGENT, origin=origin, path=found.path, values=values)
    if faults:
        faults.sort(key=lambda fault: fault.line or 0)
        raise ConfigError(tuple(dict.fromkeys(faults))[:MOST], source=source)
    return shared, own
