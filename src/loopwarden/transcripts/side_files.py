"""Files that known programs keep beside their sessions: an index, or the same run told another way.

They hold no events that the sessions don't have, so a search through a folder passes over them.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from loopwarden.transcripts.outline import outline

if TYPE_CHECKING:
    from loopwarden.transcripts.source import Source

INDEXES = frozenset({"sessions.json", "sessions-index.json"})
"""Names of the lists of sessions of OpenClaw and of Claude Code."""

TRAJECTORY_SCHEMA = "openclaw-trajectory"
"""How `traceSchema` begins in OpenClaw's flight recorder (`<session>.trajectory.jsonl`) and its pointer."""

PROJECT_FILES = (
    "package.json", "package-lock.json", "npm-shrinkwrap.json", "tsconfig*.json", "jsconfig*.json",
    "deno.json", "composer.json", "bower.json", "lerna.json", "nx.json", "project.json", "turbo.json",
    "vercel.json", "firebase.json", "renovate.json", "angular.json", "global.json", "appsettings*.json",
    "manifest.json", "*.config.json", "*.schema.json", "*.code-workspace", ".*rc.json", ".*rc",
    "settings.json", "settings.*.json", "launch.json", "tasks.json", "extensions.json",
    "keybindings.json", "devcontainer.json", ".mcp.json", "mcp.json", "loopwarden.json",
    "openclaw.json", "biome.json", "cspell.json", "pyrightconfig.json", "renovate.json5",
    "lefthook.json",
)  # fmt: skip
"""Names of what tools and editors keep in a project."""


def is_project_file(source: Source) -> bool:
    """Whether the file has a name that tools and editors give to their settings."""
    name = "" if source.path is None else source.path.name.lower()
    return any(fnmatchcase(name, pattern) for pattern in PROJECT_FILES)


def is_side_file(source: Source) -> bool:
    """Whether the content is that of a known side file, told from `source.head`; never raises."""
    keys = outline(source.head)
    if (keys.get(("traceSchema",)) or "").startswith(TRAJECTORY_SCHEMA):
        return True
    listed = source.path is not None and source.path.name in INDEXES
    return listed and any(path[-1] == "sessionId" for path in keys)
