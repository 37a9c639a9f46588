"""Which files to read: from what a person names to one candidate after another.

Nothing that stands in a folder can end the search: what can't be read is named with its reason.
"""

from __future__ import annotations

import glob
import os
import stat
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.registry import by_name, detect
from loopwarden.transcripts.side_files import is_project_file, is_side_file
from loopwarden.transcripts.source import DEFAULT_LIMITS, Limits, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.transcripts.model import Reader

LOOKED_AT = frozenset({
    ".jsonl", ".ndjson", ".json", ".gz", ".eval", ".traj",
    ".db", ".sqlite", ".sqlite3", ".out", ".log", ".txt",
})  # fmt: skip
"""Endings of the files in a folder whose content is looked at; others are passed over."""

EXPECTED = frozenset({".jsonl", ".ndjson", ".json", ".gz", ".eval", ".traj"})
"""Those of them that are named if they are of no known format, unless they are known side files or files
that every project has."""

PASSED_OVER = frozenset({
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".nox", ".mypy_cache",
    ".ruff_cache", ".pytest_cache", "dist", "build",
})  # fmt: skip
"""Folders within a folder that hold no recorded runs."""

DEEPEST = 64
"""How many folders within folders are gone down."""

STREAMS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Where a shell puts a stream (`<(...)`) that can be read once, though it is no regular file."""

Why: TypeAlias = Literal["missing", "unreadable", "special", "empty", "unknown_format"]
"""Why something was left out.

`missing`: not there, or gone since it was listed. `unreadable`: the system refused. `special`: no
regular file (a pipe, a socket, a device). `empty`: no bytes. `unknown_format`: no reader knows it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something to read.

    Attributes:
        source: The file, folder or stream.
        reader: The reader that knows it.
        size: Bytes on disk, as stored; 0 for a folder or a stream.
        modified: Seconds since the epoch of the last change, `None` for a stream.
    """

    source: Source
    reader: Reader
    size: int
    modified: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something that is left out.

    Attributes:
        label: What it is called, safe to print.
        why: The kind of reason.
        detail: The reason in words.
    """

    label: str
    why: Why
    detail: str


