"""The plug-ins in JavaScript, in Node.js, with stand-ins for the programs that load them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import loopwarden
import loopwarden_hook
from loopwarden.hooks.faults import faults
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.ledger import Ledger
from loopwarden.hooks.places import SESSIONS_FILE, SOCKET_FILE
from loopwarden.hooks.plugins import PLUGINS
from loopwarden.hooks.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")

STAND_INS = Path(__file__).parent / "stand_ins"
HOOK = (sys.executable, "-c", "import sys, loopwarden_hook; sys.exit(loopwarden_hook.main())")
TIGHT = {
    "enabled": True,
    "warningThreshold": 2,
    "criticalThreshold": 3,
    "globalCircuitBreakerThreshold": 4,
    "refusedCallLimit": 2,
}
MOST_SECONDS = 60
WARNED = "called 2 times with the same arguments"
REFUSED = "was refused and did not run"
ENDED = "the run ends here"


class Program:
    """A program with the plug-in of a host installed; `run` runs it once.

    Args:
        host: The host.
        folder: Where it is installed and works; short enough for a socket.
        command: The hook command.
    """

    def __init__(self, host: str, folder: Path, command: Sequence[str] = HOOK) -> None:
        self.host, self.project, self.state = host, folder / "project", folder / "state"
        self.told: dict[str, list[str]] = {}
        self.service = "off"
        self.variables: dict[str, str] = {}
        self._plugins = folder / "plugins"
        self.project.mkdir()
        self.configure(TIGHT)
        for name, data in PLUGINS[host].contents(command).items():
            path = self._plugins / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(data, encoding="utf-8")
        self._library()

    @property
    def entry(self) -> Path:
        """The file that the program loads."""
        return self._plugins / PLUGINS[self.host].target

    def configure(self, settings: dict[str, Any]) -> None:
        block = {"tools": {"loopDetection": settings}}
        (self.project / "loopwarden.json5").write_text(json.dumps(block), encoding="utf-8")

    def run(self, *steps: dict[str, Any]) -> list[Any]:
        """The answers of the stand-in, one a step."""
        variables = {"LOOPWARDEN_STATE": str(self.state), "LOOPWARDEN_SERVICE": self.service}
        done = subprocess.run(
            [str(NODE), str(STAND_INS / f"{self.host}.mjs"), str(self.entry), str(self.project)],
            input=json.dumps(steps),
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "XDG_CONFIG_HOME": str(self.project), **variables, **self.variables},
            timeout=MOST_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        answer = json.loads(done.stdout)
        self.told = answer["told"]
        results: list[Any] = answer["results"]
        return results

    def _library(self) -> None:
        """What OpenClaw gives its plug-ins to import; and that they are modules, for an older Node.js."""
        (self._plugins / "package.json").write_text('{"type": "module"}', encoding="utf-8")
        folder = self._plugins / "node_modules" / "openclaw"
        folder.mkdir(parents=True)
        exports = {"./plugin-sdk/agent-harness": "./harness.mjs"}
        (folder / "package.json").write_text(json.dumps({"name": "openclaw", "exports": exports}))
        line = "export const abortAgentHarnessRun = (session) => globalThis.abortedRun(session);\n"
        (folder / "harness.mjs").write_text(line)


@pytest.fixture
def folder() -> Iterator[Path]:
    found = Path(tempfile.mkdtemp(prefix="loopwarden-", dir="/tmp"))
    yield found
    shutil.rmtree(found)


@pytest.fixture(params=PLUGINS)
def program(request: pytest.FixtureRequest, folder: Path) -> Program:
    return Program(request.param, folder)


@pytest.fixture
def opencode(folder: Path) -> Program:
    return Program("opencode", folder)


@pytest.fixture
def openclaw(folder: Path) -> Program:
    return Program("openclaw", folder)


@contextmanager
def served(program: Program) -> Iterator[None]:
    """A service for the program's state."""
    program.state.mkdir(mode=0o700)
    service = Service(program.state)
    program.service = "on"
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(service.serve)
        yield
        service.over.set()
        serving.result(MOST_SECONDS)


def call(output: str = "same", **fields: Any) -> dict[str, Any]:
    return {"step": "call", "output": output, **fields}


def fail(error: str = "not found", **fields: Any) -> dict[str, Any]:
    return {"step": "call", "error": error, **fields}


def ends(program: Program) -> list[dict[str, Any]]:
    """The step that waits for the end of the run, where that takes a moment."""
    return [{"step": "aborted"}] if program.host == "openclaw" else []


def texts(results: list[Any]) -> list[str]:
    return [result.get("output", result.get("refused", "")) for result in results if result]


