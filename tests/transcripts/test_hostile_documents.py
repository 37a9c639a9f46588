"""Documents that are damaged in every way: a clear error or a note, never another exception."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import (
    atif,
    inspect_ai,
    intercode,
    mini_swe_agent,
    react_text,
    swe_agent,
    tau2_bench,
    tau_bench,
)
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.source import Source
from tests.transcripts.facts import SAMPLES, streams
from tests.transcripts.written import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Reader

READERS = {
    module.READER.name: module.READER
    for module in (
        atif,
        inspect_ai,
        intercode,
        mini_swe_agent,
        react_text,
        swe_agent,
        tau2_bench,
        tau_bench,
    )
}
FOLDERS = {name: "inspect" if name == "inspect-ai" else name for name in READERS}
FILES = [path for path in sorted(SAMPLES.rglob("*")) if path.is_file() and path.name != "SOURCES.md"]
SMALL = {  # one document of each JSON format, short enough to be damaged in every place
    "atif": "atif/harbor_terminus2_timeout.trajectory.json",
    "inspect-ai": "inspect/log_tool_call_error.json",
    "intercode": "intercode/sql_chat-bison_handicap_12.json",
    "mini-swe-agent": "mini-swe-agent/v2_pydicom-1139_head.traj.json",
    "swe-agent": "swe-agent/function_calling_simple.traj",
    "tau-bench": "tau-bench/gpt-4o-airline_tasks9_13_20.json",
    "tau2-bench": "converted/tau2-bench/results.json",
}
WRONG: list[Any] = [None, 0, -1, 1.5, True, "", "x", [], {}, [[]], [{}], {"a": {}}, [None, 1, "x"], 10**30]


def exhaust(reader: Reader, source: Source) -> None:
    refused = None
    try:
        streams(reader.read(source, ReadNotes()))
    except TranscriptError as error:
        refused = error
    assert refused is None or "\n" not in refused.reason


@pytest.mark.parametrize("name", READERS)
def test_every_sample_is_known_by_its_own_reader_only(name: str) -> None:
    for path in FILES:
        own = path.relative_to(SAMPLES).parts[-2] == FOLDERS[name]
        assert READERS[name].sniff(Source(path)) is own, path


@pytest.mark.parametrize("name", READERS)
def test_every_reader_bears_the_files_of_all_others(name: str) -> None:
    for path in FILES:
        exhaust(READERS[name], Source(path))


def places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every container with one of its keys or indexes; of a long list only the first elements."""
    keys = list(value) if isinstance(value, dict) else list(range(min(len(value), 3)))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list) and depth < 9:
            yield from places(value[key], depth + 1)


@pytest.mark.parametrize("name", SMALL)
def test_wrong_types_in_every_place(name: str) -> None:
    document = json.loads((SAMPLES / SMALL[name]).read_bytes())
    for number, (container, key) in enumerate(list(places(document))):
        right = container[key]
        for wrong in (WRONG[number % len(WRONG)], WRONG[(number * 5 + 3) % len(WRONG)]):
            container[key] = wrong
            exhaust(READERS[name], written(document))
        container[key] = right


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("part", [0, 1, 0.01, 0.3, 0.9, 0.999])
def test_cut_documents(name: str, part: float) -> None:
    data = (SAMPLES / SMALL[name]).read_bytes()
    source = written(data[: int(len(data) * part)])
    READERS[name].sniff(source)
    exhaust(READERS[name], source)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"steps":' * 50_000,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"[" * 1_000 + b"]" * 1_000,
        b'{"steps": [' + b"null," * 1_000 + b"null]}",
        b'{"trajectory": [{"action": NaN}], "simulations": [NaN], "steps": [Infinity]}',
        b'{"steps": [{"source": "agent", "message": "\\ud83d"}], "history": ["\\ud83d"]}',
        b"\xff\xfe\x00",
        b"PK\x03\x04 no archive",
        b"PK\x05\x06" + bytes(18),
        b"",
    ],
)
def test_hostile_bytes(name: str, data: bytes) -> None:
    reader = READERS[name]
    reader.sniff(written(data))
    exhaust(reader, written(data))


KEYS = (
    "action",
    "actions",
    "agent",
    "arguments",
    "attachments",
    "call_id",
    "command",
    "content",
    "error",
    "eval",
    "event",
    "events",
    "extra",
    "function",
    "function_name",
    "given",
    "history",
    "id",
    "info",
    "messages",
    "metrics",
    "name",
    "observation",
    "observations",
    "output",
    "result",
    "results",
    "role",
    "samples",
    "simulations",
    "source",
    "source_call_id",
    "steps",
    "task_id",
    "tool_call_id",
    "tool_call_ids",
    "tool_calls",
    "traj",
    "trajectory",
    "trial",
    "turn_history",
    "type",
    "usage",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(value=JSON)
def test_any_json_is_read_or_refused(name: str, value: object) -> None:
    exhaust(READERS[name], written(value))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([
    "Act 1: a", "Act 2:", "Obs 1: b", "Obs 2:", "Action: f", "Action Input: {", "Action Input:",
    "Observation:", "Observation: x", "Thought: t", "Question: q", "Final Answer: a", "Your task is to: t",
    "> go", "more", "You are in the middle of a room", "> Entering new x chain", "> Finished chain.",
    "a-b/trial_T1", "-----1st LLM output start-----", "-----1st LLM output end-----",
]), max_size=14), st.booleans())  # fmt: skip
def test_any_log_is_read(lines: list[str], labelled: bool) -> None:
    if labelled:
        lines = ["Act 1: a", "Obs 1: b", *lines]
    exhaust(READERS["react-text"], written(*lines))


def test_a_cut_gzip_file(tmp_path: Any) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress((SAMPLES / SMALL["swe-agent"]).read_bytes())[:-20])
    with pytest.raises(TranscriptError):
        list(READERS["swe-agent"].read(Source(path), ReadNotes()))
