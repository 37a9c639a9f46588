"""What a person writes, and the settings that come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.config.resolved import Config, Setting

if TYPE_CHECKING:
    from loopwarden.config.resolved import Source

__all__ = ["Config", "Setting", "load_config"]


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
    if source is None:
        from loopwarden.config.find import find_config

        source = find_config()
        if source is None:
            from loopwarden.config.resolve import defaults

            return defaults()
    from loopwarden.config.load import load  # with the models, which only a configuration needs

    return load(source)
