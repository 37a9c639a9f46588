"""Files that known programs keep beside their sessions: an index, or the same run told another way.

They hold no events that the sessions don't have, so a search through a folder passes over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.transcripts.outline import outline

if TYPE_CHECKING:
    from loopwarden.transcripts.source import Source

INDEXES = frozenset({"sessions.json", "sessions-index.json"})
"""Names of the lists of sessions of OpenClaw and of Claude Code."""

TRAJECTORY_SCHEMA = "openclaw-trajectory"
"""How `traceSchema` begins in OpenClaw's flight recorder (`<session>.trajectory.jsonl`) and its pointer."""


def is_side_file(source: Source) -> bool:
    """Whether the content is that of a known side file, told from `source.head`; never raises."""
    keys = outline(source.head)
    if (keys.get(("traceSchema",)) or "").startswith(TRAJECTORY_SCHEMA):
        return True
    listed = source.path is not None and source.path.name in INDEXES
    return listed and any(path[-1] == "sessionId" for path in keys)
