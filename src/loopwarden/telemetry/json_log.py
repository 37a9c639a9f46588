"""Log lines as JSON objects, one a line, for collectors that read no prose."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, Final

from loopwarden.masking import clean
from loopwarden.telemetry.log import FACTS

_MESSAGE: Final = 2000
_NAME: Final = 200
_FRAMES: Final = 20


class JsonFormatter(logging.Formatter):
    """Formats any log record as one JSON object of ASCII characters.

    The first keys are always `time` (UTC), `severity`, `logger` and `message`. A loop event goes on with
    `event` (`loop`), `tool`, `level`, `action`, `detector`, `count`, `threshold`, `run`, `key` and
    `observed`; an armed post-compaction guard with `event` (`armed`) and `attempts`. A fault goes on with
    `error` (the type of the exception) and `trace` (file, line and function, innermost last): neither what
    the exception said nor source lines, since these may hold arguments.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "severity": record.levelname,
            "logger": record.name,
            "message": clean(record.getMessage(), _MESSAGE),
        }
        facts = getattr(record, FACTS, None)
        if isinstance(facts, dict):
            line |= {name: _plain(value) for name, value in facts.items()}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["trace"] = [
                clean(f"{frame.filename}:{frame.lineno} {frame.name}", _MESSAGE)
                for frame in traceback.extract_tb(record.exc_info[2])[-_FRAMES:]
            ]
        return json.dumps(line)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return clean(value if isinstance(value, str) else str(value), _NAME)
