"""Commands that are started without standard input, output or error, as jobs of a service may be."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes streams")

CLOSED = "loopwarden: standard output: it is closed\n"

LOOPWARDEN = shlex.join([sys.executable, "-m", "loopwarden"])

CALL = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {}}}\n'

SERVER = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"content": []}}), flush=True)
"""


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the machine's configuration and state."""
    monkeypatch.delenv("LOOPWARDEN_CONFIG", raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("LOOPWARDEN_SERVICE", "off")
    monkeypatch.chdir(tmp_path)


def shell(command: str, given: str = "", code: int = 0) -> tuple[str, str]:
    """What a command wrote to standard output and error."""
    words = ["sh", "-c", f"exec {command}"]
    ended = subprocess.run(words, input=given, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code, ended.stderr
    return ended.stdout, ended.stderr


@pytest.mark.parametrize("command", ["--version", "--help", "explain ping_pong", "config check", "status"])
def test_what_can_not_be_printed_is_a_fault(command: str) -> None:
    assert shell(f"{LOOPWARDEN} {command} >&-", code=2) == ("", CLOSED)


def test_without_any_stream_the_exit_code_is_what_is_left() -> None:
    assert shell(f"{LOOPWARDEN} explain ping_pong <&- >&- 2>&-", code=2) == ("", "")
    assert shell(f"{LOOPWARDEN} mcp <&- >&- 2>&- -- sh -c 'exit 7'", code=7) == ("", "")


def test_a_command_that_prints_nothing_ends_as_ever(tmp_path: Path) -> None:
    record = tmp_path / "runs.jsonl"
    assert "no such file" in shell(f"{LOOPWARDEN} runs list --record {record} >&-", code=2)[1]
    assert "No such command" in shell(f"{LOOPWARDEN} nonsense >&-", code=2)[1]
    assert shell(f"{LOOPWARDEN} mcp >&- -- sh -c 'exit 7'", code=7) == ("", "")


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_what_is_needed_is_there(closed: str) -> None:
    out, err = shell(f"{LOOPWARDEN} explain ping_pong {closed}")
    assert out.startswith("# ")
    assert err == ""


def test_an_input_that_is_closed_is_empty() -> None:
    assert shell(f"{LOOPWARDEN} scan - <&-") == shell(f"{LOOPWARDEN} scan - </dev/null")


def test_the_proxy_without_streams(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    command = f"{LOOPWARDEN} mcp --store sqlite:guard.db -- {sys.executable} server.py"
    assert json.loads(shell(f"{command} 2>&-", CALL)[0])["id"] == 1
    for closed in (">&-", "<&-", "<&- >&- 2>&-"):
        out, err = shell(f"{command} {closed}", CALL)
        assert (out, "Traceback" in err) == ("", False)
    with sqlite3.connect(tmp_path / "guard.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_a_gateway_without_streams(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs the extra gateway")
    command = f"{LOOPWARDEN} gateway --port 0 --state {tmp_path / 'state'}"
    assert "Traceback" not in shell(f"{command} >&-", code=2)[1]
    words = ["sh", "-c", f"exec {command} <&- 2>&-"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("listening on http://")
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, 143, -signal.SIGTERM)


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_the_hook_without_streams(tmp_path: Path, closed: str) -> None:
    event = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"x": 1}}
    entry = f"{shlex.quote(sys.executable)} -c 'import loopwarden_hook as hook; hook.main()' claude-code"
    for number in range(2):
        given = json.dumps({**event, "tool_use_id": f"t{number}"})
        assert shell(f"{entry} {closed}", given) == ("", "")
    for found in (tmp_path / "loopwarden" / "hooks").glob("*.db"):
        database = sqlite3.connect(found)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        database.close()


def test_a_file_never_takes_the_place_of_a_stream(tmp_path: Path) -> None:
    """A program that is started from here would write into it."""
    code = (
        "import os, subprocess, sys\n"
        "from loopwarden.cli.streams import open_streams\n"
        "open_streams()\n"
        "kept = open('kept.txt', 'w')\n"
        "subprocess.run([sys.executable, '-c', 'print(1)'], check=False)\n"
        "print(kept.fileno() > 2, file=kept)\n"
    )
    (tmp_path / "code.py").write_text(code, encoding="utf-8")
    shell(f"{sys.executable} code.py <&- >&- 2>&-")
    assert (tmp_path / "kept.txt").read_text(encoding="utf-8") == "True\n"
