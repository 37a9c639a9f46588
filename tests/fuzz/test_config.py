"""Configurations of every kind of wrong: a `Config` or a `ConfigError`, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from loopwarden.config import Config, load_config
from loopwarden.core.settings import Settings
from loopwarden.errors import ConfigError
from tests.fuzz.configs import text_mutant, texts, value_mutant

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNKS: Final = 4
MUTANTS: Final = 1_000
"""Of each kind in each chunk."""

LONGEST_PROBLEM: Final = 1_200
MOST_PROBLEMS: Final = 200

PAGES: Final = Path(__file__).parents[2]


def check(source: Any) -> bool:
    """Whether the configuration is taken; it must be usable then, and else refused with words.

    Raises:
        Exception: Anything that is no `ConfigError`.
    """
    try:
        config = load_config(source)
    except ConfigError as error:
        check_error(error, source)
        return False
    assert isinstance(config, Config)
    for agent in (None, *config.agent_ids):
        assert isinstance(config.settings(agent), Settings)
        assert isinstance(config.settings(agent, "observe"), Settings)
        assert config.explain(agent)
    assert all(_is_sayable(str(warning)) for warning in config.warnings)
    return True


def check_error(error: ConfigError, source: Any) -> None:
    """A bounded number of short faults, each on one line that a terminal can show."""
    assert 1 <= len(error.problems) <= MOST_PROBLEMS
    for problem in error.problems:
        assert _is_sayable(str(problem)), repr(str(problem))
        assert problem.line is None or problem.line > 0
    assert not isinstance(source, Path) or error.source == str(source)


def _is_sayable(text: str) -> bool:
    return len(text) <= LONGEST_PROBLEM and text.isprintable()


def run(start: Sequence[str], seeds: range, folder: Path) -> tuple[list[str], int]:
    """What went wrong, with how to make it again; and how many were taken."""
    path = folder / "mutant.json5"
    wrong: list[str] = []
    taken = 0
    for seed in seeds:
        for kind in ("text", "value"):
            source: Any = path
            if kind == "text":
                path.write_bytes(text_mutant(start, seed))
            else:
                source = value_mutant(start, seed)
            try:
                taken += check(source)
            except Exception as error:  # noqa: BLE001 - what comes out is what is looked for
                wrong.append(f"{kind}_mutant(texts(...), {seed}): {error!r}"[:600])
    return wrong, taken


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_presets_and_hand_made_ones(chunk: int, tmp_path: Path) -> None:
    wrong, taken = run(texts(), range(chunk * MUTANTS, (chunk + 1) * MUTANTS), tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    assert 0.05 < taken / (2 * MUTANTS) < 0.8  # neither all broken nor all whole


@pytest.mark.tree
def test_examples_of_the_documentation(tmp_path: Path) -> None:
    pages = [PAGES / "README.md", *sorted((PAGES / "docs").rglob("*.md"))]
    wrong, _ = run(texts(*pages)[len(texts()) :], range(MUTANTS // 2), tmp_path)
    assert not wrong, "\n".join(wrong[:5])
