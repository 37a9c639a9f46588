"""The log of faults: one line each, bounded, for `loopwarden doctor`.

A hook has nobody to tell of a fault: what it prints goes to the agent, and the agent must go on.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final

from loopwarden.hooks.places import FAULTS_FILE
from loopwarden.telemetry import log

_MOST_BYTES: Final = 256 * 1024
"""Above this the older half of the file is dropped."""

_LONGEST_LINE: Final = 500


def note_fault(folder: Path, text: str) -> None:
    """Append a line; where that fails there is nothing left to do."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    words = "".join(char if char.isprintable() else " " for char in text)[:_LONGEST_LINE]
    path = folder / FAULTS_FILE
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{moment} {words}\n".encode("utf-8", "replace"))
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size > _MOST_BYTES:
            _shorten(path)


def faults(folder: Path, most: int = 20) -> list[str]:
    """The newest lines, oldest first."""
    try:
        text = (folder / FAULTS_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.splitlines()[-most:]


def route_log(folder: Path) -> None:
    """What the guard logs about its own faults goes to the file too; loops are no faults."""
    if not any(isinstance(handler, _FaultHandler) for handler in log.logger.handlers):
        log.logger.addHandler(_FaultHandler(folder))
        log.logger.propagate = False  # standard error belongs to the host


class _FaultHandler(logging.Handler):
    def __init__(self, folder: Path) -> None:
        super().__init__(logging.WARNING)
        self._folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, log.FACTS):
            return
        error = record.exc_info[1] if record.exc_info else None
        cause = f": {where(error)}" if error is not None else ""
        note_fault(self._folder, f"{record.getMessage()}{cause}")


def where(error: BaseException) -> str:
    """What kind of error it is and where it was raised; its text may quote an argument."""
    place = traceback.extract_tb(error.__traceback__)[-1:]
    return type(error).__name__ + "".join(f" at {Path(one.filename).name}:{one.lineno}" for one in place)


def _shorten(path: Path) -> None:
    data = path.read_bytes()[-_MOST_BYTES // 2 :]
    fresh = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data.partition(b"\n")[2])
    fresh.replace(path)
