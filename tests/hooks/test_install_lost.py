"""Installations without what they rest on: a state folder, a home."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwarden.errors import LoopwardenError
from loopwarden.hooks.settings import SETTINGS
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by name
from tests.hooks.test_install import everything, home, put, take_out  # noqa: F401 - the same

WITHOUT_STATE = {
    "no last newline": ("kimi", b"a = 1", b"a = 1"),
    "no last newline either": ("hermes", b"a: 1", b"a: 1"),
    "nothing in TOML": ("kimi", b"", b""),
    "nothing in JSON": ("gemini", b"", b"{}\n"),
    "no file": ("gemini", None, b"{}\n"),
    "hooks that are empty": ("gemini", b'{"a": 1, "hooks": {}}', b'{"a": 1}'),
    "an event that is empty": ("gemini", b'{"hooks": {"BeforeTool": [], "X": []}}', b'{"hooks": {"X": []}}'),
    "hooks of nothing": ("hermes", b"a: 1\nhooks:\n", b"a: 1\n"),
}


@pytest.mark.parametrize(("host", "data", "after"), WITHOUT_STATE.values(), ids=WITHOUT_STATE)
def test_what_the_guide_says_of_a_lost_state_folder(
    host: str, data: bytes | None, after: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "settings"
    for state in ("another", "state"):
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(data)
        put(path, tmp_path / "state", host)
        take_out(path, tmp_path / state, host)
        if state == "another":
            assert path.read_bytes() == after
            (tmp_path / "state").rename(tmp_path / "lost")
    assert (path.read_bytes() if path.exists() else None) == data


@pytest.mark.parametrize("words", [["install", "claude-code"], ["uninstall", "kimi"], ["doctor"], ["status"]])
@pytest.mark.parametrize("bad", ["", "rel", "~"])
def test_a_home_that_is_no_whole_path(
    words: list[str],
    bad: str,
    home: Path,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", bad)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    before = everything(home)
    if words != ["status"]:  # it needs no settings
        code, out, err = run(*words)
        assert (code != 0, out) == (True, "")
        assert "no folder for the settings of " in err
        assert f"HOME is '{bad}', which is no whole path; set HOME to one" in err
    monkeypatch.delenv("LOOPWARDEN_STATE")
    code, out, err = run(*words)
    assert (code != 0, out) == (True, "")
    assert f"no folder for the state of the hooks: HOME is '{bad}', which is no whole path" in err
    assert everything(home) == before


def test_a_variable_that_begins_with_the_home(tmp_path: Path) -> None:
    settings = SETTINGS["claude-code"]
    named = {"CLAUDE_CONFIG_DIR": "~/x"}
    assert settings.path("user", {**named, "HOME": "/h"}, tmp_path) == Path("/h/x/settings.json")
    assert settings.path("user", {"CLAUDE_CONFIG_DIR": "/y", "HOME": ""}, tmp_path) == Path(
        "/y/settings.json"
    )
    with pytest.raises(LoopwardenError, match="no folder for the settings of Claude Code: HOME is ''"):
        settings.path("user", {**named, "HOME": ""}, tmp_path)
