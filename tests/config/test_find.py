"""Where a configuration is looked for, and what is said when it cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loopwarden.config import load_config
from loopwarden.config.find import FILE_NAME, MAX_BYTES, find_config, user_folder
from loopwarden.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("work", "user/loopwarden"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("LOOPWARDEN_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "user"))
    return tmp_path


def test_the_first_place_counts(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_config() is None
    assert load_config().source is None
    user = places / "user" / "loopwarden" / FILE_NAME
    user.write_text("{warningThreshold: 3}")
    assert load_config().settings().warning_threshold == 3
    (places / "work" / FILE_NAME).write_text("{warningThreshold: 4}")
    assert load_config().settings().warning_threshold == 4
    named = places / "named.json5"
    named.write_text("{warningThreshold: 5}")
    monkeypatch.setenv("LOOPWARDEN_CONFIG", str(named))
    assert load_config().source == str(named)
    assert load_config(user).source == str(user)
    monkeypatch.setenv("LOOPWARDEN_CONFIG", "")
    assert load_config().source == FILE_NAME


def test_a_relative_base_folder_does_not_count(monkeypatch: pytest.MonkeyPatch, places: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("APPDATA", "relative")
    monkeypatch.setenv("HOME", str(places))
    monkeypatch.setenv("USERPROFILE", str(places))
    folder = user_folder()
    assert folder is not None
    assert folder.is_relative_to(places)


def refusal(source: Path | str | None) -> str:
    with pytest.raises(ConfigError) as raised:
        load_config(source)
    (problem,) = raised.value.problems
    return str(problem)


def test_what_the_variable_names_has_to_exist(monkeypatch: pytest.MonkeyPatch, places: Path) -> None:
    monkeypatch.setenv("LOOPWARDEN_CONFIG", str(places / "gone"))
    assert refusal(None) == "(file): there is no such file; LOOPWARDEN_CONFIG names it"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "(file): the file is empty; {} is the smallest configuration"),
        (b"\xef\xbb\xbf \n", "(file): the file is empty; {} is the smallest configuration"),
        (b"{\n\xff}", "line 2, (file): not UTF-8 text: byte 0xff; save the file as UTF-8"),
        (b"{" + b" " * MAX_BYTES, f"(file): larger than {MAX_BYTES} bytes, the limit for a configuration"),
        (b"{\n\n,}", "line 3, (file): no valid JSON5: ',' where a key is expected"),
        (b"[1]", "(file): a list of 1 is not allowed; allowed: an object"),
        (b"[" * 1000, "line 1, (file): no valid JSON5: nested deeper than 64 levels"),
    ],
)
def test_files_that_cannot_be_read(places: Path, data: bytes, message: str) -> None:
    path = places / "bad.json5"
    path.write_bytes(data)
    assert refusal(path) == message


def test_paths_that_are_no_files(places: Path) -> None:
    assert refusal(places / "gone") == "(file): there is no such file"
    assert refusal(places) == "(file): is a folder; name the file in it"
    assert "could not be read" in refusal("a\0b")


def test_a_byte_order_mark_is_no_fault(places: Path) -> None:
    path = places / "bom.json5"
    path.write_bytes(b"\xef\xbb\xbf{enabled: true}")
    assert load_config(path).settings().enabled is True
