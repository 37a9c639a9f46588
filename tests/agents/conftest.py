"""A place to run coding agents in."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.agents.place import TIGHT, Place

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place() -> Iterator[Place]:
    """A place with small thresholds. The service of the hooks ends when its socket is gone."""
    found = Place(Path(tempfile.mkdtemp(prefix="lw-agent-", dir="/tmp")))
    found.project.mkdir(parents=True)
    found.configure(TIGHT)
    yield found
    shutil.rmtree(found.folder, ignore_errors=True)
