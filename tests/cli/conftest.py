"""The commands run as where nobody has set a width: some libraries set one for the tests' own process."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        monkeypatch.delenv(name, raising=False)
