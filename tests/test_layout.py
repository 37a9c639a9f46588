"""Rules about the files themselves that no linter knows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.tree

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "tests", "docs", "scripts", "benchmarks", "examples", ".ci")
RECORDED = ROOT / "tests" / "transcripts" / "samples"
"""Recorded sessions, which keep whatever paths their machines had."""

MAX_LINES = 400
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "managers", "manager", "misc", "base_utils"}
DOCSTRING = re.compile(r'r?"""\w|r?"""`')
PERSONAL_PATH = re.compile(r"(?<![\w.~])/(?:work|root|home|Users)/[\w.-]+")
PLACEHOLDERS = re.compile(r"/(?:home|Users)/(?:me|you|user|alice|bob|ada|dev)\b|/work/(?:app|repo|project)\b")
NOQA = re.compile(r"#\s*noqa\b(?P<rest>.*)")
CODES = re.compile(r": [A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)* {1,2}(?:-|#) \S")
TYPE_IGNORE = re.compile(r"#\s*type:\s*ignore\b(?P<rest>.*)")


def is_ours(path: Path) -> bool:
    return path.is_file() and not any(part == "__pycache__" for part in path.parts)


FILES = [path for path in ROOT.iterdir() if path.is_file()] + [
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if is_ours(path)
]
MODULES = [path for path in FILES if path.suffix == ".py" and not path.is_relative_to(RECORDED)]
SOURCES = [path for path in MODULES if path.is_relative_to(ROOT / "src")]


def told(faults: list[str]) -> None:
    assert not faults, "\n" + "\n".join(faults)


def at(path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


def lines(paths: list[Path]) -> list[tuple[Path, int, str]]:
    """Every line of the files that are text, with its number."""
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [(path, number, line) for number, line in enumerate(text.splitlines(), 1)]
    return found


def test_modules_are_short() -> None:
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    told(
        [
            f"{at(path)}: {count} lines, at most {MAX_LINES}"
            for path, count in counts.items()
            if count > MAX_LINES
        ]
    )


def test_no_module_is_named_for_nothing() -> None:
    told([at(path) for path in MODULES if BANNED_NAMES & set(path.relative_to(ROOT).with_suffix("").parts)])


def test_every_module_of_the_package_says_what_it_is() -> None:
    told([at(path) for path in SOURCES if not DOCSTRING.match(path.read_text(encoding="utf-8"))])


def test_every_noqa_names_its_code_and_reason() -> None:
    told(
        [
            f"{at(path, number)}: {line.strip()}"
            for path, number, line in lines(MODULES)
            if path != Path(__file__) and (found := NOQA.search(line)) and not CODES.match(found["rest"])
        ]
    )


def test_every_type_ignore_names_its_code() -> None:
    told(
        [
            f"{at(path, number)}: {line.strip()}"
            for path, number, line in lines(MODULES)
            if path != Path(__file__)
            and (found := TYPE_IGNORE.search(line))
            and not re.match(r"\[[a-z-]+(, ?[a-z-]+)*\]", found["rest"])
        ]
    )


def test_no_path_of_somebodys_machine() -> None:
    told(
        [
            f"{at(path, number)}: {found[0]}"
            for path, number, line in lines(FILES)
            if path not in (Path(__file__), ROOT / "uv.lock") and not path.is_relative_to(RECORDED)
            for found in PERSONAL_PATH.finditer(line)
            if not PLACEHOLDERS.match(found[0])
        ]
    )


def test_folders_with_tests_are_packages() -> None:
    """Else two test modules of the same name in different folders would be one module to mypy."""
    folders = {path.parent for path in MODULES if path.name.startswith("test_")}
    told([at(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()])


def test_the_one_door_contract_names_every_room_above_the_guard() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    by_id = {contract["id"]: contract for contract in contracts}
    layers = [[room.strip().strip("()") for room in layer.split("|")] for layer in by_id["layers"]["layers"]]
    above = layers[: layers.index(["aio"])]
    package = ROOT / "src" / "loopwarden"
    rooms = {
        f"loopwarden.{room}"
        for layer in above
        for room in layer
        if (package / room).is_dir() or (package / f"{room}.py").is_file()
    }
    assert set(by_id["one-door"]["source_modules"]) == rooms - {"loopwarden.__main__"}
