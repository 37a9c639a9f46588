"""One gateway a folder: a lock that ends with the process, however it ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from loopwarden.errors import StoreError
from loopwarden.gateway.places import LOCK_FILE
from loopwarden.process_lock import TakenError, take

if TYPE_CHECKING:
    from pathlib import Path


class FolderLock:
    """Holds a folder for this process until `release`.

    Raises:
        StoreError: Another gateway has it, whose process the text names; or there can be no lock.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._descriptor = take(folder / LOCK_FILE)
        except TakenError as taken:
            raise StoreError(
                f"a gateway is running on the folder {folder} already ({taken.owner}); end it, or name"
                " another folder with --state"
            ) from None
        except OSError as error:
            raise StoreError(f"the folder {folder} can't be used: {error}") from None

    def release(self) -> None:
        """Give the folder back."""
        os.close(self._descriptor)
