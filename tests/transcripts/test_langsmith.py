from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.events import ToolCall
from loopwarden.transcripts.langsmith import READER
from loopwarden.transcripts.model import StreamStart
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, Facts, events, facts, items_of, streams
from tests.transcripts.handmade import (
    as_document,
    as_lines,
    assert_survives_damage,
    other_samples,
    read,
    source_of,
)
from tests.transcripts.tale import tale, tales, turns


def run(run_id: str, kind: str, start: int, **more: Any) -> dict[str, Any]:
    time = f"2026-01-01T00:00:{start:02}"
    return {
        "id": run_id,
        "name": run_id,
        "run_type": kind,
        "start_time": time,
        "end_time": f"{time}.5",
        "trace_id": "root",
        "parent_run_id": "root",
        "dotted_order": f"20260101T0000{start:02}Z{run_id}",
        "session_id": "project",
        "status": "success",
        "error": None,
        "inputs": {},
        "outputs": None,
        **more,
    }


def root(**more: Any) -> dict[str, Any]:
    return run("root", "chain", 0, parent_run_id=None, inputs={"input": "go"}, **more)


def tool(run_id: str, start: int, **more: Any) -> dict[str, Any]:
    return run(run_id, "tool", start, **({"inputs": {"a": start}, "outputs": {"output": "one"}} | more))


def test_facts() -> None:
    items = items_of(READER, "converted/langsmith/runs.jsonl")
    assert facts(items) == Facts(calls=49, win=10, winres=10, streak=1, cycle=38, period=3)
    assert streams(items) == ["t1"]


NEWEST_FIRST = [tool("b", 2), tool("a", 1), root()]
TOLD = 'u a({"a":1}) =one b({"a":2}) =one'


@pytest.mark.parametrize(
    "data",
    [
        as_lines(NEWEST_FIRST),
        as_document(NEWEST_FIRST),
        as_lines([NEWEST_FIRST]),
        as_document({"runs": NEWEST_FIRST, "cursors": {}}),
        as_document(root() | {"child_runs": [tool("b", 2), tool("a", 1)]}),
        as_lines(
            [{key: given for key, given in each.items() if key != "dotted_order"} for each in NEWEST_FIRST]
        ),
    ],
)
def test_containers(data: bytes) -> None:
    items, notes = read(READER, data)
    assert tale(items) == TOLD
    assert not notes.counts


MESSAGE = {"content": "one", "type": "tool", "tool_call_id": "call_7", "status": "success"}
WRAPPED = {"lc": 1, "type": "constructor", "id": ["ToolMessage"], "kwargs": MESSAGE}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"inputs": {"input": '{"a":1}'}}, 't({"a":1}) =one'),
        ({"inputs": {"input": {"a": 1}}}, 't({"a":1}) =one'),
        ({"inputs": {"input": "plain"}}, 't("plain") =one'),
        ({"inputs": {"input": "x", "k": 1}}, 't({"input":"x","k":1}) =one'),
        ({"outputs": {"output": MESSAGE}}, 't({"a":1}) =one'),
        ({"outputs": {"output": WRAPPED}}, 't({"a":1}) =one'),
        ({"outputs": {"output": MESSAGE | {"status": "error"}}}, 't({"a":1}) !one'),
        ({"outputs": {"rows": [1]}}, 't({"a":1}) ={"rows":[1]}'),
        ({"outputs": {"output": {"content": "x"}}}, 't({"a":1}) ={"content":"x"}'),
        ({"outputs": None, "error": "no file", "status": "error"}, 't({"a":1}) !no_file'),
        ({"outputs": {}, "status": "error"}, 't({"a":1}) !error'),
        ({"outputs": {"output": "Error: no flag"}}, 't({"a":1}) =Error:_no_flag'),
        ({"outputs": None}, 't({"a":1})'),
    ],
)
def test_arguments_and_results(more: dict[str, Any], expected: str) -> None:
    items, _ = read(READER, as_lines([tool("t", 1, **more)]))
    assert tale(items) == expected


def test_the_id_of_the_call_stands_in_its_result() -> None:
    items, _ = read(READER, as_lines([tool("t", 1, outputs={"output": MESSAGE})]))
    assert events(items, ToolCall)[0].call_id == "call_7"


