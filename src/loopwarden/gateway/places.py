"""Where the gateway keeps what outlives it: one folder of the user's, for the owner only."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.state_folder import GATEWAY, folder

if TYPE_CHECKING:
    from pathlib import Path

DATABASE_FILE: Final = "gateway.db"
DECISIONS_FILE: Final = "decisions.db"
JOURNAL_FILE: Final = "journal.db"
LOCK_FILE: Final = "gateway.lock"
RECORD_FILE: Final = "runs.jsonl"


def default_folder() -> Path:
    """The folder where none is named.

    `gateway` below what `LOOPWARDEN_STATE` names, else below `$XDG_STATE_HOME/loopwarden`, by default
    `~/.local/state/loopwarden`.

    Raises:
        StoreError: The user has no home.
    """
    return folder(GATEWAY, "the state of the gateway")


def made(place: Path) -> Path:
    """The folder, made if it is missing, closed to other people.

    Raises:
        StoreError: It can't be made or closed, or belongs to somebody else.
    """
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name != "nt":
            found = place.stat()
            if found.st_uid != os.geteuid():
                raise StoreError(f"{place} belongs to another user; name another folder with --state")
            if found.st_mode & 0o077:
                place.chmod(stat.S_IMODE(found.st_mode) & 0o700)
    except OSError as error:
        raise StoreError(f"no folder for the state of the gateway: {error}; name one with --state") from None
    return place
