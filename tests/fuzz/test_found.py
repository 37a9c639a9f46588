"""What mutants brought to light, each in its shortest form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from loopwarden.config import load_config
from loopwarden.errors import ConfigError, TranscriptError
from loopwarden.events import ToolCall
from loopwarden.transcripts import FORMATS, Recorded, Spent, StreamStart, read, registry
from tests.fuzz.judge import judged
from tests.fuzz.test_readers import play

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loopwarden.transcripts import Item, ReadNotes, Source

TOOL_USE: Final = {"type": "tool_use", "timestamp": 1, "part": {"type": "tool", "tool": "a", "state": {}}}

TURNS: Final = {"actions": ["a"], "observations": ["b"]}
TOOL_PART: Final = {"type": "tool_use", "name": "\ud800"}


def _items(path: Path, name: str, *lines: object) -> list[Item]:
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return judged(path, format=name, streamed=False)


def test_an_action_without_a_name_is_none(tmp_path: Path) -> None:
    events = [
        {"source": "agent", "action": name, "args": {}, "id": place} for place, name in enumerate(("run", ""))
    ]
    items = _items(tmp_path / "run", "openhands", events)
    tools = [
        item.event.tool for item in items if isinstance(item, Recorded) and isinstance(item.event, ToolCall)
    ]
    assert tools == ["run"]


def test_names_of_streams_can_be_written(tmp_path: Path) -> None:
    document = {
        "1\ud800": {
            "turn_history": {"actions": ["a"], "observations": ["b"]},
            "query": "q",
            "environment": "sql",
        }
    }
    items = _items(tmp_path / "run", "intercode", document)
    assert [item.stream for item in items if isinstance(item, StreamStart)] == ["task_1?"]


def test_a_session_without_a_name_is_none(tmp_path: Path) -> None:
    named, nameless = ({"sessionID": name} | TOOL_USE for name in ("x", ""))
    items = _items(tmp_path / "run", "opencode", named, nameless)
    assert [item.stream for item in items if isinstance(item, StreamStart)] == ["x"]


@pytest.mark.parametrize(
    ("name", "line", "tool"),
    [
        ("gemini-cli", {"history": [{"role": "model", "parts": [{"functionCall": {"name": 7}}]}]}, "7"),
        ("intercode", {"1": {"environment": "ic_", "turn_history": TURNS}}, "action"),
        ("swe-agent", {"trajectory": [{"action": "\ud800 x", "observation": ""}]}, None),
        ("claude-code", {"type": "assistant", "message": {"content": [TOOL_PART]}}, "?"),
    ],
)  # fmt: skip
def test_names_of_tools_are_text(name: str, line: Any, tool: str | None, tmp_path: Path) -> None:
    items = _items(tmp_path / "run", name, line)
    tools = [
        item.event.tool for item in items if isinstance(item, Recorded) and isinstance(item.event, ToolCall)
    ]
    assert tools
    assert tool is None or tools == [tool]


@pytest.mark.parametrize("tokens", [10**40, 1e300, -5, "7", None])
def test_numbers_of_tokens_that_are_none(tokens: Any, tmp_path: Path) -> None:
    part = {"type": "step-finish", "tokens": {"input": tokens, "output": 3}}
    items = _items(tmp_path / "run", "opencode", {"sessionID": "x", "part": part} | TOOL_USE | {"part": part})
    assert [item.input_tokens for item in items if isinstance(item, Spent)] == [0]


DEEP: Final = 1_000
HERMES: Final = (
    '{"id": "a", "parent_session_id": null, "started_at": 1,'
    ' "messages": [{"role": "assistant", "tool_calls": DEEP}]}'
)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("events", '{"type": "call", "id": "1", "tool": "t"}\n{"type": "outcome", "id": "1", "error": DEEP}'),
        ("claude-code", '{"type": "user", "message": {"content": [{"type": "tool_result"},{"type":DEEP}]}}'),
        ("claude-code", '{"type": "user", "isSidechain": true, "uuid": DEEP, "message": {"content": ""}}'),
        ("anthropic-messages", '{"messages": [{"role": "user", "content": [{"type": DEEP}]}]}'),
        ("hermes", HERMES),
        ("intercode", '{"1": {"turn_history": {"actions": ["a"], "observations": [DEEP]}}}'),
    ],
)  # fmt: skip
def test_what_is_too_deep_for_python_is_borne(name: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text(line.replace("DEEP", "[" * DEEP + "]" * DEEP))
    assert judged(path, format=name, streamed=False)


def test_deep_arguments_are_scanned(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    deep = "[" * DEEP + "]" * DEEP
    path.write_text(f'{{"type": "call", "id": "1", "tool": "t", "args": {{"a": {deep}}}}}\n')
    play(path, "events")


class _Failing:
    """A reader with a fault."""

    name = "failing"
    title = "fault"

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def sniff(self, _: Source) -> bool:
        """See `Reader.sniff`."""
        return True

    def read(self, _: Source, __: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`."""
        yield StreamStart(stream="a", title="a")
        raise self._fault


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (KeyError("a\n\x1b[31m" * 9_000), "could not be read as fault"),
        (MemoryError(), "needs more memory than there is"),
    ],
)
def test_a_fault_of_a_reader_is_one_short_line(
    fault: Exception, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a\x1b[31m\nb"
    path.write_text("x")
    monkeypatch.setattr(registry, "FORMATS", (*FORMATS, _Failing(fault)))
    with pytest.raises(TranscriptError, match=words) as raised:
        list(read(path).items)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 800


AGENT: Final = {"tools": {"loopDetection": {"warningThreshold": 50}}}


@pytest.mark.parametrize("name", ["\0", "a\nb", "\x1b[2J", "x" * 5_000])
def test_names_of_agents_are_safe_in_warnings(name: str) -> None:
    config = load_config({"agents": {"list": [{"id": name} | AGENT]}})
    assert config.agent_ids == (name,)
    for text in (*map(str, config.warnings), *(one.origin for one in config.explain(name))):
        assert text.isprintable()
        assert len(text) < 300


def test_patterns_are_safe_in_faults() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config({"toolProfiles": {"a": {"ignoreText": ["[b-\x1b[31m]"]}}})
    assert all(str(problem).isprintable() for problem in raised.value.problems)


def test_a_file_of_any_name_is_safe_in_faults(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "a\x1b[31m.json5")
    assert "\x1b" not in str(raised.value)
