"""The workspace of an agent: files below one folder, and nothing else.

A path is resolved first, so that links which stay inside can be used, and then walked from the folder's own
descriptor, following no link: what is put in its way between the two is refused, not followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST_PATH: Final = 4096

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_changing = threading.Lock()
"""Held from reading a file to replacing it, so that two changes of this process never lose one."""


class OutsideError(Exception):
    """The path is none that may be used; the text says why, for the model."""


class Folder:
    """Reads and writes files below a folder. All methods block; call them in a thread.

    All raise `OutsideError` for a path that leads out or to something that is no ordinary file, and
    `OSError` as the system does.

    Attributes:
        root: The folder, resolved.
    """

    __slots__ = ("root",)

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def place(self, path: str) -> Path:
        """Where a path inside the folder leads, relative to the folder; it need not exist."""
        if not path or len(path) > LONGEST_PATH or "\0" in path:
            raise OutsideError("path: empty, too long, or with a NUL character")
        given = Path(path)
        if ".." in given.parts:
            raise OutsideError(f"{path}: '..' is not allowed; give a path inside the workspace")
        try:
            real = Path(os.path.realpath(self.root / given))
        except (ValueError, UnicodeError) as error:
            raise OutsideError("path: not a file name") from error
        if real != self.root and self.root not in real.parents:
            raise OutsideError(f"{path}: outside the workspace")
        return real.relative_to(self.root)

    def folder(self, path: str | None) -> Path:
        """An existing folder inside, as an absolute path; `None` is the workspace itself."""
        place = self.root / self.place(path) if path else self.root
        if not place.is_dir():
            raise OutsideError(f"{path}: not a folder")
        return place

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """A descriptor of an ordinary file, open for reading; closed at the end."""
        with self._parent(self.place(path), path) as (parent, name):
            _ordinary(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode, path)
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=parent)
        try:
            _ordinary(os.fstat(descriptor).st_mode, path)
            yield descriptor
        finally:
            os.close(descriptor)

    def write(self, path: str, data: bytes) -> None:
        """Put a file there as a whole: others see the old one or the new one.

        Folders on the way are made. An existing file keeps its mode.
        """
        with _changing, self._parent(self.place(path), path, make=True) as (parent, name):
            _replace(parent, name, path, data)

    def change(self, path: str, most: int, change: Callable[[bytes], bytes]) -> None:
        """Replace a file by what `change` makes of its bytes; what that raises goes on to the caller.

        Args:
            path: Of an existing file.
            most: Bytes that it may have.
            change: Gets the old bytes.
        """
        with _changing:
            with self.reading(path) as descriptor:
                data = read_bytes(descriptor, most + 1)
            if len(data) > most:
                raise OutsideError(f"{path}: larger than {most} bytes")
            changed = change(data)
            with self._parent(self.place(path), path) as (parent, name):
                _replace(parent, name, path, changed)

    def end_of(self, path: str, most: int) -> bytes:
        """The last `most` bytes of a file, from the first whole line in them on."""
        with self.reading(path) as descriptor:
            begin = max(0, os.fstat(descriptor).st_size - most)
            os.lseek(descriptor, begin, os.SEEK_SET)
            data = read_bytes(descriptor, most)
        return data.partition(b"\n")[2] if begin else data

    def append(self, path: str, data: bytes, most: int) -> None:
        """Add to the end of a file, which is made if need be; it never gets larger than `most` bytes."""
        with self._parent(self.place(path), path, make=True) as (parent, name):
            with contextlib.suppress(FileNotFoundError):
                _ordinary(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode, path)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE
            descriptor = os.open(name, flags, 0o600, dir_fd=parent)
        try:
            found = os.fstat(descriptor)
            _ordinary(found.st_mode, path)
            if found.st_size + len(data) > most:
                raise OutsideError(f"{path}: full, it may have {most} bytes")
            os.write(descriptor, data)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _parent(self, place: Path, shown: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that holds `place`, open, and the last name of the path."""
        if not place.parts:
            raise OutsideError(f"{shown}: a folder, not a file")
        current = os.open(self.root, _FOLDER)
        try:
            for part in place.parts[:-1]:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=current)
                try:
                    inner = os.open(part, _FOLDER, dir_fd=current)
                except OSError as error:
                    if error.errno == errno.ELOOP:
                        raise OutsideError(f"{shown}: changed while it was used") from error
                    raise
                os.close(current)
                current = inner
            yield current, place.parts[-1]
        finally:
            os.close(current)


def _ordinary(mode: int, shown: str) -> None:
    if stat.S_ISDIR(mode):
        raise OutsideError(f"{shown}: a folder, not a file")
    if not stat.S_ISREG(mode):
        raise OutsideError(f"{shown}: not an ordinary file")


def read_bytes(descriptor: int, most: int) -> bytes:
    """The next bytes of an open file, `most` at most."""
    pieces: list[bytes] = []
    while most > 0 and (piece := os.read(descriptor, min(most, 1 << 20))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _replace(parent: int, name: str, shown: str, data: bytes) -> None:
    """Write beside the file, then put it in its place."""
    mode: int | None = None
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        _ordinary(found.st_mode, shown)
        mode = stat.S_IMODE(found.st_mode)
    beside = f".loopwarden-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666, dir_fd=parent)  # less the umask, as any new file
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=parent)
        raise
