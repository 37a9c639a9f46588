"""What counts where nothing is configured."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from loopwarden.config import load_config
from loopwarden.config.resolve import defaults

if TYPE_CHECKING:
    from pathlib import Path


def test_the_defaults_are_what_the_models_make_of_nothing() -> None:
    checked, plain = load_config({}), defaults()
    for mode in ("enforce", "observe"):
        assert plain.settings(mode=mode) == checked.settings(mode=mode)
    assert plain.explain() == checked.explain()
    assert (plain.source, plain.warnings, plain.agent_ids) == (None, (), ())
    assert (checked.source, checked.warnings, checked.agent_ids) == (None, (), ())


def test_without_a_configuration_the_models_are_not_imported(tmp_path: Path) -> None:
    guarded = "loopwarden.LoopGuard().before('t', call_id='c')"
    code = f"import sys, loopwarden; {guarded}; sys.exit('pydantic' in sys.modules)"
    apart = {"XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path), "LOOPWARDEN_CONFIG": ""}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | apart, timeout=60, check=True)
