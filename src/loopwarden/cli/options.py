"""What several commands do with their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from loopwarden.config import load_config

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.config import Config


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
