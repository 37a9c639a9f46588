"""From what a person wrote to settings: find it, read it, check all of it, merge and repair it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pydantic import ValidationError

from loopwarden.config.builtin import tool_profiles
from loopwarden.config.find import find_config, read_config
from loopwarden.config.json5_reader import MAX_DEPTH, Document, Json5Error, read_json5
from loopwarden.config.layout import TOP, Layout, lay_out
from loopwarden.config.merge import Layer, Value, Written, merge
from loopwarden.config.problems import MOST, problems_of, shown
from loopwarden.config.repair import Places, repair
from loopwarden.config.schema import LoopDetection
from loopwarden.config.settings import settings_from
from loopwarden.errors import ConfigError, ConfigProblem

if TYPE_CHECKING:
    from loopwarden.core.settings import Mode, Settings

_MAX_ITEMS = 200_000  # a Python mapping that holds itself many times over has to end somewhere

Source: TypeAlias = str | PathLike[str] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value of the merged result.

    Attributes:
        field: Documented name, as `criticalThreshold` or `toolProfiles.exec.kind`.
        value: The value that is used, as it would be written.
        origin: `default`, `preset NAME`, `global`, `agent ID`, or `repaired (given X, ORIGIN)`.
    """

    field: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The result for one agent."""

    settings: Settings
    observing: Settings
    explained: tuple[Setting, ...]
    patterns: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Config:
    """A checked configuration, resolved for every agent it names.

    Attributes:
        source: The file it comes from; `None` for a Python mapping and where there is no file.
        warnings: What was repaired and what is worth knowing, each once.
        agent_ids: The agents that the configuration lists, in its order.
    """

    source: str | None
    warnings: tuple[ConfigProblem, ...]
    agent_ids: tuple[str, ...]
    _resolved: Mapping[str | None, Resolved] = field(repr=False)

    def settings(self, agent_id: str | None = None, mode: Mode = "enforce") -> Settings:
        """The settings of an agent; one that is not listed, and `None`, has those of the global block."""
        resolved = self._of(agent_id)
        return resolved.settings if mode == "enforce" else resolved.observing

    def explain(self, agent_id: str | None = None) -> tuple[Setting, ...]:
        """Every value of `settings(agent_id)` with its origin, the shipped tool profiles at the end."""
        resolved = self._of(agent_id)
        shipped = tuple(
            Setting(field=f"toolProfiles.{pattern}.{name}", value=value, origin="default")
            for pattern, profile in tool_profiles().items()
            if pattern not in resolved.patterns
            for name, value in profile.items()
        )
        return resolved.explained + shipped

    def _of(self, agent_id: str | None) -> Resolved:
        return self._resolved.get(agent_id) or self._resolved[None]


def load_config(source: Source | Config = None) -> Config:
    """Read a configuration, check all of it and resolve it for every agent.

    Args:
        source: A path, a mapping (a bare `tools.loopDetection` block or one laid out as a file), or `None`
            for the first of: the file named by `LOOPWARDEN_CONFIG`, `./loopwarden.json5`,
            `loopwarden.json5` in the user's configuration folder; without any of them all is default.
            A `Config` is given back as it is.

    Raises:
        ConfigError: Anything is wrong with it; all faults at once.
    """
    if isinstance(source, Config):
        return source
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
            origin = f"agent {found.agent}"
            own[found.agent] = Written(layer=Layer.AGENT, origin=origin, path=found.path, values=values)
    if faults:
        faults.sort(key=lambda fault: fault.line or 0)
        raise ConfigError(tuple(dict.fromkeys(faults))[:MOST], source=source)
    return shared, own
