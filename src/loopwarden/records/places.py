"""Where a record lies and of which kind it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from loopwarden.errors import StoreError
from loopwarden.records.jsonl import JsonLinesRecord, read_lines
from loopwarden.state_folder import user_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loopwarden.records.entry import Entry

VARIABLE: Final = "LOOPWARDEN_RECORD"
FILE_NAME: Final = "runs.jsonl"

_DATABASES: Final = frozenset({".db", ".sqlite", ".sqlite3"})
_MAGIC: Final = b"SQLite format 3\0"


class Record(Protocol):
    """Takes entries; safe to share between threads."""

    def write(self, entries: Sequence[Entry]) -> None:
        """Append the entries.

        Raises:
            OSError: They could not be written.
            StoreError: The same, where the system has no number for it.
        """

    def close(self) -> None:
        """Give the file back; a later write opens it anew."""

    def after_fork(self) -> None:
        """Called in a child process."""


def default_path() -> Path:
    """Where the record lies if no file is named.

    What `LOOPWARDEN_RECORD` names (unless empty), else `runs.jsonl` in the user's state folder:
    `$XDG_STATE_HOME/loopwarden`, by default `~/.local/state/loopwarden`; on Windows
    `%LOCALAPPDATA%/loopwarden`.

    Raises:
        StoreError: The user has no home.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    try:
        return (_windows_folder() if sys.platform == "win32" else user_folder()) / FILE_NAME
    except RuntimeError:
        raise StoreError(f"there is no home folder for the run record; set {VARIABLE} to a file") from None


def _windows_folder() -> Path:
    base = os.environ.get("LOCALAPPDATA", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / "AppData/Local") / "loopwarden"


def open_record(path: Path, *, rotate_bytes: int | None = None) -> Record:
    """The record of a path; nothing is opened or made before the first entry.

    Raises:
        ValueError: `rotate_bytes` for a database.
    """
    if not _is_database(path):
        return JsonLinesRecord(path, rotate_bytes=rotate_bytes)
    if rotate_bytes is not None:
        raise ValueError("rotate_bytes is for JSON lines; a database does not rotate")
    from loopwarden.records.sqlite import SqliteRecord

    return SqliteRecord(path)


def read(path: str | os.PathLike[str] | None = None) -> Iterator[Entry]:
    """The entries of a record, oldest first; what is torn or not understood is skipped.

    Args:
        path: The file; `None` for `default_path()`.

    Raises:
        OSError: The file can't be read; `FileNotFoundError` where nothing was recorded yet.
        StoreError: It is a database, but no record.
    """
    place = Path(path) if path is not None else default_path()
    if _is_database(place):
        from loopwarden.records.sqlite import read_database

        return read_database(place)
    return read_lines(place)


def _is_database(path: Path) -> bool:
    """By content where there is some, else by name."""
    try:
        with path.open("rb") as stream:
            head = stream.read(len(_MAGIC))
    except OSError:
        head = b""
    return head == _MAGIC if head else path.suffix.lower() in _DATABASES
