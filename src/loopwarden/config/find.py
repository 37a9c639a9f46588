"""Where a configuration file lies, and its bytes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, NoReturn

from loopwarden.errors import ConfigError, ConfigProblem
from loopwarden.state_folder import home_folder

VARIABLE: Final = "LOOPWARDEN_CONFIG"
FILE_NAME: Final = "loopwarden.json5"
MAX_BYTES: Final = 1024 * 1024
"""Largest file that is read."""


def find_config() -> Path | None:
    """The file that counts when none is named; `None` where there is none.

    First `LOOPWARDEN_CONFIG` (unless empty; what it names has to exist), then `loopwarden.json5` in the
    working directory, then the same name in the user's folder: `$XDG_CONFIG_HOME/loopwarden`, by default
    `~/.config/loopwarden`; on Windows `%APPDATA%/loopwarden`.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    candidates = [Path(FILE_NAME)]
    folder = user_folder()
    if folder is not None:
        candidates.append(folder / FILE_NAME)
    return next((path for path in candidates if os.path.lexists(path)), None)


def user_folder() -> Path | None:
    """The user's folder for loopwarden's files; `None` where the user has no home that can be used."""
    variable, below = (
        ("APPDATA", "AppData/Roaming") if sys.platform == "win32" else ("XDG_CONFIG_HOME", ".config")
    )
    base = os.environ.get(variable, "")
    if base and Path(base).is_absolute():  # a relative one is to be ignored, says the XDG specification
        return Path(base) / "loopwarden"
    try:
        return home_folder() / below / "loopwarden"
    except RuntimeError:
        return None


def read_config(path: Path) -> str:
    """Text of the file, without a byte order mark.

    Raises:
        ConfigError: No such file, not readable, larger than `MAX_BYTES`, or not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        named = f"; {VARIABLE} names it" if os.environ.get(VARIABLE) == str(path) else ""
        _fail(path, f"there is no such file{named}")
    except IsADirectoryError:
        _fail(path, "is a folder; name the file in it")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        _fail(path, f"could not be read: {reason}")
    if len(data) > MAX_BYTES:
        _fail(path, f"larger than {MAX_BYTES} bytes, the limit for a configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _fail(path, f"not UTF-8 text: byte 0x{data[error.start]:02x}; save the file as UTF-8", line)


def _fail(path: Path, message: str, line: int | None = None) -> NoReturn:
    raise ConfigError((ConfigProblem(path="", message=message, line=line),), source=str(path))
