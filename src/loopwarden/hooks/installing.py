"""A settings file changed on disk, and put back: what it was before is kept in the state folder.

Nothing is written unless all of it could be read and the change is known; a file is replaced in one step,
through links, with its permissions.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import sysconfig
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loopwarden.hooks.entries import PROGRAM, SettingsError, wanted
from loopwarden.hooks.forms import FORMS, others
from loopwarden.hooks.hosts import HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from loopwarden.hooks.settings import Scope, Settings

MAX_BYTES: Final = 1024 * 1024
"""The largest settings file that is changed."""

FOLDER: Final = "installed"
"""The folder with what was before, in the state folder."""

_CACHE: Final = "archive-v0"
"""Part of the path of a program that uv started once."""

_BOM: Final = "\ufeff"
_NOTHING: Final = frozenset({"", "{}"})

_WHOLE: Final = frozenset({"file", "asset"})
"""Forms of files that are ours as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to become of a settings file.

    Attributes:
        settings: Of the host.
        scope: Whose file it is.
        path: The file, as people name it.
        before: What it says now; `None`: it is not there.
        after: What it is to say; `None`: it is to go.
        original: What it said before the first installation; `None`: it was not there.
        folders: Folders that were made for it.
    """

    settings: Settings
    scope: Scope
    path: Path
    before: bytes | None
    after: bytes | None
    original: bytes | None = None
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What an installation left behind in the state folder."""

    original: bytes | None
    digest: str
    folders: tuple[str, ...]


def hook_program(scope: Scope) -> str:
    """The hook command as a settings file names it.

    The full path in files of the user, because agents are started with other search paths than shells; the
    bare name in files of a project, which other people use too.

    Raises:
        SettingsError: It is not installed.
    """
    if scope == "project":
        return PROGRAM
    beside = shutil.which(PROGRAM, path=sysconfig.get_path("scripts"))
    found = beside or shutil.which(PROGRAM)
    if found is None:
        raise SettingsError(f"{PROGRAM} is not installed; install loopwarden again")
    path = os.path.abspath(found)  # noqa: PTH100 - links stay as they are
    if _CACHE in Path(path).parts:
        raise SettingsError("this loopwarden runs from a cache; install it first: uv tool install loopwarden")
    return subprocess.list2cmdline([path]) if os.name == "nt" else shlex.quote(path)


def files_of(
    settings: Settings, scope: Scope, environment: Mapping[str, str], project: Path
) -> list[tuple[Settings, Path]]:
    """All files of an installation, in the order in which they are put in.

    Raises:
        SettingsError: The host has none in projects.
    """
    parts = settings.parts if scope == "user" else ()
    return [(one, settings_path(one, scope, environment, project)) for one in (settings, *parts)]


def settings_path(settings: Settings, scope: Scope, environment: Mapping[str, str], project: Path) -> Path:
    """The file of a scope.

    Raises:
        SettingsError: The host has none in projects.
    """
    path = settings.path(scope, environment, project)
    if path is None:
        raise SettingsError(f"{settings.host} has no hooks in projects; install it for the user")
    return path


def plan_install(settings: Settings, scope: Scope, path: Path, program: str, state: Path) -> Change:
    """What an installation changes.

    Args:
        settings: Of the host.
        scope: Whose file it is.
        path: The file.
        program: The hook command, quoted for a shell.
        state: The state folder.

    Raises:
        SettingsError: The file can't be read or changed, or is that of another host too.
    """
    before, record = _read(path), _recorded(state, settings, path)
    _refuse_shared(settings, path, before)
    ours = record is not None and _digest(before) == record.digest
    original = record.original if ours and record is not None else _without(settings, path, before, record)
    bom, text = _text(path, original if ours else before)
    with _naming(path):
        new = FORMS[settings.form].put(settings, text, wanted(settings, program))
    folders = record.folders if record is not None else _missing(path)
    return Change(
        settings=settings,
        scope=scope,
        path=path,
        before=before,
        after=(bom + new).encode(),
        original=original,
        folders=folders,
    )


def plan_uninstall(settings: Settings, scope: Scope, path: Path, state: Path) -> Change:
    """What the end of an installation changes.

    Raises:
        SettingsError: The file can't be read or changed.
    """
    before, record = _read(path), _recorded(state, settings, path)
    after = _without(settings, path, before, record)
    folders = record.folders if record is not None else ()
    return Change(settings=settings, scope=scope, path=path, before=before, after=after, folders=folders)


