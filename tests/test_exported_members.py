"""The front door: what `import loopwarden` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import loopwarden

SLOW = ("asyncio", "json5", "pydantic", "rich", "sqlite3", "typer")


def test_all_is_sorted() -> None:
    assert list(loopwarden.__all__) == sorted(loopwarden.__all__)


def test_all_is_complete() -> None:
    """Submodules come into the package's namespace as they are imported; they're no part of the door."""
    modules = {name.removeprefix("loopwarden.") for name in sys.modules if name.startswith("loopwarden.")}
    public = {name for name in dir(loopwarden) if not name.startswith("_")} - modules - {"annotations"}
    assert set(loopwarden.__all__) == public | {"__version__"}


def test_every_name_says_what_it_is() -> None:
    members = {name: getattr(loopwarden, name) for name in loopwarden.__all__}
    assert [name for name, member in members.items() if not (member.__doc__ or "").strip()] == []


def test_an_abort_is_a_signal_and_no_fault() -> None:
    assert issubclass(loopwarden.ConfigError, loopwarden.LoopwardenError)
    assert not issubclass(loopwarden.LoopAborted, loopwarden.LoopwardenError)


def test_importing_is_light() -> None:
    code = f"import sys, loopwarden; print(sorted(set(sys.modules) & set({SLOW!r})))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
