"""`loopwarden replay`: a file at once, and events as they come."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by every test
from tests.scan.recordings import lines, write

if TYPE_CHECKING:
    from pathlib import Path


def test_replay_gives_a_line_for_each_event(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "a" * 25)
    config = tmp_path / "on.json5"
    config.write_text("{ enabled: true }")
    code, out, _ = run("replay", path, "--config", config)
    records = [json.loads(line) for line in out.splitlines()]
    calls = [record for record in records if record["type"] == "call"]
    assert code == 0
    assert (len(records), len(calls)) == (50, 25)
    assert [calls[place]["action"] for place in (0, 9, 10, 20, 24)] == [
        "allow",
        "allow",
        "warn",
        "block",
        "block",
    ]
    assert calls[20]["detector"] == "generic_repeat"
    assert "result of" not in out
    assert run("replay", path, "--config", config, "--mode", "observe")[1].count('"would":"block"') == 5


@pytest.mark.parametrize(
    ("enabled", "mode", "said"),
    [
        (None, "enforce", "`enabled` is not set, so repeated calls will not be refused (`would` says which"),
        (None, "observe", ""),
        (True, "enforce", ""),
        (False, "enforce", "switches all detectors off (enabled: false), so nothing will be refused"),
    ],
)
def test_replay_says_if_nothing_will_be_refused(
    tmp_path: Path, enabled: bool | None, mode: str, said: str
) -> None:
    config = tmp_path / "c.json5"
    config.write_text("{}" if enabled is None else json.dumps({"enabled": enabled}))
    code, _, err = run("replay", write(tmp_path / "a.jsonl", "ab"), "--config", config, "--mode", mode)
    assert code == 0
    assert said in err
    assert err.count("\n") == bool(said)


def test_replay_reads_standard_input() -> None:
    code, out, _ = run("replay", "-", given=lines("ab"))
    assert code == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["c0", "c0", "c1", "c1"]


def test_replay_says_what_is_wrong(tmp_path: Path) -> None:
    code, out, err = run("replay", tmp_path / "none.jsonl", "--mode", "observe")
    assert (code, out) == (2, "")
    assert err == f"loopwarden: {tmp_path / 'none.jsonl'}: No such file or directory\n"


def test_replay_says_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.events.jsonl"
    path.write_text(lines("ab") + "this is none\n")
    code, out, err = run("replay", path, "--mode", "observe")
    assert (code, len(out.splitlines()), err) == (0, 4, "1: lines that are no valid record\n")


def test_replay_reads_other_formats_from_standard_input() -> None:
    record = json.dumps({"messages": [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
    ]})  # fmt: skip
    code, out, _ = run("replay", "-", "--format", "openai-chat", given=record)
    assert code == 0
    assert [json.loads(line)["type"] for line in out.splitlines()] == ["call", "outcome"]


@pytest.fixture
def child(tmp_path: Path) -> Any:
    config = tmp_path / "on.json5"
    config.write_text("{ enabled: true, warningThreshold: 2 }")
    command = [sys.executable, "-m", "loopwarden", "replay", "-", "--config", str(config)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def test_each_line_is_answered_before_the_next_one_comes(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin
    assert child.stdout
    assert child.stderr

    def ask(line: str) -> dict[str, Any]:
        assert child.stdin
        assert child.stdout
        child.stdin.write(line.encode() + b"\n")
        child.stdin.flush()
        answer: dict[str, Any] = json.loads(child.stdout.readline())
        return answer

    actions = []
    for number in range(3):
        call = {"type": "call", "id": f"c{number}", "tool": "look", "args": {}}
        actions.append(ask(json.dumps(call))["action"])
        if number == 1:
            assert ask("what?") == {"error": "no valid JSON", "line": 4}
        assert ask(json.dumps({"type": "outcome", "id": f"c{number}", "result": "r"}))["action"] == "allow"
    assert actions == ["allow", "allow", "warn"]
    child.stdin.close()
    assert (child.stdout.read(), child.stderr.read(), child.wait(60)) == (b"", b"", 0)
