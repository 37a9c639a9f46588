"""From checked blocks to the settings of every agent: merge, repair, explain. Knows no models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from loopwarden.config.document import Document
from loopwarden.config.merge import Layer, Value, Written, merge
from loopwarden.config.repair import Places, repair
from loopwarden.config.resolved import Config, Resolved, Setting
from loopwarden.config.settings import settings_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.errors import ConfigProblem

TOP: Final = ("tools", "loopDetection")
"""Where the global block stands in a file laid out as OpenClaw's."""


def defaults() -> Config:
    """What comes of an empty configuration, which needs no check."""
    return resolve(Written(layer=Layer.GLOBAL, origin="global", path=(), values={}), {})


def resolve(
    shared: Written | None,
    own: Mapping[str, Written],
    *,
    source: str | None = None,
    agents: tuple[str, ...] = (),
    notices: tuple[ConfigProblem, ...] = (),
    document: Document | None = None,
) -> Config:
    """The configuration that checked blocks make.

    Args:
        shared: The global block, `None` where there is none.
        own: The blocks of agents, by id.
        source: The file they come from.
        agents: Ids of all agents that are listed, with or without a block.
        notices: What was worth saying before.
        document: All that was written.
    """
    base = shared.path if shared else TOP
    document = document or Document()
    resolved: dict[str | None, Resolved] = {}
    warnings = dict.fromkeys(notices)
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
        source=source, warnings=tuple(warnings), agent_ids=agents, _resolved=resolved, document=document
    )


def _explain_profile(pattern: str, profile: dict[str, Value]) -> list[Setting]:
    return [
        Setting(field=f"toolProfiles.{pattern}.{name}", value=one.value, origin=one.origin)
        for name, one in profile.items()
        if one.value is not None
    ]
