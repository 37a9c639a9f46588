"""Start, end, crash, and start again; one gateway a folder; a disk that is full."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

import httpx2

from loopwarden.records import read
from tests.gateway.processes import PATIENCE, SMALL, GatewayProcess, before, loop, said, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and modes of files")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def stored(folder: Path) -> Callable[[], bool]:
    """Whether the writing behind has caught up: nothing is being written for longer than its pause."""
    import sqlite3

    def states() -> list[Any]:
        with suppress(sqlite3.Error):
            connection = sqlite3.connect(folder / "gateway.db")
            try:
                return connection.execute("SELECT name, changed FROM runs").fetchall()
            finally:
                connection.close()
        return []

    return lambda: bool(states())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_when_told_to(tmp_path: Path, number: int) -> None:
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        before(client)
        assert process.stop(number) == 0
        assert not [line for line in process.logged if "Traceback" in line or "fault" in line]


def test_ends_when_told_to_at_once(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state") as process:
        assert process.stop() == 0


def test_everything_is_there_after_an_orderly_end(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert loop(client, range(5), "r", session="s", agent="a") == "...ww"
        assert loop(client, range(3), "r", session="other") == "..."
        token = process.token
        assert process.stop() == 0
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert process.token == token
        assert loop(client, range(5, 7), "r", session="s", agent="a") == "BB"
        assert loop(client, range(3, 6), "r", session="other") == "wwB"
        assert loop(client, range(3), "r") == "..."


def test_nothing_is_lost_by_an_end_under_load(tmp_path: Path) -> None:
    """Told to end while what was said is being written: of every event that was answered it knows later."""
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        for number in range(300):
            events: list[dict[str, Any]] = []
            for call in range(5):
                same = {"run": f"run-{number}", "call_id": f"c{call}"}
                events.append({"event": "before", "tool": "read", "arguments": {"path": "a"}, **same})
                events.append({"event": "after", "result": "same", **same})
            said(client.post("/v1/events", json={"events": events}))
        assert process.stop() == 0
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        actions = [before(client, 6, f"run-{number}")["action"] for number in range(300)]
    assert actions == ["block"] * 300


def test_forgotten_run_stays_forgotten(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert loop(client, range(5)) == "...ww"
        wait_until(stored(tmp_path / "state"))
        said(client.post("/v1/runs/r/forget"))
        assert process.stop() == 0
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert loop(client, range(3)) == "..."


def test_killed_gateway_keeps_what_was_written(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert loop(client, range(5)) == "...ww"
        wait_until(stored(tmp_path / "state"))
        marker = {"event": "compacted", "run": "marker"}  # a run that is written after the calls
        said(client.post("/v1/events", json={"events": [marker]}))
        wait_until(lambda: "marker" in names(tmp_path / "state"))
        process.process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert before(client, 6)["action"] == "block"


def test_event_sent_again_to_a_gateway_that_began_anew_counts_once(tmp_path: Path) -> None:
    path = "/v1/runs/compactions/compacted"
    for start in range(4):
        with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
            assert said(client.post(path, json={"event_id": "one"}))["action"] == "allow"
            if start == 0:
                assert loop(client, range(5)) == "...ww"
            assert before(client, 6)["action"] == "block"
            assert process.stop() == 0
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert said(client.post(path, json={"event_id": "two"}))["action"] == "allow"
        assert said(client.post(path, json={"event_id": "three"}))["action"] == "abort"
        assert loop(client, range(7, 12)) == "BBBXX"


def names(folder: Path) -> str:
    import sqlite3

    connection = sqlite3.connect(folder / "gateway.db")
    try:
        return " ".join(row[0] for row in connection.execute("SELECT name FROM runs"))
    finally:
        connection.close()


def test_requests_that_are_going_on_are_answered(tmp_path: Path) -> None:
    """The body is on its way when the gateway is told to end."""
    with GatewayProcess(tmp_path / "state", SMALL) as process:
        body = b'{"tool":"read","call_id":"c"}'
        head = [
            "POST /v1/runs/late/before HTTP/1.1", "Host: localhost", f"Authorization: Bearer {process.token}",
            f"Content-Length: {len(body)}", "", "",
        ]  # fmt: skip
        with socket.create_connection(("127.0.0.1", process.port), timeout=PATIENCE) as connection:
            connection.sendall("\r\n".join(head).encode() + body[:5])
            with process.client() as client:  # what comes later was read later
                before(client)
            process.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not accepts(process.port))
            connection.sendall(body[5:])
            assert b"200 OK" in connection.recv(65536)
        assert process.wait() == 0
    assert "late" in names(tmp_path / "state")


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def test_second_gateway_is_refused(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state") as first, first.client() as client:
        second = GatewayProcess(tmp_path / "state")
        assert second.wait() == 2
        text = "".join(second.logged)
        assert f"process {first.process.pid}" in text
        assert str(tmp_path / "state") in text
        assert "Traceback" not in text
        before(client)
    with GatewayProcess(tmp_path / "state") as third, third.client() as client:  # the first one was killed
        before(client)


def test_address_that_is_taken(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "one") as first:
        second = GatewayProcess(tmp_path / "two", None, "--port", str(first.port))
        assert second.wait() == 2
        assert f"port {first.port}" in "".join(second.logged)


def test_files_are_for_the_owner(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with GatewayProcess(tmp_path / "state") as process:
            with process.client() as client:
                before(client)
            assert process.stop() == 0
    finally:
        os.umask(old)
    folder = tmp_path / "state"
    assert mode(folder) == 0o700
    found = {path.name: mode(path) for path in folder.iterdir()}
    assert found == {"token": 0o600, "gateway.db": 0o600, "gateway.lock": 0o600, "runs.jsonl": 0o600}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda token: token.chmod(0o644), "other people may read"),
        (lambda token: token.write_text("short"), "is damaged"),
        (lambda token: token.write_bytes(b"\xff" * 2000), "is damaged"),
        (lambda token: (token.unlink(), token.symlink_to("/dev/zero")), "can't be used"),
        (lambda token: (token.unlink(), token.mkdir()), "can't be used"),
    ],
)
def test_token_that_is_not_safe_is_refused(
    tmp_path: Path, damage: Callable[[Path], object], words: str
) -> None:
    with GatewayProcess(tmp_path / "state") as process:
        assert process.stop() == 0
    damage(tmp_path / "state" / "token")
    process = GatewayProcess(tmp_path / "state")
    assert process.wait() == 2
    assert words in "".join(process.logged)


def test_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    import sqlite3

    folder = tmp_path / "state"
    folder.mkdir(0o700)
    connection = sqlite3.connect(folder / "gateway.db")
    connection.execute("CREATE TABLE runs (x)")
    connection.close()
    process = GatewayProcess(folder)
    assert process.wait() == 2
    assert "not the database of a gateway" in "".join(process.logged)
    (folder / "gateway.db").write_bytes(b"no database at all " * 100)
    process = GatewayProcess(folder)
    assert process.wait() == 2
    assert "gateway.db" in "".join(process.logged)


def test_damaged_run_starts_afresh(tmp_path: Path) -> None:
    import sqlite3

    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert loop(client, range(5)) == "...ww"
        assert process.stop() == 0
    connection = sqlite3.connect(tmp_path / "state" / "gateway.db")
    connection.execute("UPDATE runs SET state = x'7b7d'")
    connection.commit()
    connection.close()
    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        assert loop(client, range(3)) == "..."
        wait_until(lambda: any("starts afresh" in line for line in process.logged))


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))"
"""No file may grow beyond this, as on a disk that is full; Python ignores the signal."""


def test_full_disk_does_not_stop_the_guard(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL, before=FULL) as process, process.client() as client:
        for number in range(40):
            assert loop(client, range(6), f"run-{number}") == "...wwB"
        wait_until(lambda: client.get("/healthz").json()["store"] is False)
        assert client.get("/healthz").json()["ok"] is True
        assert loop(client, range(6, 8), "run-0") == "BB"
        assert len([line for line in process.logged if "can't be kept" in line]) == 1
        assert process.stop() == 0


def test_runs_are_bounded_in_number(tmp_path: Path) -> None:
    config = {**SMALL, "gateway": {"limits": {"runs": 10}}}
    with GatewayProcess(tmp_path / "state", config) as process, process.client() as client:
        for number in range(30):
            assert loop(client, range(5), f"run-{number}") == "...ww"
        assert before(client, 6, "run-29")["action"] == "block"
        assert before(client, 6, "run-20")["action"] == "block"
        assert before(client, 6, "run-1")["action"] == "allow"
        assert process.stop() == 0
    assert len(names(tmp_path / "state").split('"run-')) == 11
    with GatewayProcess(tmp_path / "state", config) as process, process.client() as client:
        assert before(client, 7, "run-29")["action"] == "block"
        assert "loopwarden_gateway_runs 10.0" in client.get("/metrics").text


def test_agents_have_their_settings(tmp_path: Path) -> None:
    own = {"id": "strict", "tools": {"loopDetection": {"warningThreshold": 1, "criticalThreshold": 2}}}
    config = {**SMALL, "agents": {"list": [own]}}
    with GatewayProcess(tmp_path / "state", config) as process, process.client() as client:
        assert loop(client, range(3), agent="strict") == ".wB"
        assert loop(client, range(6), agent="unknown") == "...wwB"
        assert loop(client, range(6), agent="unknown too") == "...wwB"
        assert process.stop() == 0
    begun = [entry for entry in read(tmp_path / "state" / "runs.jsonl") if entry.kind == "begun"]
    assert [entry.details["agent"] for entry in begun] == ["strict", "unknown", "unknown too"]


def test_wrong_configuration(tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "state", {"gateway": {"portt": 1}})
    assert process.wait() == 2
    assert "portt" in "".join(process.logged)


def test_log_as_json(tmp_path: Path) -> None:
    options = ("--log", "json", "--verbose")
    with GatewayProcess(tmp_path / "state", SMALL, *options) as process, process.client() as client:
        loop(client, range(6))
        client.get("/nope?token=hidden")
        process.raw(b"\x00\r\n\r\n")
        assert process.stop() == 0
    lines = [json.loads(line) for line in process.logged]
    assert {line.get("event") for line in lines} >= {"request", "loop"}
    assert [line["status"] for line in lines if line.get("path") == "/nope"] == [404]
    assert "hidden" not in "".join(process.logged)


def test_other_machines_are_warned_of(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL, "--host", "0.0.0.0") as process:  # noqa: S104 - that is it
        assert any("other machines" in line for line in process.logged)
        answer = httpx2.post(f"http://127.0.0.1:{process.port}/v1/events", json={"events": []})
        assert answer.status_code == 401
        with process.client() as client:  # the names of this machine are not known
            assert client.get("/metrics", headers={"host": "gateway.example"}).status_code == 200


def test_agents_at_once(tmp_path: Path) -> None:
    """Two hundred of them: every one of its calls counts once, and none of another one."""
    strips: dict[int, str] = {}
    with GatewayProcess(tmp_path / "state", SMALL) as process:

        def agent(number: int) -> None:
            with process.client() as client:
                strips[number] = loop(client, range(9), f"run-{number}")

        threads = [threading.Thread(target=agent, args=(number,)) for number in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE * 5)
        with process.client() as client:
            text = client.get("/metrics").text
        assert process.stop() == 0
    assert strips == dict.fromkeys(range(200), "...wwBBBB")
    assert 'loopwarden_gateway_verdicts_total{action="block",event="before"} 800.0' in text


def test_without_the_extra(tmp_path: Path) -> None:
    code = "import sys\nsys.modules['uvicorn'] = None\nsys.argv[1:] = ['gateway']\n"
    code += "from loopwarden.cli.main import run\nrun()\n"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert "pip install 'loopwarden[gateway]'" in found.stderr
