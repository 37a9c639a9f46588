"""Notices when an AI agent goes round in circles with its tools, says so, and ends the run in time."""

from __future__ import annotations

from loopwarden.config import Config, load_config
from loopwarden.errors import (
    ConfigError,
    LoopAborted,
    LoopwardenError,
    MissingExtraError,
    StoreError,
    TranscriptError,
)
from loopwarden.events import Compaction, Outcome, Retraction, ToolCall, UserMessage, Verdict
from loopwarden.guard import GuardSession, LoopGuard

__version__ = "0.1.0"

__all__ = [
    "Compaction",
    "Config",
    "ConfigError",
    "GuardSession",
    "LoopAborted",
    "LoopGuard",
    "LoopwardenError",
    "MissingExtraError",
    "Outcome",
    "Retraction",
    "StoreError",
    "ToolCall",
    "TranscriptError",
    "UserMessage",
    "Verdict",
    "__version__",
    "load_config",
]
