"""Where the hooks keep what they must remember: one folder of the user's, for the owner only."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from loopwarden.errors import StoreError
from loopwarden.state_folder import VARIABLE, user_folder

RUNS_FILE: Final = "runs.db"
SESSIONS_FILE: Final = "sessions.db"
FAULTS_FILE: Final = "faults.log"
SOCKET_FILE: Final = "service.sock"
LOCK_FILE: Final = "service.lock"


def state_folder() -> Path:
    """The folder, made if it is missing. The default one is closed to other people where it was not.

    What `LOOPWARDEN_STATE` names, else `hooks` below `$XDG_STATE_HOME/loopwarden`, by default
    `~/.local/state/loopwarden`; the entry `loopwarden_hook` has the same rule.

    Raises:
        StoreError: It can't be made, or the user has no home.
    """
    named = os.environ.get(VARIABLE)
    try:
        folder = Path(named) if named else user_folder() / "hooks"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not named:
            _close(folder)
    except (OSError, RuntimeError) as error:
        raise StoreError(f"no folder for the state of the hooks: {error}; set {VARIABLE} to one") from None
    return folder


def _close(folder: Path) -> None:
    """A folder that somebody else owns, or that can't be changed, stays as it is; doctor tells of it."""
    if os.name != "nt":
        found = folder.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            with suppress(OSError):
                folder.chmod(stat.S_IMODE(found.st_mode) & 0o700)