def check_a_loop(program: Program) -> None:
    results = texts(program.run(*[call()] * 5, *ends(program)))
    assert results[:2] == ["same"] * 2
    assert results[2].startswith("same\n")
    assert WARNED in results[2]
    assert REFUSED in results[3]
    assert ENDED in results[4]
    assert program.told["aborted"] in (["s1"], ["s1-1"])
    said = " ".join(program.told.get("toasts", program.told.get("warnings", [])))
    assert "loopwarden allow repeat:" in said
    assert "loopwarden pause s1" in said
    assert faults(program.state) == []


def test_a_loop_is_told_refused_and_ended_by_the_command(program: Program) -> None:
    check_a_loop(program)


def test_a_loop_is_told_refused_and_ended_by_the_service(program: Program) -> None:
    with served(program):
        check_a_loop(program)


def test_a_configuration_that_can_not_be_used_is_told_once_and_the_calls_run(program: Program) -> None:
    program.configure({"nosuch": 1})
    assert texts(program.run(*[call()] * 5)) == ["same"] * 5
    (said,) = program.told.get("toasts", program.told.get("warnings", []))
    assert "loopwarden does not guard this session" in said
    assert "tools.loopDetection.nosuch" in said
    program.configure(TIGHT)
    program.run(call())
    assert program.told.get("toasts", program.told.get("warnings", [])) == []


def test_work_is_untouched(program: Program) -> None:
    with served(program):
        results = program.run(*[call("passed", args={"command": f"test {n}"}) for n in range(30)])
    assert texts(results) == ["passed"] * 30
    assert program.told["aborted"] == []


@pytest.mark.parametrize("command", [["/nowhere/loopwarden-hook"], ["false"], ["echo", "no JSON"], ["true"]])
def test_whatever_is_wrong_with_the_command_the_calls_run(folder: Path, command: list[str]) -> None:
    program = Program("opencode", folder, command)
    assert texts(program.run(*[call()] * 8)) == ["same"] * 8
    assert program.told["aborted"] == []


def test_a_command_without_a_path_is_looked_for(folder: Path) -> None:
    program = Program("opencode", folder, ["loopwarden-hook"])
    found = folder / "loopwarden-hook"
    found.write_text('#!/bin/sh\necho \'{"decision": "refuse", "text": "found"}\'\n', encoding="utf-8")
    found.chmod(0o755)
    program.variables["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    assert program.run(call()) == [{"refused": "found"}]


@pytest.mark.parametrize(
    "answer", [b"", b"\n", b"0 5 0\nno", b"0 2 0\n[]", b"0 4 0\nnull", b"\xff" * 99, b"0 7 0\n{no json"]
)
def test_whatever_the_service_says_the_calls_run(folder: Path, answer: bytes) -> None:
    program = Program("opencode", folder, ["false"])
    program.service = "on"
    program.state.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(program.state / SOCKET_FILE))
        server.listen()
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                connection, _ = server.accept()
                with connection:
                    connection.recv(1024 * 1024)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert texts(program.run(call(), call())) == ["same"] * 2
        over.set()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(program.state / SOCKET_FILE))
            last.shutdown(socket.SHUT_WR)
            thread.join()


def test_a_tool_that_fails_is_seen(program: Program) -> None:
    with served(program):
        *failed, refused = program.run(*[fail()] * 3, call())
    assert not [result for result in failed if "refused" in result]
    assert REFUSED in refused["refused"]


def test_the_plug_ins_are_of_this_version() -> None:
    contents = PLUGINS["openclaw"].contents(['/a "b" \\1/loopwarden-hook'])
    whole = contents["extensions/loopwarden/openclaw.js"]
    assert json.loads(contents["extensions/loopwarden/package.json"])["version"] == loopwarden.__version__
    assert f'const VERSION = "{loopwarden.__version__}"' in whole
    assert 'const COMMAND = ["/a \\"b\\" \\\\1/loopwarden-hook"];' in whole
    assert "ask.js" not in whole
    passed_on = [name for name in loopwarden_hook.PASSED_ON if name.startswith("LOOPWARDEN_")]
    assert f"const PASSED_ON = {json.dumps(passed_on)};" in whole
    assert {name for name, row in HOSTS.items() if row.dialect == "plugin"} == set(PLUGINS)


def test_a_loop_that_outlives_a_compaction_is_ended(program: Program) -> None:
    program.configure({"enabled": True})
    steps = {
        "opencode": {"step": "event", "type": "session.compacted", "properties": {"sessionID": "s1"}},
        "openclaw": {"step": "compacted", "count": 5},
    }
    with served(program):
        results = program.run(call(), call(), steps[program.host], *[call()] * 3, *ends(program))
    assert texts(results)[:4] == ["same"] * 4
    assert texts(results)[4] != "same"
    assert len(program.told["aborted"]) == 1


