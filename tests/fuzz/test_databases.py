"""Databases that are damaged, locked, heavy, or built to be gone through for ever."""

from __future__ import annotations

import random
import sqlite3
import struct
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import Limits, Source, detect, read, sqlite_file
from tests.fuzz.judge import check_error, check_items, judged
from tests.fuzz.mutants import STRANGE, damaged
from tests.transcripts import test_hermes as hermes
from tests.transcripts import test_opencode as opencode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAKERS: Final[dict[str, Callable[[Path], Source]]] = {
    "hermes": hermes.database,
    "opencode": opencode.database,
}
MUTANTS: Final = 400


@pytest.mark.parametrize("form", MAKERS)
def test_damaged_bytes(form: str, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    MAKERS[form](path)
    whole = path.read_bytes()
    for seed in range(MUTANTS):
        chance = random.Random(f"{form} {seed}")
        data = damaged(whole, chance)
        for _ in range(seed % 3):
            data = damaged(data, chance)
        path.write_bytes(data)
        for name in (None, form):
            try:
                judged(path, format=name, streamed=False)
            except Exception as error:
                raise AssertionError(f"seed {seed} read as {name}") from error


def _bound(value: Any) -> Any:
    if isinstance(value, dict | list) or (isinstance(value, int) and abs(value) >= 2**63):
        return str(value)
    return value.encode(errors="replace") if isinstance(value, str) and not value.isprintable() else value


@pytest.mark.parametrize("form", MAKERS)
def test_strange_values_in_every_column(form: str, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    MAKERS[form](path)
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        columns = [
            (table, row[1])
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%'"
            )
            for row in connection.execute(f"PRAGMA table_info({table})")
        ]
    for number, (table, column) in enumerate(columns):
        for strange in STRANGE[number % 3 :: 3]:
            path.write_bytes(whole)
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("PRAGMA synchronous = OFF")
                with suppress(sqlite3.IntegrityError):  # some columns take no text
                    connection.execute(
                        f"UPDATE OR IGNORE {table} SET {column} = ?",  # noqa: S608 - our own names
                        (_bound(strange),),
                    )
            judged(path, format=form, streamed=False)


@pytest.mark.parametrize("form", MAKERS)
def test_a_value_over_the_limit_is_named_with_it(form: str, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    MAKERS[form](path)
    table = "messages" if form == "hermes" else "part"
    column = "content" if form == "hermes" else "data"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = zeroblob(3000000)")  # noqa: S608 - ours
    with pytest.raises(TranscriptError, match="a value is larger than 2000000 bytes, the limit") as raised:
        list(read(Source(path, limits=Limits(line_bytes=2_000_000)), format=form).items)
    check_error(raised.value, str(path))


def test_a_locked_database_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    opencode.database(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("UPDATE session SET title = 'other'")
        items = list(read(path).items)
    check_items(items)
    assert items


PAGE: Final = 512


def _circle(path: Path, table: str, levels: int) -> None:
    """Hang `levels` inner pages over the table, each of which names the next one many times."""
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    data = bytearray(path.read_bytes())
    pages = len(data) // PAGE
    data += data[(root - 1) * PAGE : root * PAGE]  # the old root, a leaf
    leaf = pages + 1
    children = [leaf + 1 + level for level in range(levels)]
    for place, child in zip([root, *children[:-1]], [*children[:-1], leaf], strict=True):
        cells = (PAGE - 12) // 8
        page = struct.pack(">BHHHBL", 5, 0, cells, PAGE - 5 * cells, 0, child)
        page += b"".join(struct.pack(">H", PAGE - 5 * (cell + 1)) for cell in range(cells))
        page = page.ljust(PAGE - 5 * cells, b"\0")
        page += b"".join(struct.pack(">LB", child, cells - cell) for cell in range(cells))
        if place == root:
            data[(root - 1) * PAGE : root * PAGE] = page
        else:
            data += page
    data[28:32] = struct.pack(">L", len(data) // PAGE)
    path.write_bytes(data)


@pytest.mark.parametrize("form", MAKERS)
def test_pages_in_a_circle_end(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_FREE_STEPS", 20)
    path = tmp_path / "run.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        connection.execute("VACUUM")
    MAKERS[form](path)
    _circle(path, "sessions" if form == "hermes" else "session", 12)
    reader = detect(Source(path))
    assert reader is not None
    with pytest.raises(TranscriptError, match="more steps than a database of this size needs") as raised:
        list(read(path).items)
    check_error(raised.value, str(path))
