from __future__ import annotations

from typing import Any

import pytest

from loopwarden.events import Outcome, ToolCall
from loopwarden.transcripts.gemini import READER
from loopwarden.transcripts.gemini_content import result_of
from loopwarden.transcripts.model import ReadNotes, Spent, StreamStart
from loopwarden.transcripts.shape import command_result
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, Facts, events, facts, items_of
from tests.transcripts.handmade import (
    as_document,
    as_lines,
    assert_survives_damage,
    other_samples,
    read,
    source_of,
    strip,
)

HEAD = {"sessionId": "s1", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "kind": "main"}


def answer(text: str, key: str = "output") -> list[Any]:
    return [{"functionResponse": {"id": "x", "name": "read", "response": {key: text}}}]


def call(identity: str, **more: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "name": "read",
        "args": {"p": 1},
        "status": "success",
        "result": answer("ok"),
    } | more


def reply(identity: str, *calls: dict[str, Any], size: int = 10) -> dict[str, Any]:
    return {
        "id": identity,
        "timestamp": "2026-01-01T00:00:02Z",
        "type": "gemini",
        "content": "",
        "tokens": {"input": size, "output": 2, "cached": 1, "thoughts": 3, "tool": 4, "total": 0},
        "model": "gemini-x",
        "toolCalls": list(calls),
    }


def user(identity: str, content: Any = "do it") -> dict[str, Any]:
    return {"id": identity, "timestamp": "2026-01-01T00:00:01Z", "type": "user", "content": content}


@pytest.mark.parametrize(
    ("sample", "expected", "noted"),
    [
        ("checkpoint-before-fix.json", Facts(calls=10, win=10, winres=10, streak=10), {}),
        (
            "session-2025-06-01T09-00-1a2b3c4d.json",
            Facts(calls=49, win=15, winres=15, streak=1, alt=45),
            {},
        ),
        (
            "session-2025-06-01T09-10-5e6f7a8b.jsonl",
            Facts(calls=49, win=10, winres=10, streak=1, cycle=38, period=3),
            {"replaced_record": 49},
        ),
    ],
)
def test_samples(sample: str, expected: Facts, noted: dict[str, int]) -> None:
    notes = ReadNotes()
    assert READER.sniff(Source(SAMPLES / "converted/gemini-cli" / sample))
    items = items_of(READER, f"converted/gemini-cli/{sample}", notes)
    assert facts(items) == expected
    assert notes.counts == noted


def test_what_a_chat_sample_costs_and_says() -> None:
    items = items_of(READER, "converted/gemini-cli/session-2025-06-01T09-10-5e6f7a8b.jsonl")
    assert items[0] == StreamStart(
        stream="e1c80488-853d-86ab-9d6d-ecfe30d8930f",
        title="e1c80488-853d-86ab-9d6d-ecfe30d8930f",
        agent="Gemini CLI",
        model="gemini-3-flash-preview",
    )
    assert strip(items) == "Su" + "co$" * 49
    spent = [item for item in items if isinstance(item, Spent)]
    assert (spent[0].input_tokens, spent[0].output_tokens, spent[0].at) == (900, 20, 1748768402.0)
    assert [event.at for event in events(items, ToolCall)[:2]] == [1748768400.0, 1748768402.0]


