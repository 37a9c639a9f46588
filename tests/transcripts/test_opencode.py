from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.events import Outcome, ToolCall
from loopwarden.transcripts.model import ReadNotes, Spent, StreamStart
from loopwarden.transcripts.opencode import READER
from loopwarden.transcripts.shape import command_result
from loopwarden.transcripts.source import Limits, Source
from tests.transcripts.facts import SAMPLES, Facts, events, facts, items_of, streams
from tests.transcripts.handmade import (
    JUNK,
    as_document,
    as_lines,
    assert_survives,
    assert_survives_damage,
    other_samples,
    read,
    strip,
)

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = {"input": 10, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}}
SPENT = Spent(stream="ses_1", input_tokens=19, output_tokens=5, cost=0.25, at=2.0, cached_tokens=4)


def tool(call_id: str, name: str = "read", **state: Any) -> dict[str, Any]:
    base = {"status": "completed", "input": {"p": 1}, "output": "ok", "metadata": {}}
    base["time"] = {"start": 1_700_000_000_000, "end": 1_700_000_001_000}
    return {"id": f"p-{call_id}", "type": "tool", "callID": call_id, "tool": name, "state": base | state}


FINISH = {"id": "p-z", "type": "step-finish", "reason": "stop", "cost": 0.25, "tokens": TOKENS}
TEXT = {"id": "p-t", "type": "text", "text": "do it"}
COMPACT = {"id": "p-c", "type": "compaction", "auto": True}


