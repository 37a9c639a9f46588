"""A SQLite database of another program, only ever read, with bounds on what it may cost."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from loopwarden.errors import TranscriptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.source import Source

_STEP = 100_000
_FREE_STEPS = 500
_BYTES_A_STEP = 20_000
"""How much SQLite may do for one query: `_STEP` instructions, times `_FREE_STEPS` and one for so many bytes.

Sorting the smallest rows takes a tenth of that. Pages that refer to each other in circles take for ever.
"""

_FAULTS = (sqlite3.Error, OSError, UnicodeError, OverflowError)
"""What a damaged database raises; the text of an error of SQLite itself may be no UTF-8."""


class Database:
    """An open database. Tables that are views or virtual tables are left alone.

    Attributes:
        columns: Names of the columns of each ordinary table.
    """

    def __init__(self, connection: sqlite3.Connection, source: Source) -> None:
        self._connection = connection
        self._source = source
        self._steps = 0
        self._most_steps = _FREE_STEPS + source.size // _BYTES_A_STEP
        connection.set_progress_handler(self._step, _STEP)
        names = [
            row[0]
            for row in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            )
        ]
        self.columns: dict[str, frozenset[str]] = {
            name: frozenset(
                row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            )
            for name in names
        }

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with at least these columns."""
        return table in self.columns and self.columns[table].issuperset(columns)

    def rows(
        self, table: str, wanted: tuple[str, ...], *, where: tuple[str, object] | None, order: tuple[str, ...]
    ) -> Iterator[dict[str, Any]]:
        """Rows of a table as mappings, one in memory at a time.

        Args:
            table: Name of the table; with the other names fixed in our code, never from the file.
            wanted: Columns; those that the table does not have are left out.
            where: A column and the value that it must have; `None` for all rows.
            order: Columns to order by; those that the table does not have are left out.

        Raises:
            TranscriptError: The database is damaged, a value is over the limit, or the query takes more
                steps than it may.
        """
        self._steps = 0
        columns = [name for name in wanted if name in self.columns[table]]
        sql = f"SELECT {', '.join(map(_quoted, columns))} FROM {_quoted(table)}"  # noqa: S608 - names are ours
        if where is not None:
            sql += f" WHERE {_quoted(where[0])} = ?"
        ordered = [_quoted(name) for name in order if name in self.columns[table]]
        if ordered:
            sql += f" ORDER BY {', '.join(ordered)}"
        try:
            # the cursor is not closed here: that fails, if reading stops, once the database is closed
            for row in self._connection.execute(sql, () if where is None else (where[1],)):
                yield dict(zip(columns, row, strict=True))
        except _FAULTS as error:
            raise _unreadable(self._source, error) from error

    def _step(self) -> int:
        """Called by SQLite now and then; anything but 0 ends the query."""
        self._steps += 1
        return self._steps > self._most_steps


@contextmanager
def open_database(source: Source) -> Iterator[Database]:
    """Open the database of a source read-only.

    If no write-ahead log lies beside it, it is opened as immutable, so that not even a lock is taken;
    else its log is read along.

    Raises:
        TranscriptError: It is on standard input, packed, or no database.
    """
    path = source.path
    if path is None:
        raise TranscriptError(source.label, "a SQLite database can't be read from standard input")
    log = path.with_name(path.name + "-wal")
    busy = log.is_file() and log.stat().st_size > 0
    options = "mode=ro" if busy else "mode=ro&immutable=1"
    try:
        uri = f"file:{quote(str(path.absolute()))}?{options}"
        with closing(sqlite3.connect(uri, uri=True, timeout=5.0)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, source.limits.line_bytes)
            connection.text_factory = lambda data: data.decode(errors="replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            yield Database(connection, source)
    except _FAULTS as error:
        raise _unreadable(source, error) from error


def looks_like(source: Source, **tables: tuple[str, ...]) -> bool:
    """Whether the source is a database with these tables and columns; never raises."""
    if source.kind != "sqlite":
        return False
    try:
        with open_database(source) as database:
            return all(database.has(table, *columns) for table, columns in tables.items())
    except TranscriptError:
        return False


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _unreadable(source: Source, error: Exception) -> TranscriptError:
    code = getattr(error, "sqlite_errorcode", None)
    reason = " ".join(str(error).split())
    if code == sqlite3.SQLITE_TOOBIG:
        reason = f"a value is larger than {source.limits.line_bytes} bytes, the limit"
    elif code == sqlite3.SQLITE_INTERRUPT:
        reason = "a query takes more steps than a database of this size needs; its pages may form a circle"
    return TranscriptError(source.label, f"the database could not be read: {reason}")
