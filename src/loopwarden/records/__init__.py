"""The run record: what was detected, refused and aborted in every run, when, and why.

Nothing is written unless the user switches it on: `LoopGuard(record=...)`. Read it with `loopwarden runs`,
or with `read` and `summaries`.
"""

from __future__ import annotations

from loopwarden.records.entry import Entry
from loopwarden.records.places import default_path, read
from loopwarden.records.recorder import RunRecorder
from loopwarden.records.summary import RunSummary, summaries

__all__ = ["Entry", "RunRecorder", "RunSummary", "default_path", "read", "summaries"]