def test_compactions_without_work_end_the_run(opencode: Program) -> None:
    opencode.configure({"enabled": True})
    compaction = {"step": "event", "type": "session.compacted", "properties": {"sessionID": "s1"}}
    asked = [{"step": "request", "session": "s1"}, {"step": "params", "session": "s1"}]
    with served(opencode):
        results = opencode.run(call(), *[compaction, *asked] * 3)
    assert results[3::3] == ["asked", "asked", "held"]
    assert opencode.told["aborted"] == ["s1"]


def test_a_compaction_that_left_nothing_out_is_none(openclaw: Program) -> None:
    openclaw.configure({"enabled": True})
    with served(openclaw):
        results = openclaw.run(call(), {"step": "compacted", "count": 0}, *[call()] * 5)
    assert texts(results) == ["same"] * 6


def test_opencode_tells_the_model_of_an_error_whenever_it_asks(opencode: Program) -> None:
    request = {"step": "request", "session": "s1"}
    with served(opencode):
        *_, first, second = opencode.run(*[fail()] * 3, request, request)
    assert first == second
    assert first[:2] == ["not found"] * 2
    assert first[2].startswith("not found\n")
    assert WARNED in first[2]


def test_opencode_calls_that_a_person_stopped_count_for_nothing(opencode: Program) -> None:
    with served(opencode):
        results = opencode.run(*[fail("aborted", interrupted=True)] * 8)
    assert {result.get("error") for result in results} == {"aborted"}


def test_opencode_tools_of_a_server_have_lists_of_contents(opencode: Program) -> None:
    content = [{"type": "text", "text": "same"}]
    with served(opencode):
        results = opencode.run(*[call(content=content)] * 4)
    assert [len(result["content"]) for result in results[:3]] == [1, 1, 2]
    assert WARNED in results[2]["content"][1]["text"]
    assert REFUSED in results[3]["refused"]


def test_opencode_tools_that_do_not_exist_have_their_own_names(opencode: Program) -> None:
    error = "Model tried to call unavailable tool 'serach'. Available tools: read, bash."
    tried = call("invalid", tool="invalid", args={"tool": "serach", "error": error})
    with served(opencode):
        opencode.run(*[tried] * 12)
    ledger = Ledger(opencode.state / SESSIONS_FILE)
    assert {deed.tool for deed in ledger.deeds(0)} == {"serach"}
    ledger.close()


def test_opencode_sub_agents_and_messages_are_runs_of_their_own(opencode: Program) -> None:
    message = {"step": "message", "session": "s1"}
    with served(opencode):
        results = opencode.run(
            {**message, "id": "u1"},
            *[call()] * 2,
            *[call(session="child")] * 2,
            {**message, "id": "u2"},
            *[call()] * 2,
            *[call(session="child")] * 2,
        )
    given = texts(results)
    assert given[:6] == ["same"] * 6
    assert WARNED in given[6]
    assert REFUSED in given[7]
    ledger = Ledger(opencode.state / SESSIONS_FILE)
    assert {session.name for session, _, _ in ledger.sessions(0)} == {"s1"}
    ledger.close()


def test_opencode_sessions_that_are_deleted_leave_no_evidence(opencode: Program) -> None:
    deleted = {"step": "event", "type": "session.deleted", "properties": {"info": {"id": "s1"}}}
    with served(opencode):
        results = opencode.run(call(), call(), deleted, call(), call())
    assert texts(results) == ["same"] * 4


def test_openclaw_sessions_end_but_not_with_a_compaction(openclaw: Program) -> None:
    with served(openclaw):
        over = openclaw.run(call(), call(), {"step": "end", "reason": "new"}, call(), call())
        goes_on = openclaw.run(*[call(run="r2")] * 2, {"step": "end", "reason": "compaction"}, call(run="r2"))
    assert texts(over) == ["same"] * 4
    assert WARNED in texts(goes_on)[2]


def test_openclaw_runs_and_sessions_are_apart(openclaw: Program) -> None:
    with served(openclaw):
        results = openclaw.run(*[call(run=f"r{number}", key=f"s{number}") for number in range(8)])
        results += openclaw.run(*[call(run=f"q{number}") for number in range(8)])
    assert texts(results) == ["same"] * 16


@pytest.mark.parametrize("decision", ["allow-once", "deny"])
def test_openclaw_asks_a_person_who_is_there(openclaw: Program, decision: str) -> None:
    openclaw.configure({**TIGHT, "onCritical": "ask"})
    openclaw.variables["LOOPWARDEN_ATTENDED"] = "1"
    with served(openclaw):
        *_, asked, then = openclaw.run(*[call()] * 3, call(decision=decision), call(decision="deny"))
    if decision == "deny":
        assert "loopwarden allow repeat:" in asked["asked"]
        assert "asked" in then or "refused" in then
    else:
        assert asked == {"output": "same"}
        assert then == {"output": "same"}
