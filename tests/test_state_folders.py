"""One rule for all folders that outlive a process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loopwarden import state_folder
from loopwarden.config.find import user_folder
from loopwarden.errors import StoreError
from loopwarden.hooks import places as hooks
from loopwarden.records import places as records
from loopwarden_hook import state_folder as entry

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (state_folder.VARIABLE, records.VARIABLE, "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("base", "below"),
    [(None, ".local/state"), ("", ".local/state"), ("rel", ".local/state"), ("/x/y", "/x/y")],
)
def test_the_users_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: str | None, below: str
) -> None:
    if base is not None:
        monkeypatch.setenv("XDG_STATE_HOME", base)
    own = tmp_path / below / "loopwarden"
    assert state_folder.folder("gateway", "tests") == own / "gateway"
    assert records.default_path() == own / "runs.jsonl"
    assert Path(entry()) == own / "hooks"


def test_a_named_folder_takes_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(state_folder.VARIABLE, "named")
    assert state_folder.folder("gateway", "tests") == tmp_path / "named/gateway"
    assert hooks.state_folder().absolute() == tmp_path / "named"
    assert records.default_path() == tmp_path / ".local/state/loopwarden/runs.jsonl", (
        "it has its own variable"
    )


def test_without_a_home_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(Path, "home", _homeless)
    with pytest.raises(StoreError, match="no folder for the tests: no home; set LOOPWARDEN_STATE to one"):
        state_folder.folder("x", "the tests")
    with pytest.raises(StoreError, match="set LOOPWARDEN_RECORD to a file"):
        records.default_path()


@pytest.mark.parametrize("home", ["", "rel", "~", "~/x"])
def test_a_home_that_is_no_whole_path_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with pytest.raises(StoreError, match=f"HOME is '{home}', which is no whole path; set LOOPWARDEN_STATE"):
        state_folder.folder("x", "the tests")
    with pytest.raises(StoreError, match="is no whole path; set LOOPWARDEN_STATE to one"):
        hooks.state_folder()
    with pytest.raises(StoreError, match="set LOOPWARDEN_RECORD to a file"):
        records.default_path()
    with pytest.raises(OSError, match="HOME is no whole path"):
        entry()
    assert user_folder() is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert Path(entry()) == hooks.state_folder() == tmp_path / "s/loopwarden/hooks"


def _homeless() -> Path:
    raise RuntimeError("no home")