def discover(
    arguments: Iterable[str | os.PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002 - the name of the option
    stdin: IO[bytes] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Candidate | Skipped]:
    """What the arguments name, in their order, the content of folders sorted by name, nothing twice.

    Args:
        arguments: Files, folders (with all that is below), glob patterns (`**` included), `-` for `stdin`.
        format: Name of the only format to look for; files that are named themselves are taken to be of
            it without a look at their content.
        stdin: Standard input, if `-` may be read.
        limits: Bounds for each file.

    Raises:
        TranscriptError: `format` is no known name.
    """
    search = _Search(by_name(format) if format is not None else None, stdin, limits)
    for argument in arguments:
        yield from search.argument(os.fspath(argument))


class _Search:
    def __init__(self, reader: Reader | None, stdin: IO[bytes] | None, limits: Limits) -> None:
        self._reader = reader
        self._stdin = stdin
        self._limits = limits
        self._seen: set[str] = set()  # real paths of files and folders

    def argument(self, text: str) -> Iterator[Candidate | Skipped]:
        if text == "-":
            if self._stdin is None:
                yield Skipped(label="-", why="missing", detail="there is no standard input, or it was read")
                return
            stream, self._stdin = self._stdin, None
            yield from self._candidate(Source(None, data=stream, limits=self._limits), named=True)
            return
        path = os.path.expanduser(text)  # noqa: PTH111 - "~" may stand before a pattern
        if os.path.lexists(path):
            yield from self._path(path, named=True)
            return
        matches = sorted(glob.glob(path, recursive=True, include_hidden=True)) if glob.has_magic(path) else []  # noqa: PTH207 - absolute patterns too
        if not matches:
            detail = "no file matches this pattern" if glob.has_magic(path) else "no such file or folder"
            yield Skipped(label=printable(text), why="missing", detail=detail)
        for match in matches:
            yield from self._path(match, named=not Path(match).is_dir())

    def _path(self, path: str, *, named: bool, depth: int = 0) -> Iterator[Candidate | Skipped]:
        label = printable(path)
        try:
            status = os.stat(path)  # noqa: PTH116 - paths that Path would change (`a/../b`)
        except OSError as error:
            broken = os.path.islink(path)  # noqa: PTH114 - as above
            gone = "points to nothing" if broken else "no longer there"
            missing = isinstance(error, FileNotFoundError)
            yield Skipped(
                label=label,
                why="missing" if missing else "unreadable",
                detail=gone if missing else error.strerror or str(error),
            )
            return
        if named and path.startswith(STREAMS) and not stat.S_ISREG(status.st_mode):
            yield from self._stream(path)
            return
        real = os.path.realpath(path)
        if real in self._seen:
            return
        self._seen.add(real)
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(path, depth)
        elif not stat.S_ISREG(status.st_mode):
            yield Skipped(label=label, why="special", detail="no regular file")
        elif named or Path(path).suffix.lower() in LOOKED_AT:
            yield from self._file(path, status, named=named)

    def _stream(self, path: str) -> Iterator[Candidate | Skipped]:
        try:
            stream = open(path, "rb")  # noqa: SIM115, PTH123 - lives as long as the source
        except OSError as error:
            yield Skipped(label=printable(path), why="unreadable", detail=error.strerror or str(error))
            return
        source = Source(None, data=stream, label=printable(path), limits=self._limits)
        weakref.finalize(source, stream.close)
        yield from self._candidate(source, named=True)

    def _folder(self, path: str, depth: int) -> Iterator[Candidate | Skipped]:
        source = Source(Path(path), label=printable(path), limits=self._limits)
        if depth > DEEPEST:
            yield Skipped(label=source.label, why="unreadable", detail=f"more than {DEEPEST} folders deep")
            return
        try:
            names = sorted(os.listdir(path))  # noqa: PTH208 - names are enough
            reader = detect(source)
        except (OSError, TranscriptError) as error:
            yield Skipped(label=source.label, why="unreadable", detail=_reason(error))
            return
        if reader is not None:
            modified = os.stat(path).st_mtime  # noqa: PTH116 - as above
            yield Candidate(source=source, reader=reader, size=0, modified=modified)
            return
        for name in names:
            if name not in PASSED_OVER:
                yield from self._path(os.path.join(path, name), named=False, depth=depth + 1)  # noqa: PTH118 - as above

    def _file(self, path: str, status: os.stat_result, *, named: bool) -> Iterator[Candidate | Skipped]:
        source = Source(Path(path), label=printable(path), limits=self._limits)
        if status.st_size == 0:
            if named or Path(path).suffix.lower() in EXPECTED:
                yield Skipped(label=source.label, why="empty", detail="the file is empty")
            return
        yield from self._candidate(source, named=named, size=status.st_size, modified=status.st_mtime)

    def _candidate(
        self, source: Source, *, named: bool, size: int = 0, modified: float | None = None
    ) -> Iterator[Candidate | Skipped]:
        try:
            if self._reader is None:
                reader = detect(source)
            else:
                reader = self._reader if named or self._reader.sniff(source) else None
        except TranscriptError as error:
            yield Skipped(label=source.label, why="unreadable", detail=error.reason)
            return
        if reader is not None:
            source.forget()  # there may be thousands
            yield Candidate(source=source, reader=reader, size=size, modified=modified)
        elif named or (_is_expected(source) and not is_side_file(source) and not is_project_file(source)):
            empty = not source.head.strip()
            yield Skipped(
                label=source.label,
                why="empty" if empty else "unknown_format",
                detail="there is nothing in it" if empty else "no known format of recorded runs",
            )


def _is_expected(source: Source) -> bool:
    return source.path is not None and source.path.suffix.lower() in EXPECTED


def _reason(error: OSError | TranscriptError) -> str:
    if isinstance(error, TranscriptError):
        return error.reason
    return error.strerror or str(error)


def printable(path: str) -> str:
    """A path as it may be printed: what is no text, and control characters, are replaced."""
    text = os.fsencode(path).decode(errors="replace")
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