def message(identity: str, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    info = {"id": identity, "sessionID": "ses_1", "role": role, "time": {"created": 2.0}, "modelID": "m"}
    return {"info": info | more, "parts": list(parts)}


def export(*messages: Any, **info: Any) -> dict[str, Any]:
    return {"info": {"id": "ses_1", "title": "Fix it"} | info, "messages": list(messages)}


@pytest.mark.parametrize(
    ("sample", "expected", "order"),
    [
        ("export.json", Facts(calls=49, win=30, winres=30, streak=30), "Su" + "co$" * 25 + "|" + "co$" * 24),
        ("run_format_json.jsonl", Facts(calls=49, win=10, winres=10, streak=1, alt=19), "S" + "co$" * 49),
    ],
)
def test_samples(sample: str, expected: Facts, order: str) -> None:
    notes = ReadNotes()
    assert READER.sniff(Source(SAMPLES / "converted/opencode" / sample))
    items = items_of(READER, f"converted/opencode/{sample}", notes)
    assert facts(items) == expected
    assert strip(items) == order
    assert not notes.counts


@pytest.mark.parametrize("sample", other_samples("opencode"))
def test_other_formats_are_refused(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize(
    ("messages", "info", "expected", "noted"),
    [
        ([], {}, "S", {}),
        ([message("a", "user", TEXT)], {}, "Su", {}),
        ([message("a", "user", TEXT | {"synthetic": True}, TEXT | {"ignored": True})], {}, "S", {}),
        ([message("a", "user", COMPACT), message("b", "assistant", summary=True)], {}, "S|", {}),
        # parallel calls come before their results; the cost of a reply once, after its calls
        ([message("b", "assistant", tool("1"), tool("2"), FINISH)], {}, "Sccoo$", {}),
        ([message("b", "assistant", tool("1"), tokens=TOKENS, cost=0.25)], {}, "Sco$", {}),
        ([message("b", "assistant", tool("1"), FINISH, tool("2"), FINISH)], {}, "Sco$co$", {}),
        ([message("b", "assistant", tool("1", status="running"))], {}, "Sc", {"call_without_result": 1}),
        ([message("b", "assistant", tool("1"), tool("1"))], {}, "Sccoo", {"reused_id": 1}),
        # what was undone does not count
        (
            [message("a", "user", TEXT), message("b", "assistant", tool("1")), message("c", "user", TEXT)],
            {"revert": {"messageID": "b"}},
            "Su",
            {"abandoned_branch": 2},
        ),
        (
            [message("b", "assistant", tool("1"), tool("2")), message("c", "user", TEXT)],
            {"revert": {"messageID": "b", "partID": "p-2"}},
            "Sco",
            {"abandoned_branch": 2},
        ),
        ([5, message("b", "assistant", 7, {"type": "new"})], {}, "S", {"bad_line": 2, "unknown_record": 1}),
    ],
)
def test_export(messages: list[Any], info: dict[str, Any], expected: str, noted: dict[str, int]) -> None:
    items, notes = read(READER, as_document(export(*messages, **info)))
    assert strip(items) == expected
    assert notes.counts == noted


def test_what_an_export_says() -> None:
    items, _ = read(
        READER, as_document(export(message("b", "assistant", tool("1"), FINISH), parentID="ses_0"))
    )
    start, _, _, spent = items
    (call,), (outcome,) = events(items, ToolCall), events(items, Outcome)
    assert start == StreamStart(stream="ses_1", title="Fix it", parent="ses_0", agent="opencode", model="m")
    assert (call.at, outcome.at) == (1_700_000_000.0, 1_700_000_001.0)
    assert call.turn_id == "b"
    assert spent == SPENT


def test_steps_of_one_message_are_turns_of_their_own() -> None:
    parts = [tool("1"), tool("2"), FINISH, tool("3"), FINISH]
    items, _ = read(READER, as_document(export(message("b", "assistant", *parts))))
    assert [call.turn_id for call in events(items, ToolCall)] == ["b", "b", "b step 2"]


@pytest.mark.parametrize(
    ("part", "name", "result", "error"),
    [
        (tool("1"), "read", {"content": [{"type": "text", "text": "ok"}]}, None),
        (tool("1", status="error", error="File not found"), "read", None, "File not found"),
        (tool("1", "bash", metadata={"exit": 2}), "bash", command_result("ok", exit_code=2), None),
        (tool("1", "bash", metadata={"exit": None}), "bash", command_result("ok"), None),
        (
            tool("1", "invalid", input={"tool": "grap", "error": "e"}, output="no such"),
            "grap",
            None,
            "no such",
        ),
        (
            tool("1", attachments=[{"id": "volatile", "mime": "image/png", "url": "data:x"}]),
            "read",
            {"content": [{"type": "text", "text": "ok"}, {"mime": "image/png", "url": "data:x"}]},
            None,
        ),
    ],
)
def test_results(part: dict[str, Any], name: str, result: Any, error: str | None) -> None:
    items, _ = read(READER, as_document(export(message("b", "assistant", part))))
    (call,), (outcome,) = events(items, ToolCall), events(items, Outcome)
    assert (call.tool, outcome.result, outcome.error) == (name, result, error)


def line(kind: str, part: Any = None, session: str = "ses_1") -> dict[str, Any]:
    return {"type": kind, "timestamp": 2000, "sessionID": session, "part": part}


@pytest.mark.parametrize(
    ("records", "expected", "noted"),
    [
        ([line("step_start", {"type": "step-start", "messageID": "m"})], "S", {}),
        (
            [
                line("tool_use", tool("1") | {"messageID": "m"}),
                line("tool_use", tool("2") | {"messageID": "m"}),
                line("step_finish", FINISH | {"messageID": "m"}),
            ],
            "Sccoo$",
            {},
        ),
        ([line("tool_use", tool("1")), line("tool_use", tool("1"))], "Sco", {"replaced_record": 1}),
        ([line("error"), line("done"), line("text", TEXT)], "S", {}),
        ([line("text"), {"type": "what"}, 5], "S", {"bad_line": 2, "unknown_record": 1}),
    ],
)
def test_run(records: list[Any], expected: str, noted: dict[str, int]) -> None:
    items, notes = read(READER, as_lines(records))
    assert strip(items) == expected
    assert notes.counts == noted


MESSAGES = [
    message("msg_1", "user", TEXT),
    message("msg_2", "assistant", tool("1"), FINISH),
    message("msg_3", "user", COMPACT),
]


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def storage(root: Path) -> Path:
    for folder in ("session", "message", "part"):
        (root / folder).mkdir(parents=True)
    write(root / "session/proj/ses_1.json", {"id": "ses_1", "title": "Fix it"})
    write(root / "session/proj/ses_2.json", {"id": "ses_2", "title": "Look", "parentID": "ses_1"})
    for told in MESSAGES:
        identity = told["info"]["id"]
        write(root / f"message/ses_1/{identity}.json", told["info"])
        for number, part in enumerate(told["parts"]):
            write(root / f"part/{identity}/prt_{number}.json", part)
    write(root / "message/ses_2/msg_9.json", MESSAGES[1]["info"] | {"id": "msg_9"})
    write(root / "part/msg_9/prt_9.json", tool("1"))
    return root


def test_storage_folder(tmp_path: Path) -> None:
    storage(tmp_path)
    items, notes = read(READER, Source(tmp_path))
    assert strip(items) == "Suco$|Sco"
    assert streams(items) == ["ses_1", "ses_2"]
    assert [item.parent for item in items if isinstance(item, StreamStart)] == [None, "ses_1"]
    assert not notes.counts


def test_damaged_storage_folder(tmp_path: Path) -> None:
    root = storage(tmp_path)
    write(root / "session/proj/ses_3.json", "{")
    write(root / "part/msg_1/prt_0.json", "[]")
    write(root / "message/ses_1/msg_2.json", "7")
    write(root / "message/ses_1/notes.txt", "x")
    (root / "message/ses_1/link.json").symlink_to(root / "message/ses_2/msg_9.json")
    items, notes = read(READER, Source(root))
    assert strip(items) == "S|Sco"
    assert notes.counts == {"bad_line": 3}


def test_files_over_the_limit_are_left_out(tmp_path: Path) -> None:
    root = storage(tmp_path)
    write(root / "part/msg_9/prt_9.json", tool("1", output="x" * 5000))
    items, notes = read(READER, Source(root, limits=Limits(member_bytes=4000)))
    assert strip(items) == "Suco$|S"
    assert notes.counts == {"cut_member": 1}


def test_another_folder_is_refused(tmp_path: Path) -> None:
    storage(tmp_path / "storage")  # lies below and is found as a folder of its own
    assert not READER.sniff(Source(tmp_path))
    with pytest.raises(TranscriptError, match="no opencode storage"):
        list(READER.read(Source(tmp_path), ReadNotes()))


SCHEMA = """
CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text NOT NULL, `parent_id` text,
  `slug` text NOT NULL, `directory` text NOT NULL, `title` text NOT NULL, `version` text NOT NULL,
  `revert` text, `time_created` integer NOT NULL, `time_updated` integer NOT NULL);
CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `data` text NOT NULL);
CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
  `time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL);
"""


def database(path: Path, *, revert: str | None = None, junk: object = None) -> Source:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(SCHEMA)
        for number, (identity, parent) in enumerate((("ses_1", None), ("ses_2", "ses_1"))):
            row = (identity, "p", parent, "s", "/", "Fix it", "1", revert, number, number)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        for number, told in enumerate(MESSAGES):
            info = {key: value for key, value in told["info"].items() if key not in ("id", "sessionID")}
            identity = told["info"]["id"]
            connection.execute(
                "INSERT INTO message VALUES (?, 'ses_1', ?, 0, ?)", (identity, number, json.dumps(info))
            )
            for place, part in enumerate(told["parts"]):
                data = json.dumps({key: value for key, value in part.items() if key != "id"})
                connection.execute(
                    "INSERT INTO part VALUES (?, ?, 'ses_1', 0, 0, ?)",
                    (f"prt_{number}{place}", identity, data),
                )
        if junk is not None:
            connection.execute("INSERT INTO message VALUES ('msg_x', 'ses_1', 9, 0, ?)", (junk,))
            connection.execute("INSERT INTO part VALUES ('prt_x', 'msg_2', 'ses_1', 0, 0, ?)", (junk,))
    return Source(path)


def test_database(tmp_path: Path) -> None:
    items, notes = read(READER, database(tmp_path / "opencode.db"))
    assert strip(items) == "Suco$|S"
    assert [item.parent for item in items if isinstance(item, StreamStart)] == [None, "ses_1"]
    assert not notes.counts
    assert [path.name for path in tmp_path.iterdir()] == ["opencode.db"]


def test_undone_messages_of_a_database(tmp_path: Path) -> None:
    items, notes = read(READER, database(tmp_path / "opencode.db", revert='{"messageID": "msg_2"}'))
    assert strip(items) == "SuS"
    assert notes.counts == {"abandoned_branch": 2}


@pytest.mark.parametrize("junk", ["{", "[]", "7", 7, 1.5, b"\xff\x00", ""])
def test_damaged_rows(tmp_path: Path, junk: object) -> None:
    items, notes = read(READER, database(tmp_path / "opencode.db", junk=junk))
    assert strip(items) == "Suco$|S"
    assert notes.counts == {"bad_line": 2}


def test_a_database_that_is_written_to_is_read_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    database(path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        with writer:
            writer.execute("INSERT INTO session VALUES ('ses_3','p',NULL,'s','/','T','1',NULL,7,7)")
        items, _ = read(READER, Source(path))
        assert streams(items) == ["ses_1", "ses_2", "ses_3"]


def test_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    database(path)
    data = path.read_bytes()
    for cut in (16, 100, 4096, 5000, len(data) - 4096):
        path.write_bytes(data[:cut])
        assert_survives(READER, Source(path))
    for place in range(100, len(data), 97):
        path.write_bytes(data[:place] + b"\xff\xff\xff" + data[place + 3 :])
        assert_survives(READER, Source(path))


def test_a_database_with_other_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "CREATE TABLE session (id); CREATE VIEW message AS SELECT 1; CREATE TABLE part (id)"
        )
    assert not READER.sniff(Source(path))


def test_damage_is_survived() -> None:
    first = message("a", "user", TEXT, COMPACT)
    second = message("b", "assistant", tool("1", "bash", metadata={"exit": 1}), FINISH, tokens=TOKENS)
    told = export(first, second, revert={"messageID": "q", "partID": "r"})
    assert_survives_damage(READER, [told], lines=False)
    lines = [line("tool_use", tool("1", "invalid", attachments=[{"id": 1}])), line("step_finish", FINISH)]
    assert_survives_damage(READER, lines, lines=True)


@pytest.mark.parametrize("junk", [value for value in JUNK if value != "\ud800"])
def test_strange_documents(junk: Any) -> None:
    assert_survives(READER, as_document(junk))
