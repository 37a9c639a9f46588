"""What holds for every adapter, without its host: a row, a guide, an extra, a clear word if it is missing."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from loopwarden import LoopwardenError
from loopwarden.errors import MissingExtraError

pytestmark = pytest.mark.tree

ROOT = Path(__file__).parent.parent.parent
ADAPTERS = {path.stem: path for path in (ROOT / "src" / "loopwarden" / "adapters").glob("[a-z]*.py")}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in ADAPTERS.items()}
NAMED = sorted(name for name, text in TEXTS.items() if re.search(r"^ABILITIES\b", text, re.MULTILINE))
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]
HOSTS: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "hosts.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", NAMED)
def test_every_adapter_has_its_row(name: str) -> None:
    assert f"test_{name}.py" in {file for host in HOSTS.values() for file in host["tests"]}


@pytest.mark.parametrize("name", HOSTS)
def test_every_row_leads_somewhere(name: str) -> None:
    host = HOSTS[name]
    assert set(host) <= {"packages", "lowest", "tests", "guide", "optional", "python"}
    assert all((Path(__file__).parent / file).is_file() for file in host["tests"])
    assert (ROOT / "docs" / "guides" / "hosts" / host["guide"]).is_file()


def fault_of(module: str) -> LoopwardenError | None:
    """What comes of importing it here."""
    try:
        importlib.import_module(module)
    except LoopwardenError as error:
        return error
    return None


@pytest.mark.parametrize("name", NAMED)
def test_a_missing_package_is_named_with_the_command_that_brings_it(name: str) -> None:
    raised = [
        [word.value for word in call.args if isinstance(word, ast.Constant)]
        for call in ast.walk(ast.parse(TEXTS[name]))
        if isinstance(call, ast.Call) and getattr(call.func, "id", None) == "MissingExtraError"
    ]
    for package, extra in raised:
        assert package in {re.split(r"[<>=\[]", wanted)[0] for wanted in EXTRAS[extra]}
    error = fault_of(f"loopwarden.adapters.{name}")
    if error is None:
        return
    assert isinstance(error, MissingExtraError)
    assert [error.package, error.extra] in raised
    assert f"pip install 'loopwarden[{error.extra}]'" in str(error)


@pytest.mark.parametrize("name", NAMED)
def test_the_package_is_that_of_the_extra(name: str) -> None:
    package = package_of(name)
    assert not package or package in [wanted for extra in EXTRAS.values() for wanted in extra]


@pytest.mark.parametrize("name", NAMED)
def test_what_is_called_the_lowest_version_is_tested(name: str) -> None:
    """The row installs just it, and the guide names no other."""
    package, _, lowest = package_of(name).partition(">=")
    (host,) = (host for host in HOSTS.values() if host["tests"][0] == f"test_{name}.py")
    if not package or "lowest" not in host:
        return
    pins = dict(pin.split("==") for pin in host["lowest"])
    assert re.fullmatch(rf"{re.escape(lowest)}(\.0)*", pins[package])
    guide = (ROOT / "docs" / "guides" / "hosts" / host["guide"]).read_text(encoding="utf-8")
    assert set(re.findall(rf"`{package}` ([\d.]+) or newer", guide)) <= {lowest}


def package_of(name: str) -> str:
    """The package that `ABILITIES` names."""
    (package,) = re.findall(r'^    package="(.*)",$', TEXTS[name], re.MULTILINE)
    return str(package)
