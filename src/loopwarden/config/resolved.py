"""A configuration that has been checked: what it says for each agent, and where each value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from loopwarden.config.document import Document

if TYPE_CHECKING:
    from loopwarden.core.settings import Mode, Settings
    from loopwarden.errors import ConfigProblem

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
        document: All that was written, for what is read beside the guard's blocks.
    """

    source: str | None
    warnings: tuple[ConfigProblem, ...]
    agent_ids: tuple[str, ...]
    _resolved: Mapping[str | None, Resolved] = field(repr=False)
    document: Document = field(default_factory=Document, repr=False)

    def settings(self, agent_id: str | None = None, mode: Mode = "enforce") -> Settings:
        """The settings of an agent; one that is not listed, and `None`, has those of the global block."""
        resolved = self._of(agent_id)
        return resolved.settings if mode == "enforce" else resolved.observing

    def explain(self, agent_id: str | None = None) -> tuple[Setting, ...]:
        """Every value of `settings(agent_id)` with its origin, the shipped tool profiles at the end."""
        from loopwarden.config.builtin import tool_profiles

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