@pytest.mark.parametrize("sample", other_samples("gemini-cli"))
def test_other_formats_are_refused(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize(
    ("records", "expected", "noted"),
    [
        ([HEAD], "S", {}),
        ([HEAD, user("a"), reply("b", call("1"))], "Suco$", {}),
        # parallel calls come before their results
        ([HEAD, reply("b", call("1"), call("2"))], "Sccoo$", {}),
        # a rewind takes back the named message and all after it; an unknown one takes back all
        ([HEAD, user("a"), reply("b", call("1")), {"$rewindTo": "b"}], "Su", {"abandoned_branch": 1}),
        ([HEAD, user("a"), reply("b"), {"$rewindTo": "?"}, user("c")], "Su", {"abandoned_branch": 2}),
        # a replacement stands where the first one stood
        ([HEAD, reply("b"), user("a"), reply("b", call("1"))], "Sco$u", {"replaced_record": 1}),
        ([HEAD, user("a"), {"$set": {"summary": "x"}}], "Su", {}),
        ([HEAD, user("a"), {"$set": {"messages": [reply("z", call("1"))]}}], "Sco$", {}),
        # a user record that only carries results is no message of a person
        ([HEAD, user("a", answer("ok")), user("b", ""), user("c", [{"text": "x"}])], "Su", {}),
        ([HEAD, {"id": "i", "type": "info", "content": "hello"}], "S", {}),
        ([HEAD, {"id": "i", "type": "else"}, {"what": 1}, 5], "S", {"unknown_record": 2, "bad_line": 1}),
        ([HEAD, reply("b", call("1", result=None, status="executing"))], "Sc$", {"call_without_result": 1}),
        ([HEAD, reply("b", call("1"), call("1"))], "Sccoo$", {"reused_id": 1}),
        ([HEAD, reply("b", {"id": "1"})], "S$", {"bad_line": 1}),
        # a compaction is read from a prompt that shrinks to under half, if it was large
        ([HEAD, reply("a", size=9000), reply("b", call("1"), size=4000)], "S$|co$", {}),
        ([HEAD, reply("a", size=9000), reply("b", size=0), reply("c", size=8500)], "S$$$", {}),
        ([HEAD, reply("a", size=900), reply("b", size=100)], "S$$", {}),
    ],
)
def test_lines(records: list[Any], expected: str, noted: dict[str, int]) -> None:
    items, notes = read(READER, as_lines(records))
    assert strip(items) == expected
    assert notes.counts == noted


@pytest.mark.parametrize("data", [as_document, lambda value: as_lines([value])])
def test_a_chat_in_one_document(data: Any) -> None:
    chat = HEAD | {"summary": "Fix the\nbug", "messages": [user("a"), reply("b", call("1")), 3]}
    items, notes = read(READER, data(chat))
    assert strip(items) == "Suco$"
    assert items[0].stream == "s1"
    assert notes.counts == {"bad_line": 1}
    assert items[-1] == Spent(stream="s1", input_tokens=14, output_tokens=5, at=1767225602.0, cached_tokens=1)


def test_calls_of_one_reply_share_the_turn() -> None:
    items, _ = read(READER, as_lines([HEAD, reply("b", call("1"), call("2")), reply("c", call("3"))]))
    assert [event.turn_id for event in events(items, ToolCall)] == ["b", "b", "c"]


@pytest.mark.parametrize(
    ("changes", "result", "error"),
    [
        ({}, {"content": [{"type": "text", "text": "ok"}]}, None),
        ({"result": answer("gone", "error")}, None, "gone"),
        ({"status": "error"}, None, "ok"),
        ({"status": "cancelled", "result": answer("by the user", "error")}, None, "by the user"),
        ({"result": "plain"}, {"content": [{"type": "text", "text": "plain"}]}, None),
        (
            {"result": [*answer("seen"), {"inlineData": {"data": "AA"}}]},
            {"content": [{"type": "text", "text": "seen"}, {"inlineData": {"data": "AA"}}]},
            None,
        ),
        (
            {"result": [{"functionResponse": {"response": {"rows": [1]}}}]},
            {"content": [{"rows": [1]}]},
            None,
        ),
    ],
)
def test_results(changes: dict[str, Any], result: Any, error: str | None) -> None:
    items, _ = read(READER, as_lines([HEAD, reply("b", call("1", **changes))]))
    (outcome,) = events(items, Outcome)
    assert (outcome.result, outcome.error) == (result, error)


OLD = "Command: {0}\nDirectory: (root)\nOutput: {1}\nError: {2}\nExit Code: {3}\nSignal: 0\n"
OLD += "Background PIDs: 7\nProcess Group PGID: 80859"


@pytest.mark.parametrize(
    ("text", "output", "exit_code"),
    [
        (OLD.format("ls", "(empty)", "(none)", 0), "", 0),
        (OLD.format("cat <<E\nno\nE", "a\nb", "(none)", "(none)"), "a\nb", None),
        (OLD.format("x", "fatal", "spawn failed", 128), "fatal\nspawn failed", 128),
        ("Output: (empty)\nProcess Group PGID: 20496", "", None),
        ("Output: one\ntwo\nExit Code: 2\nProcess Group PGID: 1", "one\ntwo", 2),
        ("Output: Exit Code: 5\nExit Code: 2", "Exit Code: 5", 2),
        ("Output: fine", "fine", None),
    ],
)
def test_the_lines_of_the_shell_tool_are_taken_off(text: str, output: str, exit_code: int | None) -> None:
    assert result_of("run_shell_command", answer(text)).result == command_result(output, exit_code=exit_code)


def test_two_runs_of_a_command_are_equal_though_the_process_group_differs() -> None:
    first, second = (
        result_of("run_shell_command", answer(f"Output: x\nProcess Group PGID: {group}")) for group in (1, 2)
    )
    assert first == second
    assert (
        result_of("read", answer("Output: x\nProcess Group PGID: 1")) != first
    )  # only the shell tool does so


def test_a_failed_command_keeps_its_exit_code() -> None:
    answered = result_of("run_shell_command", answer("Output: x\nExit Code: 1", "error"))
    assert answered.result == command_result("x", exit_code=1, is_error=True)


@pytest.mark.parametrize("text", ["no labels", "Command: x", "Output"])
def test_other_text_of_the_shell_tool_stays(text: str) -> None:
    assert result_of("shell", answer(text)).result == {"content": [{"type": "text", "text": text}]}


def model(*names: str) -> dict[str, Any]:
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}