def carry_out(change: Change, state: Path, *, installs: bool) -> Path | None:
    """Write the file.

    Args:
        change: What `plan_install` or `plan_uninstall` found.
        state: The state folder.
        installs: Which of them it was.

    Returns:
        Where what it said before is kept, if anything is.

    Raises:
        SettingsError: Somebody else changed the file, or it can't be written.
        OSError: The disk says no.
    """
    name = _name(change.settings, change.path)
    folder = state / FOLDER
    backup, note = folder / f"{name}.before", folder / f"{name}.json"
    if installs:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        backup.unlink(missing_ok=True)
        if change.original is not None:
            _replace(backup, change.original, 0o600)
        data = {
            "path": str(change.path),
            "made": change.original is None,
            "digest": _digest(change.after),
            "folders": list(change.folders),
        }
        _replace(note, json.dumps(data, indent=2).encode(), 0o600)
    if change.after != change.before:
        _write(change)
    if installs:
        return backup if change.original is not None else None
    for made in change.folders:
        with suppress(OSError):  # something else is in it
            Path(made).rmdir()
    backup.unlink(missing_ok=True)
    note.unlink(missing_ok=True)
    return None


def _write(change: Change) -> None:
    target = Path(os.path.realpath(change.path))
    if _read(change.path) != change.before:
        raise SettingsError(f"{change.path}: was changed by somebody else just now; try again")
    if change.after is None:
        target.unlink(missing_ok=True)
        return
    there = target.stat() if target.exists() else None
    if there is not None and not there.st_mode & 0o200:
        raise SettingsError(f"{change.path}: is read-only; make it writable first")
    target.parent.mkdir(parents=True, exist_ok=True)
    _replace(target, change.after, None if there is None else there.st_mode & 0o7777, there)


def _replace(target: Path, data: bytes, mode: int | None, there: os.stat_result | None = None) -> None:
    """Write a file in one step, for the owner of the one that is there."""
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if there is not None and there.st_uid != fresh.stat().st_uid:  # with sudo
                os.chown(fresh, there.st_uid, there.st_gid)
            if mode is not None:
                fresh.chmod(mode)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _read(path: Path) -> bytes | None:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise SettingsError(f"{path}: is a folder")
        if not stat.S_ISREG(mode):  # a pipe would be waited for, a device has no end
            raise SettingsError(f"{path}: is no regular file")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise SettingsError(f"{path}: a part of the path is no folder") from None
    if len(data) > MAX_BYTES:
        raise SettingsError(f"{path}: is larger than {MAX_BYTES} bytes, the limit for a settings file")
    return data


def read_settings(path: Path) -> str | None:
    """What a settings file says, without a byte order mark; `None`: it is not there.

    Raises:
        SettingsError: It is no text, or too large.
        OSError: The disk says no.
    """
    data = _read(path)
    return None if data is None else _text(path, data)[1]


def _text(path: Path, data: bytes | None) -> tuple[str, str]:
    """The byte order mark, if there is one, and the text after it."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is no UTF-8 text (byte {error.start})") from None
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def _refuse_shared(settings: Settings, path: Path, data: bytes | None) -> None:
    """Each of two hosts with one file would run the hooks of both."""
    held = others(settings, _text(path, data)[1])
    if held:
        title, other = HOSTS[settings.host].title, HOSTS[held[0]].title
        raise SettingsError(
            f"{path}: the hooks for {other} are in it, which {title} would run too. If it is a link to the "
            f"settings of {other}, give {title} a file of its own; else take the entries "
            f"{PROGRAM} {held[0]} out of it first"
        )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Names the file in what is raised inside."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def _without(settings: Settings, path: Path, data: bytes | None, record: _Record | None) -> bytes | None:
    """What a file says without us; `None` if it would not be there."""
    if data is None:
        return None
    if record is not None and _digest(data) == record.digest:
        return record.original
    bom, text = _text(path, data)
    base = None if record is None or record.original is None else _text(path, record.original)[1]
    with _naming(path):
        new = FORMS[settings.form].drop(settings, text, base)
    if new == text:
        return data
    if settings.form in _WHOLE and not new:
        return None
    if record is not None and record.original is None and "".join(new.split()) in _NOTHING:
        return None
    return (bom + new).encode()


def _recorded(state: Path, settings: Settings, path: Path) -> _Record | None:
    """What the last installation of a host into a file left behind; one that can't be read is none."""
    name, folder = _name(settings, path), state / FOLDER
    try:
        data: dict[str, Any] = json.loads((folder / f"{name}.json").read_bytes())
        original = None if data["made"] is True else (folder / f"{name}.before").read_bytes()
        folders = tuple(str(one) for one in data["folders"])
        return _Record(original=original, digest=str(data["digest"]), folders=folders)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _name(settings: Settings, path: Path) -> str:
    """Of what is kept; variables may give two hosts one file."""
    whole = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
    digest = hashlib.blake2b(whole.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return f"{path.name}-{settings.host}-{digest}"


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.blake2b(data, digest_size=16).hexdigest()


def _missing(path: Path) -> tuple[str, ...]:
    """Folders that have to be made for a file, the deepest first."""
    found = []
    for folder in Path(os.path.realpath(path)).parents:
        if folder.exists():
            break
        found.append(str(folder))
    return tuple(found)
