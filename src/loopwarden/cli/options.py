"""What several commands do with their options."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperGroup

from loopwarden.config import load_config

if TYPE_CHECKING:
    from loopwarden.config import Config

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION: Final = re.compile(r"(\d{1,6})([smhdw])")


class Group(TyperGroup):
    """A group of commands that shows its help, as asked for, when it is called without a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `TyperGroup`."""
        return super().parse_args(ctx, args or ["--help"])


def load(path: Path | None, agent: str | None = None) -> Config:
    """The configuration, with the agent in it.

    Raises:
        ConfigError: It is wrong.
        typer.BadParameter: It does not list the agent.
    """
    config = load_config(path)
    if agent is not None and agent not in config.agent_ids:
        known = ", ".join(config.agent_ids) or "none"
        where = config.source or "there is no configuration file"
        raise typer.BadParameter(
            f"{agent!r} is not in the configuration ({where}); it lists: {known}", param_hint="--agent"
        )
    return config


ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Configuration; without it as for scan, and where there is none everything is on.",
    ),
]
"""The option of commands that put the guard in between; see `load_acting`."""


def load_acting(path: Path | None, agent: str | None = None) -> Config:
    """As `load`; but where there is no configuration everything is on: who starts a guard wants it to act."""
    config = load(path, agent)
    return load_config({"enabled": True}) if config.source is None else config


def idle(enabled: bool | None) -> str | None:
    """Why nothing will be refused, `None` if something may be."""
    if enabled is None:
        return (
            "`enabled` is not set, so repeated calls will not be refused (`would` says which would be);"
            " set `enabled: true` in the configuration"
        )
    if enabled:
        return None
    return "the configuration switches all detectors off (enabled: false), so nothing will be refused"


def since_time(text: str | None, now: float) -> float | None:
    """Seconds since the epoch for `7d`, `12h` or a date; `None` stays `None`.

    Raises:
        typer.BadParameter: It is none of these.
    """
    if text is None:
        return None
    length = _DURATION.fullmatch(text.strip().lower())
    if length is not None:
        return now - int(length[1]) * _UNITS[length[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        message = f"{text!r}: give a length as 30m, 12h, 7d, 2w, or a date as 2026-07-01"
        raise typer.BadParameter(message, param_hint="--since") from None