def function(*names: str) -> dict[str, Any]:
    parts = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in names]
    return {"role": "user", "parts": parts}


@pytest.mark.parametrize(
    ("contents", "expected", "noted"),
    [
        ([{"role": "user", "parts": [{"text": "x"}]}, model("a"), function("a")], "Suco", {}),
        ([model("a", "b"), function("b", "a")], "Sccoo", {}),
        ([model("a"), function("b")], "Sc", {"result_without_call": 1, "call_without_result": 1}),
        ([function("a"), model("a")], "Sc", {"result_without_call": 1, "call_without_result": 1}),
        ([{"role": "model", "parts": [{"text": "I am done"}]}], "S", {}),
        ([model("a"), 5, None], "Sc", {"bad_line": 2, "call_without_result": 1}),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_checkpoints(contents: list[Any], expected: str, noted: dict[str, int], *, wrapped: bool) -> None:
    items, notes = read(READER, as_document({"history": contents} if wrapped else contents))
    assert strip(items) == expected
    assert notes.counts == noted


def test_a_checkpoint_mints_ids_and_pairs_in_order() -> None:
    items, _ = read(READER, as_document([model("a", "a"), function("a", "a")]))
    assert [event.call_id for event in events(items, ToolCall)] == ["c1", "c2"]
    assert [event.call_id for event in events(items, Outcome)] == ["c1", "c2"]
    assert {event.turn_id for event in events(items, ToolCall)} == {"reply 1"}


def test_damage_is_survived() -> None:
    shell = call("2", name="run_shell_command", result=answer("Output: x\nExit Code: 1", "error"))
    records = [HEAD, user("a", [{"text": "x"}]), reply("b", call("1"), shell), {"$set": {"summary": "y"}}]
    assert_survives_damage(READER, [*records, {"$rewindTo": "q"}], lines=True)
    assert_survives_damage(READER, [HEAD | {"messages": records[1:3]}], lines=False)
    assert_survives_damage(READER, [[model("a"), function("a")]], lines=False)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[[[", b'{"sessionId": 5}', b"PK"]
)
def test_strange_heads_are_refused(data: bytes) -> None:
    assert not READER.sniff(source_of(data))
