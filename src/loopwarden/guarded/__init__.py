"""Plain functions as guarded tools, the blocks that their calls belong to, and what tools raise."""

from __future__ import annotations

from loopwarden.guarded.blocks import Blocks, current_run
from loopwarden.guarded.functions import guarded
from loopwarden.guarded.raised import is_out_of_time, is_stop, said

__all__ = ["Blocks", "current_run", "guarded", "is_out_of_time", "is_stop", "said"]
