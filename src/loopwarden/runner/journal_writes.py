"""What the journal writes: for each thing that happens the statements and their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.runner.plain_json import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.runner.happenings import Happening

MAX_SESSIONS: Final = 1_000
MAX_HISTORIES: Final = 512_000_000
MAX_RUNS: Final = 10_000
MAX_HAPPENINGS: Final = 200_000
MAX_BYTES: Final = 256_000_000
"""What a journal holds: `MAX_HISTORIES` are bytes of the messages of all sessions, `MAX_BYTES` those of all
happenings. The sessions that were idle for longest and the oldest runs go first, and what happened in old
runs goes before the runs themselves. A run that goes on, and its session, stay."""

MOST_OF_A_RUN: Final = 20_000
MOST_BYTES_OF_A_RUN: Final = 64_000_000
"""What is kept of one run; beyond, only its compactions and its end are."""

Write: TypeAlias = tuple[str, tuple[Any, ...]]

_ALWAYS: Final = frozenset({"began", "compaction", "ended"})
_MOST: Final = 2**53
_PUT: Final = """
INSERT OR IGNORE INTO happenings (run, number, time, kind, data)
SELECT number, ?, ?, ?, ? FROM runs WHERE id = ? AND (? OR (kept < ? AND size < ?))
"""
_COUNT: Final = "UPDATE runs SET kept = kept + changes(), size = size + changes() * ? WHERE id = ?"
_TOUCH: Final = """
INSERT INTO sessions (id, agent, began, touched) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET touched = max(touched, excluded.touched), agent = excluded.agent
"""
_BEGIN: Final = """
INSERT OR IGNORE INTO runs (id, session, agent, trigger, parent, task, began, state)
VALUES (?, ?, ?, ?, ?, ?, ?, 'open')
"""
_END: Final = """
UPDATE runs SET state = ?1, ended = ?2, code = ?3, message = ?4, answer = ?5, requests = ?6,
    input_tokens = ?7, output_tokens = ?8, evidence = iif(?1 = 'interrupted', evidence, NULL)
WHERE id = ?9
"""
_FOLLOW: Final = """
UPDATE runs SET followed = 1, evidence = NULL
WHERE state = 'interrupted' AND followed = 0 AND number < (SELECT number FROM runs WHERE id = ?1)
    AND session = (SELECT session FROM runs WHERE id = ?1)
"""
_MARK_OLD: Final = """
CREATE TEMP TABLE old AS SELECT number, place > ?1 AS goes FROM (
    SELECT number, state, kept, sum(kept) OVER newest AS many, sum(size) OVER newest AS bytes,
        row_number() OVER newest AS place
    FROM runs WINDOW newest AS (ORDER BY number DESC)
) WHERE state <> 'open' AND ((kept > 0 AND (many > ?2 OR bytes > ?3)) OR place > ?1)
"""
_DROP_SESSIONS: Final = """
DELETE FROM sessions WHERE id IN (
    SELECT id FROM (
        SELECT id, row_number() OVER newest AS place, sum(ifnull(length(history), 0)) OVER newest AS bytes
        FROM sessions WINDOW newest AS (ORDER BY touched DESC, id)
    ) WHERE place > ? OR bytes > ?
) AND NOT EXISTS (SELECT 1 FROM runs WHERE session = sessions.id AND state = 'open')
"""


def happened(happening: Happening) -> Iterator[Write]:
    """Anything that happens in a run; how it begins and ends is kept in the run's own row, too."""
    if happening.kind == "began":
        yield from _began(happening)
    elif happening.kind == "text" and happening.data.get("partial"):
        return  # the whole of it follows
    data = to_json(happening.data)
    always = happening.kind in _ALWAYS
    most = always, MOST_OF_A_RUN, MOST_BYTES_OF_A_RUN
    yield _PUT, (happening.number, happening.time, happening.kind, data, happening.run, *most)
    yield _COUNT, (len(data), happening.run)
    if happening.kind == "ended":
        yield from _ended(happening)


def touched(session: str, agent: str, now: float) -> Write:
    """A session is used, maybe for the first time."""
    return _TOUCH, (session, agent, now, now)


def followed(run: str) -> Write:
    """A run went on from the interrupted ones before it in its session: their evidence is now its own."""
    return _FOLLOW, (run,)


def trimmed() -> Iterator[Write]:
    """Drop what is beyond the bounds."""
    yield "DROP TABLE IF EXISTS temp.old", ()
    yield _MARK_OLD, (MAX_RUNS, MAX_HAPPENINGS, MAX_BYTES)
    yield "DELETE FROM happenings WHERE run IN (SELECT number FROM old)", ()
    yield "DELETE FROM runs WHERE number IN (SELECT number FROM old WHERE goes)", ()
    yield "UPDATE runs SET kept = 0, size = 0 WHERE number IN (SELECT number FROM old)", ()
    yield "DROP TABLE temp.old", ()
    yield _DROP_SESSIONS, (MAX_SESSIONS, MAX_HISTORIES)


def _began(happening: Happening) -> Iterator[Write]:
    data = happening.data
    yield touched(happening.session, happening.agent, happening.time)
    yield (
        _BEGIN,
        (
            happening.run,
            happening.session,
            happening.agent,
            _text(data.get("trigger")) or "user",
            _text(data.get("parent")),
            _text(data.get("task")) or "",
            happening.time,
        ),
    )


def _ended(happening: Happening) -> Iterator[Write]:
    data = happening.data
    state = _text(data.get("reason")) or "failed"
    if state != "interrupted":
        yield followed(happening.run)
    yield (
        _END,
        (
            state,
            happening.time,
            _text(data.get("code")),
            _text(data.get("message")),
            _text(data.get("answer")),
            *(_count(data.get(name)) for name in ("requests", "input_tokens", "output_tokens")),
            happening.run,
        ),
    )
    yield touched(happening.session, happening.agent, happening.time)


def _text(value: object) -> str | None:
    return value[:64_000] if isinstance(value, str) else None


def _count(value: object) -> int:
    return min(max(value, 0), _MOST) if isinstance(value, int) else 0
