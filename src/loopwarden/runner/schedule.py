"""When an agent's scheduled runs begin: an interval, or a cron expression in local time."""

from __future__ import annotations

import os
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from loopwarden.config.runtime import seconds_of
from loopwarden.errors import MissingExtraError

try:
    from cronsim import CronSim
except ImportError as error:
    raise MissingExtraError("cronsim", "runner") from error

if TYPE_CHECKING:
    from loopwarden.config.runtime import HeartbeatBlock

_LOCALTIME: Final = Path("/etc/localtime")
_ZONES: Final = "zoneinfo/"


class Schedule:
    """The moments of one agent's heartbeat.

    When the clocks change, a cron job for a moment that is left out begins when the gap is over, and one for
    a moment that comes twice begins once; a job of every hour, or more often, goes by what the clock shows.

    Args:
        block: What the configuration says, checked where it was read.
        began: Intervals are counted from here; seconds since the epoch.
        zone: Time zone of a cron expression.
    """

    def __init__(self, block: HeartbeatBlock, began: float, zone: tzinfo) -> None:
        self._began = began
        self._zone = zone
        self._every = seconds_of(block.every) if block.every is not None else 0
        self._cron = block.cron or ""

    def after(self, now: float) -> float:
        """The first moment after `now`; both in seconds since the epoch."""
        if self._every:
            return self._began + ((now - self._began) // self._every + 1) * self._every
        moments = CronSim(self._cron, datetime.fromtimestamp(now, self._zone))
        while True:
            moment = next(moments).timestamp()
            if moment > now:
                return moment


def local_zone() -> tzinfo:
    """The time zone of this machine, with its changes over the year where its name can be found."""
    for name in (os.environ.get("TZ", "").lstrip(":"), _linked()):
        try:
            if name:
                return ZoneInfo(name)
        except (OSError, ValueError):  # no such zone, or no name of one
            continue
    return datetime.now(UTC).astimezone().tzinfo or UTC


def _linked() -> str:
    try:
        return str(_LOCALTIME.resolve()).partition(_ZONES)[2]
    except (OSError, RuntimeError):
        return ""
