"""From what a person wrote to settings: read it, check all of it, merge and repair it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import ValidationError

from loopwarden.config.find import find_config, read_config
from loopwarden.config.json5_reader import MAX_DEPTH, Document, Json5Error, read_json5
from loopwarden.config.layout import TOP, Layout, lay_out
from loopwarden.config.merge import Layer, Value, Written, merge
from loopwarden.config.problems import MOST, named, problems_of, shown
from loopwarden.config.repair import Places, repair
from loopwarden.config.resolved import Config, Resolved, Setting
from loopwarden.config.schema import LoopDetection
from loopwarden.config.settings import settings_from
from loopwarden.errors import ConfigError, ConfigProblem

if TYPE_CHECKING:
    from loopwarden.config.resolved import Source

_MAX_ITEMS = 200_000  # a Python mapping that holds itself many times over has to end somewhere


def load(source: Source) -> Config:
    """Do what `loopwarden.config.load_config` says."""
    if isinstance(source, Mapping):
        return _resolve(Document(value=_plain(source, 0, [_MAX_ITEMS])), None)
    if source is None:
        path = find_config()
        return _resolve(Document(value={}), None) if path is None else _load_file(path)
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
    base = shared.path if shared else TOP
    resolved: dict[str | None, Resolved] = {}
    warnings = dict.fromkeys(layout.notices)
    for agent, block in [(None, None), *own.items()]:
        blocks = [one for one in (shared, block) if one is not None]
        fields, profiles = merge(blocks)
        places = Places(shared=base, own=block.path if block else base, lines=document.lines)
        warnings |= dict.fromkeys(repair(fields, profiles, places))
        settings = settings_from(fields, profiles)
        explained = [Setting(field=name, value=one.value, origin=one.origin) for name, one in fields.items()]
        for pattern, profile in profiles.items():
            explained += _explain_profile(pattern, profile)
        observing = replace(settings, mode="observe")
        resolved[agent] = Resolved(
            settings=settings,
            observing=observing,
            explained=tuple(explained),
            patterns=frozenset(profiles),
        )
    return Config(
        source=source,
        warnings=tuple(warnings),
        agent_ids=tuple(layout.agents),
        _resolved=resolved,
    )


def _explain_profile(pattern: str, profile: dict[str, Value]) -> list[Setting]:
    return [
        Setting(field=f"toolProfiles.{pattern}.{name}", value=one.value, origin=one.origin)
        for name, one in profile.items()
        if one.value is not None
    ]


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
