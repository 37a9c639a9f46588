"""A hook that is a file of its own: the plug-in of opencode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loopwarden.hooks import file_form
from loopwarden.hooks.entries import SettingsError, complete, wanted
from loopwarden.hooks.installing import carry_out, plan_install, plan_uninstall
from loopwarden.hooks.plugins import PLUGINS
from loopwarden.hooks.settings import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

OPENCODE = SETTINGS["opencode"]
PROGRAM = "'/a b/loopwarden-hook'"
FOREIGN = ["export const Other = async () => ({});\n", "const COMMAND = [loopwarden-hook];\n"]


def test_what_is_put_in_is_found_and_taken_out() -> None:
    hooks = wanted(OPENCODE, PROGRAM)
    text = file_form.put(OPENCODE, "", hooks)
    assert text == PLUGINS["opencode"].contents(["/a b/loopwarden-hook"])["plugins/loopwarden.js"]
    assert complete(OPENCODE, file_form.find(OPENCODE, text), hooks)
    assert file_form.put(OPENCODE, text, hooks) == text
    assert file_form.drop(OPENCODE, text) == ""


def test_another_version_or_command_is_replaced() -> None:
    hooks = wanted(OPENCODE, PROGRAM)
    new = file_form.put(OPENCODE, "", hooks)
    for old in (new.replace('VERSION = "', 'VERSION = "9'), new.replace("/a b/", "/c/")):
        assert not complete(OPENCODE, file_form.find(OPENCODE, old), hooks)
        assert file_form.put(OPENCODE, old, hooks) == new


@pytest.mark.parametrize("text", FOREIGN)
def test_another_plug_in_of_that_name_is_left_alone(text: str) -> None:
    assert file_form.find(OPENCODE, text) == []
    assert file_form.drop(OPENCODE, text) == text
    with pytest.raises(SettingsError, match="is another plug-in; move it away first"):
        file_form.put(OPENCODE, text, wanted(OPENCODE, PROGRAM))


def test_the_file_comes_and_goes(tmp_path: Path) -> None:
    path, state = tmp_path / "opencode" / "plugins" / "loopwarden.js", tmp_path / "state"
    carry_out(plan_install(OPENCODE, "user", path, PROGRAM, state), state, installs=True)
    assert path.read_text().count("export ") == 1
    carry_out(plan_uninstall(OPENCODE, "user", path, state), state, installs=False)
    assert not path.parent.parent.exists()
