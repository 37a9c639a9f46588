"""Mutants of configurations: as JSON5 text, and as Python mappings."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loopwarden import config
from loopwarden.config.json5_reader import read_json5
from tests.fuzz.mutants import STRANGE, damaged, mutate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PRESETS: Final = Path(config.__file__).parent / "presets"

WRITTEN: Final = Path(__file__).parent / "written"
"""Configurations that use everything."""

WORDS: Final = (
    "//", "/*", "*/", "'", '"', "\\", "\\u", "\\x4", "\\u{41}", "\\\n", "\\0", "\\01", "0x", "0x1G",
    "1e", ".", "+", "--1",
    "Infinity", "-Infinity", "NaN", "undefined", "1_000", "01", "9" * 401, "{", "}", "[", "]", ",",
    ",,", ":", "::",
    "{" * 70, "[" * 5_000, "{a:" * 63, "\ufeff", "\u2028", "\0", "\x1b[2J", "$schema", "__proto__",
    "enabled", "tools: {}",
    "agents: {list: [{}]}", "é", "\U0001f600", "(a+)+", "(?:", "(?<=a*)b", "\\1", "{1,99999999999}",
    "(?i)", "a{,65}",
)  # fmt: skip
"""Pieces of JSON5 and of regular expressions."""


class Odd:
    """A value of another program, which does what it likes."""

    def __repr__(self) -> str:
        raise RuntimeError("no text for this")

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return NotImplemented


def _endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["tools"] = value
    return value


PYTHON: Final[tuple[Callable[[], Any], ...]] = (
    Odd, _endless, lambda: {Odd()}, lambda: {1: 2}, lambda: b"x", lambda: (1, 2), lambda: Path("x"),
    lambda: 1j,
    lambda: range(3), lambda: {None: 1}, lambda: lambda: 1, lambda: type, lambda: float("nan"),
    lambda: 10**5_000,
    lambda: {"enabled": {("a",): 1}}, lambda: frozenset("a"), lambda: bytearray(3),
    lambda: {"\ud800": "\ud800"},
)  # fmt: skip
"""What a Python mapping may hold besides."""


def texts(*pages: Path) -> tuple[str, ...]:
    """Configurations to start from; of pages their blocks of JSON5."""
    blocks: list[str] = []
    for page in pages:
        parts = page.read_text(encoding="utf-8").split("```json5\n")[1:]
        blocks += [part.partition("```")[0] for part in parts]
    files = [path for folder in (WRITTEN, PRESETS) for path in sorted(folder.glob("*.json5"))]
    return (*(path.read_text(encoding="utf-8") for path in files), *blocks)


def text_mutant(start: Sequence[str], seed: int) -> bytes:
    """The bytes of a file."""
    chance = random.Random(f"text {seed}")
    data = chance.choice(start).encode()
    if chance.random() < 0.3:
        data = json.dumps(
            _changed(read_json5(data.decode()).value, chance), indent=chance.choice((None, 2))
        ).encode()
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        if chance.random() < 0.6:
            place = chance.randrange(len(data) + 1)
            word = chance.choice(WORDS).encode("utf-8", "surrogatepass")
            data = data[:place] + word + data[place + chance.choice((0, 0, 1, 5)) :]
        else:
            data = damaged(data, chance)
    return data


def value_mutant(start: Sequence[str], seed: int) -> Any:
    """A Python value, mostly a mapping."""
    chance = random.Random(f"value {seed}")
    return _changed(read_json5(chance.choice(start)).value, chance, python=True)


def _changed(value: Any, chance: random.Random, *, python: bool = False) -> Any:
    root = [deepcopy(value)]
    for _ in range(chance.choice((1, 1, 2, 4, 12))):
        mutate(root, chance)
    if python and chance.random() < 0.3 and isinstance(root[0], dict):
        container: Any = root[0]
        while (
            inner := [one for one in container.values() if isinstance(one, dict)]
        ) and chance.random() < 0.8:
            container = chance.choice(inner)
        key = chance.choice([*container, "enabled", "toolProfiles"])
        container[key] = chance.choice(PYTHON)()
    if chance.random() < 0.1 and isinstance(root[0], dict):
        root[0] = {
            "tools": {"loopDetection": root[0]},
            "agents": chance.choice((*STRANGE, {"list": [{"id": "a"}] * 2})),
        }
    return root[0]
