"""Whatever goes wrong, the agent goes on, and one line says why."""

from __future__ import annotations

import os
import sqlite3
import stat
from typing import TYPE_CHECKING

import pytest

from loopwarden.hooks.answering import Answering
from loopwarden.hooks.answers import SILENCE
from loopwarden.hooks.faults import faults, note_fault
from loopwarden.hooks.hosts import HOSTS
from tests.hooks.agents import Agent, Heard

if TYPE_CHECKING:
    from pathlib import Path

PAYLOADS = [
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'"PreToolUse"',
    b"[" * 100_000,
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
]
ODD = [
    b"{}",
    b'{"hook_event_name": 5}',
    b'{"hook_event_name": "PreToolUse"}',
    b'{"hook_event_name": "PreToolUse", "tool_name": null, "session_id": []}',
    b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": "\\ud800", "session_id": 7}',
    b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": 1e999, "session_id": "\\ud800"}',
    b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": {"a": 1}, "prompt_id": 1.5}',
    b'{"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "x", "tool_response": {}}',
    b'{"hook_event_name": "PostToolBatch", "tool_calls": [null, 5, {}, {"tool_name": "x"}]}',
    b'{"hook_event_name": "PostToolBatch", "tool_calls": "all"}',
    b'{"hook_event_name": "BeforeModel", "llm_request": {"messages": 5}}',
    b'{"hook_event_name": "pre_tool_call", "extra": []}',
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_no_event_is_told_and_passed_over(tmp_path: Path, host: str, payload: bytes) -> None:
    answering = Answering(tmp_path)
    assert answering.answer(host, payload, {}) == SILENCE
    answering.close()
    (line,) = faults(tmp_path)
    assert f"{host}: the event is " in line


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("payload", ODD, ids=range(len(ODD)))
def test_odd_events_are_read_as_far_as_they_go(tmp_path: Path, host: str, payload: bytes) -> None:
    answering = Answering(tmp_path)
    assert answering.answer(host, payload, {}) == SILENCE
    answering.close()
    assert faults(tmp_path) == []


def test_an_unknown_host_is_told(tmp_path: Path) -> None:
    answering = Answering(tmp_path)
    assert answering.answer("emacs", b"{}", {}) == SILENCE
    answering.close()
    assert "'emacs' is no host; known: claude-code, codex, " in faults(tmp_path)[0]


def test_a_session_that_can_not_be_read_begins_afresh(tmp_path: Path) -> None:
    answering = Answering(tmp_path)
    agent = Agent("claude-code", answering.answer)
    for _ in range(19):
        agent.call("Bash", {"command": "ls"}, "same")
    with sqlite3.connect(tmp_path / "sessions.db") as connection:
        connection.execute("UPDATE sessions SET data = ?", (b'{"calls": 5}',))
    connection.close()
    agent.call("Bash", {"command": "ls"}, "same")
    assert agent.call("Bash", {"command": "ls"}, "same").decision == "deny"
    answering.close()
    assert faults(tmp_path) == []


def test_a_wrong_configuration_lets_the_call_run_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json5"
    path.write_text("{enabled: true, warningThreshold: 'many'}")
    answering = Answering(tmp_path)
    agent = Agent("claude-code", answering.answer, variables={"LOOPWARDEN_CONFIG": str(path)})
    assert agent.call("Bash", {"command": "ls"}, "same") == Heard()
    answering.close()
    assert "warningThreshold" in faults(tmp_path)[0]


def test_the_file_of_faults_is_for_its_owner_and_bounded(tmp_path: Path) -> None:
    for number in range(5000):
        note_fault(tmp_path, f"{number} " + "x\n\x1b" * 100)
    path = tmp_path / "faults.log"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size <= 257 * 1024
    lines = faults(tmp_path, 10_000)
    assert len(lines) > 100
    assert " 4999 " in lines[-1]
    assert all(line.isprintable() and line[:2] == "20" for line in lines)
    assert [name for name in os.listdir(tmp_path) if name != "faults.log"] == []  # noqa: PTH208 - names
