"""Where programs of ours keep what outlives them: folders of the user's, one rule for all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "LOOPWARDEN_STATE"
"""Names another folder in place of the user's state folder."""

GATEWAY: Final = "gateway"
"""Folder of the gateway."""

TOKEN_FILE: Final = "token"  # noqa: S105 - the name of a file
"""In that folder: who may speak to the gateway."""


def home_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The user's home: what `HOME` names, else what the system knows; on Windows the latter only.

    Args:
        environment: Variables, by default those of the process.

    Raises:
        RuntimeError: `HOME` is empty or no whole path, or the user has no home.
    """
    named = (os.environ if environment is None else environment).get("HOME")
    if named is None or os.name == "nt":
        return Path.home()
    if not named.startswith("/"):  # what is made below it would lie in `/`, or in whatever folder one is in
        raise RuntimeError(f"HOME is {named!r}, which is no whole path")
    return Path(named)


def user_folder() -> Path:
    """`loopwarden` in `$XDG_STATE_HOME`, by default in `~/.local/state`.

    Raises:
        RuntimeError: The user has no home.
    """
    base = os.environ.get("XDG_STATE_HOME", "")  # a relative one is to be ignored, says the specification
    return (Path(base) if base.startswith("/") else home_folder() / ".local/state") / "loopwarden"


def folder(name: str, purpose: str) -> Path:
    """A folder below what `LOOPWARDEN_STATE` names, else below the user's folder; absolute, not made.

    Args:
        name: Of the folder.
        purpose: What it is for, for people.

    Raises:
        StoreError: The user has no home, or none that can be used.
    """
    named = os.environ.get(VARIABLE)
    try:
        root = Path(named).absolute() if named else user_folder()
    except RuntimeError as error:
        raise StoreError(f"no folder for {purpose}: {error}; set {VARIABLE} to one") from None
    return root / name