def test_tokens_of_parents_are_sums() -> None:
    tokens = {"prompt_tokens": 10, "completion_tokens": 2}
    runs = [
        root(prompt_tokens=20, completion_tokens=4),
        run("m", "llm", 1, **tokens),
        tool("a", 2),
        tool("b", 2),
        run("n", "llm", 3, outputs={"usage_metadata": {"input_tokens": 10, "output_tokens": 2}}),
    ]
    items, _ = read(READER, as_lines(runs))
    assert tale(items) == 'u a({"a":2}) b({"a":2}) =one =one $10/2 $10/2'
    assert turns(items) == [["a", "b"]]


def lc(kind: str, **fields: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["x"], "kwargs": {"type": kind} | fields}


CALL = {"name": "read", "args": {"a": 1}, "id": "c"}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"messages": [[lc("system", content="s"), lc("human", content="go")]]},
            {"generations": [[{"message": lc("ai", content="", tool_calls=[CALL])}]]},
        ),
        (
            {"messages": [{"type": "human", "content": "go"}]},
            {"messages": [{"type": "ai", "content": "", "tool_calls": [CALL]}]},
        ),
        (
            {"messages": [{"role": "user", "content": "go"}]},
            {
                "choices": [
                    {
                        "message": {
                            "tool_calls": [{"id": "c", "function": {"name": "read", "arguments": '{"a":1}'}}]
                        }
                    }
                ]
            },
        ),
    ],
)
def test_calls_in_messages(told: dict[str, Any], said: dict[str, Any]) -> None:
    if "choices" in said:
        said["choices"][0]["message"]["role"] = "assistant"
    history = [*(told["messages"][0] if isinstance(told["messages"][0], list) else told["messages"])]
    history += [{"type": "ai", "content": "", "tool_calls": [CALL]}, MESSAGE | {"tool_call_id": "c"}]
    runs = [
        root(),
        run("m", "llm", 1, inputs=told, outputs=said),
        run("n", "llm", 2, inputs={"messages": history}),
    ]
    items, _ = read(READER, as_lines(runs))
    assert tale(items) == 'u read({"a":1}) =one'


def test_threads_and_sub_agents() -> None:
    metadata = {"extra": {"metadata": {"thread_id": "chat"}}}
    later = {"start_time": "2026-01-01T00:01:00", "dotted_order": "20260101T000100Zr2"}
    other = root() | {"id": "r2", "trace_id": "r2"} | later | metadata
    runs = [
        root(**metadata),
        tool("task", 1),
        run("graph", "chain", 2, parent_run_id="task"),
        run("step", "chain", 2, parent_run_id="graph"),
        tool("inner", 3, parent_run_id="step"),
        other,
    ]
    items, _ = read(READER, as_lines(runs))
    assert tales(items) == ['u task({"a":1}) =one u', 'inner({"a":3}) =one']
    starts = [(item.stream, item.parent) for item in items if isinstance(item, StreamStart)]
    assert starts == [("chat", None), ("chat/graph", "chat")]


def test_lines_that_are_no_runs_are_counted() -> None:
    data = as_lines([tool("a", 1)]) + b"{broken\n" + as_lines([{"other": 1}, 7])
    items, notes = read(READER, data)
    assert tale(items) == 'a({"a":1}) =one'
    assert notes.counts == {"bad_line": 2, "unknown_record": 1}
    assert notes.first_line["bad_line"] == 2


@pytest.mark.parametrize("sample", other_samples("langsmith"))
def test_no_other_sample_is_taken(sample: str) -> None:
    assert not READER.sniff(Source(SAMPLES / sample))


@pytest.mark.parametrize("value", [[], {}, {"runs": []}, {"run_type": "tool"}, [1], "x"])
def test_what_is_no_run(value: object) -> None:
    assert not READER.sniff(source_of(as_document(value)))


def test_damage() -> None:
    said = {"generations": [[{"message": lc("ai", content="", tool_calls=[CALL])}]]}
    told = {"messages": [[lc("human", content="go")]]}
    runs = [root(extra={"metadata": {"thread_id": "t"}}), run("m", "llm", 1, inputs=told, outputs=said)]
    assert_survives_damage(READER, runs, lines=True)
    assert_survives_damage(
        READER, [root() | {"child_runs": [tool("a", 1, outputs={"output": WRAPPED})]}], lines=False
    )


def test_runs_may_hold_json_of_any_depth() -> None:
    deep = json.loads("[" * 500 + "]" * 500)
    items, _ = read(READER, as_lines([tool("a", 1, inputs={"a": deep}, outputs={"output": {"b": deep}})]))
    assert len(events(items, ToolCall)) == 1
