from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.events import Compaction, Outcome, ToolCall
from loopwarden.transcripts.hermes import READER
from loopwarden.transcripts.model import ReadNotes, Spent, StreamStart
from loopwarden.transcripts.shape import command_result
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, Facts, events, facts, items_of, streams
from tests.transcripts.handmade import (
    as_lines,
    assert_survives,
    assert_survives_damage,
    other_samples,
    read,
    strip,
)

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = "converted/hermes/sessions_export.jsonl"


def session(identity: str, *messages: Any, **more: Any) -> dict[str, Any]:
    base = {"id": identity, "source": "cli", "model": "m", "parent_session_id": None, "started_at": 5.0}
    return base | more | {"messages": list(messages)}


def user(text: str, at: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": at} | more


def asks(*ids: str, **more: Any) -> dict[str, Any]:
    calls = [{"id": name, "function": {"name": "read", "arguments": f'{{"p": "{name}"}}'}} for name in ids]
    return {"id": 7, "role": "assistant", "content": None, "tool_calls": calls, "timestamp": 2.0} | more


def answer(identity: str | None, content: Any = "ok", **more: Any) -> dict[str, Any]:
    told = {"role": "tool", "tool_call_id": identity, "tool_name": "read", "content": content}
    return told | {"timestamp": 3.0} | more


OLD: dict[str, Any] = {"active": 0, "compacted": 1}


def test_sample() -> None:
    notes = ReadNotes()
    assert READER.sniff(Source(SAMPLES / SAMPLE))
    items = items_of(READER, SAMPLE, notes)
    assert facts(items) == Facts(calls=49, win=15, winres=15, streak=1, alt=45)
    assert streams(items) == ["20250601_090000_a1b2c3", "20250601_093000_d4e5f6"]
    assert strip(items) == "Su" + "co" * 49 + "$" + "S|u" + "co" * 30 + "$"
    second = [item for item in items if item.stream == "20250601_093000_d4e5f6"]
    assert second[0] == StreamStart(
        stream="20250601_093000_d4e5f6",
        title="20250601_093000_d4e5f6",
        parent="20250601_090000_a1b2c3",
        agent="Hermes agent",
        model="some/model",
    )
    assert facts(second).streak < 3
    assert second[-1] == Spent(
        stream="20250601_093000_d4e5f6", input_tokens=40000, output_tokens=900, at=1748768522.0
    )
    assert not notes.counts


@pytest.mark.parametrize("sample", other_samples("hermes"))
def test_other_formats_are_refused(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize(
    ("sessions", "expected", "noted"),
    [
        ([session("a")], "S", {}),
        ([session("a", user("x"), asks("1", "2"), answer("2"), answer("1"))], "Succoo", {}),
        ([session("a", asks("1"), answer(None))], "Sco", {}),
        ([session("a", user(""), user("x", display_kind="hidden"), {"role": "system"})], "S", {}),
        # rows that a person took back
        ([session("a", user("x"), asks("1", active=0), user("y"))], "Suu", {"abandoned_branch": 1}),
        # a compression in place: what was summarised stays, what was copied does not count twice
        (
            [
                session(
                    "a",
                    user("x", **OLD),
                    asks("1", **OLD),
                    answer("1", **OLD),
                    user("x"),
                    user("summary", 9.0, _compressed_summary=1),
                    asks("1"),
                    answer("1", "[cut]"),
                    asks("2"),
                    answer("2"),
                )
            ],
            "Suco|co",
            {"copied_history": 3},
        ),
        # an export without the old rows begins with the summary
        ([session("a", user("sum", _compressed_summary=1), asks("1"), answer("1"))], "S|co", {}),
        # the same call after the first new one is no copy
        (
            [
                session(
                    "a", asks("1", **OLD), answer("1", **OLD), asks("2"), answer("2"), asks("1"), answer("1")
                )
            ],
            "Sco|coco",
            {"reused_id": 1},
        ),
        ([session("a", asks("1"))], "Sc", {"call_without_result": 1}),
        ([session("a", answer("1"))], "S", {"result_without_call": 1}),
        ([session("a", 5, {"role": "poet"}), {"id": "b"}], "S", {"bad_line": 1, "unknown_record": 2}),
        ([session("a"), session("a", user("x"))], "S", {"replaced_record": 1}),
    ],
)
def test_export(sessions: list[Any], expected: str, noted: dict[str, int]) -> None:
    items, notes = read(READER, as_lines(sessions))
    assert strip(items) == expected
    assert notes.counts == noted


@pytest.mark.parametrize(
    ("parent", "child", "compactions"),
    [
        ({}, {}, 1),
        ({"end_reason": "compression"}, {}, 1),
        ({"end_reason": "branched"}, {}, 0),
        ({"end_reason": None}, {}, 0),  # the parent goes on: a sub-agent
        ({}, {"source": "subagent"}, 0),
        ({}, {"model_config": '{"_delegate_from": "a"}'}, 0),
        ({}, {"model_config": "{"}, 1),
    ],
)
def test_a_child_continues_only_after_a_compression(
    parent: dict[str, Any], child: dict[str, Any], compactions: int
) -> None:
    first = session("a", asks("1"), answer("1"), **parent)
    items, _ = read(READER, as_lines([first, session("b", user("x"), parent_session_id="a", **child)]))
    assert [item.parent for item in items if isinstance(item, StreamStart)] == [None, "a"]
    assert len(events(items, Compaction)) == compactions


def test_a_continuation_leaves_out_what_was_copied() -> None:
    first = session("a", user("x"), asks("1"), answer("1"), end_reason="compression")
    second = session("b", user("sum", 8.0), asks("1"), answer("1"), asks("2"), parent_session_id="a")
    items, notes = read(READER, as_lines([first, second]))
    assert strip(items) == "SucoS|uc"
    assert notes.counts == {"copied_history": 2, "call_without_result": 1}


@pytest.mark.parametrize(
    ("tool", "content", "result"),
    [
        ("read", "x", {"content": [{"type": "text", "text": "x"}]}),
        ("read", None, {"content": [{"type": "text", "text": ""}]}),
        ("read", '\x00json:[{"type": "text", "text": "y"}]', {"content": [{"type": "text", "text": "y"}]}),
        ("terminal", '{"output": "x", "exit_code": 2, "error": null}', command_result("x", exit_code=2)),
        ("terminal", '{"output": "x", "exit_code": 1, "error": "e"}', command_result("x\ne", exit_code=1)),
        ("terminal", "no json", {"content": [{"type": "text", "text": "no json"}]}),
        ("terminal", '{"output": "x", "exit_code": true}', None),
        (
            "process",
            '{"status": "running", "pid": 7, "uptime_seconds": 9, "output_preview": "x"}',
            command_result("x", running=True),
        ),
        (
            "process",
            '{"status": "exited", "output_preview": "x", "exit_code": 1}',
            command_result("x", exit_code=1),
        ),
        ("process", '{"status": "not_found"}', None),
    ],
)
def test_results(tool: str, content: Any, result: Any) -> None:
    items, _ = read(READER, as_lines([session("a", asks("1"), answer("1", content, tool_name=tool))]))
    (outcome,) = events(items, Outcome)
    assert outcome.result == (result or {"content": [{"type": "text", "text": content}]})


def test_what_a_session_costs() -> None:
    told = {
        "input_tokens": 1,
        "cache_read_tokens": 2,
        "output_tokens": 3,
        "estimated_cost_usd": 0.5,
        "ended_at": 9.0,
    }
    items, _ = read(READER, as_lines([session("a", **told)]))
    assert items[-1] == Spent(stream="a", input_tokens=3, output_tokens=3, cost=0.5, at=9.0, cached_tokens=2)
    items, _ = read(READER, as_lines([session("a", **told, actual_cost_usd=0.0)]))
    assert items[-1] == Spent(stream="a", input_tokens=3, output_tokens=3, cost=0.0, at=9.0, cached_tokens=2)


def test_a_call_has_its_row_as_turn() -> None:
    items, _ = read(READER, as_lines([session("a", asks("1", "2"))]))
    assert [(call.turn_id, call.arguments, call.at) for call in events(items, ToolCall)] == [
        ("7", {"p": "1"}, 2.0),
        ("7", {"p": "2"}, 2.0),
    ]


SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, model_config TEXT,
    system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, title TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
    _compressed_summary INTEGER NOT NULL DEFAULT 0, active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0);
"""


def database(path: Path, *, junk: object = None) -> Source:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(SCHEMA)
        for row in (("a", None, 1.0, "compression", "Fix it"), ("b", "a", 2.0, None, None)):
            connection.execute(
                "INSERT INTO sessions"
                " (id, source, parent_session_id, started_at, end_reason, title, input_tokens)"
                " VALUES (?, 'cli', ?, ?, ?, ?, 5)",
                row,
            )
        rows = [user("x"), asks("1"), answer("1"), asks("2", active=0), user("sum", _compressed_summary=1)]
        for told in rows:
            known = {"session_id": "a"} | {key: value for key, value in told.items() if key != "id"}
            known = {
                key: json.dumps(value) if isinstance(value, list) else value for key, value in known.items()
            }
            marks = ", ".join("?" for _ in known)
            sql = f"INSERT INTO messages ({', '.join(known)}) VALUES ({marks})"  # noqa: S608 - our own names
            connection.execute(sql, tuple(known.values()))
        if junk is not None:
            connection.execute(
                "INSERT INTO messages (session_id, role, tool_calls, content, tool_call_id, timestamp)"
                " VALUES ('b', 'assistant', ?1, ?1, ?1, ?1), ('b', 'tool', ?1, ?1, ?1, ?1),"
                " ('b', ?1, ?1, ?1, ?1, ?1)",
                (junk,),
            )
    return Source(path)


def test_database(tmp_path: Path) -> None:
    items, notes = read(READER, database(tmp_path / "state.db"))
    assert strip(items) == "Suco|$S|$"
    assert items[0] == StreamStart(stream="a", title="Fix it", agent="Hermes agent")
    assert notes.counts == {"abandoned_branch": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]


@pytest.mark.parametrize("junk", ["{", "[]", "[7]", '[{"function": 5}]', 7, 1.5, b"\xff", "", "\x00json:{"])
def test_damaged_rows(tmp_path: Path, junk: object) -> None:
    items, _ = read(READER, database(tmp_path / "state.db", junk=junk))
    assert strip(items).startswith("Suco|$S|")


def test_a_database_from_standard_input_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database(path)
    with path.open("rb") as stream:
        source = Source(None, data=stream)
        assert not READER.sniff(source)
        assert_survives(READER, source)


def tagged(tag: str, *values: Any) -> str:
    return "\n".join(f"<{tag}>\n{json.dumps(value)}\n</{tag}>" for value in values)


TRAJECTORY = {
    "prompt_index": 3,
    "model": "m",
    "conversations": [
        {"from": "system", "value": "<tools>[]</tools>"},
        {"from": "human", "value": "do it"},
        {
            "from": "gpt",
            "value": "<think>\nhm\n</think>\n"
            + tagged(
                "tool_call",
                {"name": "terminal", "arguments": {"command": "ls"}},
                {"name": "read", "arguments": {}},
            ),
        },
        {
            "from": "tool",
            "value": tagged(
                "tool_response",
                {"tool_call_id": "x", "name": "read", "content": "ok"},
                {"tool_call_id": "y", "name": "terminal", "content": {"output": "a", "exit_code": 0}},
            ),
        },
        {"from": "gpt", "value": "done <tool_call>{broken</tool_call>"},
    ],
}


def test_trajectories() -> None:
    items, notes = read(READER, as_lines([TRAJECTORY, TRAJECTORY, {"other": 1}]))
    assert strip(items) == "SuccooSuccoo"
    assert streams(items) == ["line 1", "line 2"]
    assert notes.counts == {"bad_line": 2, "unknown_record": 1}
    outcomes = events(items, Outcome)
    assert [outcome.call_id for outcome in outcomes[:2]] == ["c2", "c1"]
    assert outcomes[1].result == command_result("a", exit_code=0)


def test_damage_is_survived() -> None:
    first = session(
        "a", user("x", **OLD), asks("1", **OLD), answer("1"), end_reason="compression", input_tokens=1
    )
    second = session(
        "b", answer("1", '{"output": "x", "exit_code": 1}', tool_name="terminal"), parent_session_id="a"
    )
    assert_survives_damage(READER, [first, second], lines=True)
    assert_survives_damage(READER, [TRAJECTORY], lines=True)
