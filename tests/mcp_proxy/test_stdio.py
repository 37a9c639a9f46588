"""The proxy as a process in front of a server as a process: every byte, and every way to end."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.mcp_proxy.play import SERVER, Played, call, loopwarden, proxied, request

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {
    "enabled": True,
    "warningThreshold": 3,
    "criticalThreshold": 5,
    "globalCircuitBreakerThreshold": 9,
    "unknownToolThreshold": 3,
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "loopwarden.json5"
    path.write_text(json.dumps(SMALL))
    return str(path)


MORE_THAN_A_PIPE_HOLDS = 64 * 1024

META = {"progressToken": "p1"}
HELLO = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c"})
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'

CONVERSATIONS: dict[str, list[tuple[bytes, int]]] = {
    "handshake": [(HELLO, 1), (READY, 0), (request("a", "tools/list"), 1), (request(1.5, "ping"), 1)],
    "modern": [
        (request(1, "server/discover", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}), 1),
        (call(2, "same"), 1),
    ],
    "progress": [(request(1, "tools/call", name="progress", arguments={}, _meta=META), 4)],
    "cancellation": [
        (call(1, "wait"), 0),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"no"}}\n', 1),
        (call(2, "same"), 1),
    ],
    "sampling": [
        (call(1, "sampling/createMessage"), 1),
        (b'{"jsonrpc":"2.0", "id":1, "result":{"role":"assistant","content":{"type":"text"}}}\n', 1),
    ],
    "elicitation": [
        (call(1, "elicitation/create"), 1),
        (b'{"jsonrpc":"2.0", "id":1, "result":{"action":"decline"}}\n', 1),
    ],
    "roots": [(call(1, "roots/list"), 1), (b'{"id":1,"error":{"code":1,"message":"m"}}\n', 1)],
    "logging": [(call(1, "log"), 2), (request(2, "logging/setLevel", level="debug"), 1)],
    "binary": [(call(1, "binary"), 1), (call(2, "binary", again=True), 1)],
    "failures": [(call(1, "fail"), 1), (call(2, "nothing_such"), 1)],
    "odd bytes": [(call(1, "odd"), 1), (call("1", "odd"), 1), (call("\ud800", "odd"), 1)],
    "long ids": [(call(2**70, "odd"), 1), (call(2.5, "odd"), 1)],
    "bad lines": [
        (b"no json\n", 1),
        (b"\n", 1),
        (b'{"tools/call"\n', 1),
        (b"\xff tools/call\n", 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"same"}}\r\n', 1),
        (b'{"jsonrpc":"2.0","id":2,"method":"tools\\/call","params":{"name":"same"}}\n', 1),
    ],
    "batch": [
        (b'[{"id":1,"method":"tools/call","params":{"name":"x"}}, {"id":2,"method":"ping"} ]\n', 1),
    ],
    "50 MB": [(call(1, "big"), 1), (call(2, "same", text="y" * 10_000_000), 1)],
}  # fmt: skip


def transcript(command: list[str], steps: list[tuple[bytes, int]]) -> tuple[bytes, int]:
    """Every byte of the other side, the last line of which says what it received."""
    played = Played(command)
    for line, answers in steps:
        played.send(line)
        for _ in range(answers):
            assert played.line()
    played.ask(call("last", "received"))
    played.close()
    return played.out, played.end()[0]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_every_byte_is_as_without_the_proxy(name: str, config: str) -> None:
    steps = CONVERSATIONS[name]
    assert transcript(proxied("--config", config), steps) == transcript(SERVER, steps)


def test_lines_of_a_server_that_are_no_messages_go_on() -> None:
    direct, through = Played([*SERVER, "chatty"]), Played(proxied(server=[*SERVER, "chatty"]))
    for played in (direct, through):
        played.close()
        assert played.end()[0] == 0
    assert through.out == direct.out != b""


def said(answer: Any) -> list[str]:
    return [block["text"] for block in answer["result"]["content"]]


def test_a_loop_is_warned_refused_and_ended(config: str) -> None:
    played = Played(proxied("--config", config))
    answers = [played.ask(call(number, "same")) for number in range(12)]
    plain, warned, refused, ended = answers[0], answers[3], answers[6], answers[9:]
    assert plain["result"] == {"content": [{"type": "text", "text": "nothing here"}]}
    assert said(warned)[0] == "nothing here"
    assert "3 times" in said(warned)[1]
    assert "isError" not in warned["result"]
    assert refused["id"] == 6
    assert refused["result"]["isError"] is True
    assert "was refused" in said(refused)[0]
    assert all("every call of a tool of this server will be refused" in said(one)[0] for one in ended)
    assert "was ended" in said(played.ask(call("x", "binary")))[0]  # another call is refused too
    assert played.ask(request(99, "ping"))["result"]["echo"]["method"] == "ping"
    played.close()
    code, err = played.end()
    assert code == 0
    assert "action=abort" in err


def test_without_a_configuration_everything_is_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    played = Played(proxied())
    answers = [played.ask(call(number, "same")) for number in range(21)]
    assert ["isError" in answer["result"] for answer in answers] == [False] * 20 + [True]
    played.close()
    assert played.end()[0] == 0


def test_observe_mode_touches_nothing(config: str) -> None:
    steps = [(call(number, "same"), 1) for number in range(12)]
    assert transcript(proxied("--config", config, "--mode", "observe"), steps) == transcript(SERVER, steps)


def test_a_warning_is_spliced_into_the_bytes_that_came(config: str) -> None:
    played, direct = Played(proxied("--config", config)), Played(SERVER)
    for number in range(3):
        played.ask(call(number, "odd"))
    played.send(call(3, "odd"))
    direct.send(call(3, "odd"))
    line, plain = played.line(), direct.line()
    begin = line.index(b',{"type":"text","text":"')
    end = line.index(b"}", begin) + 1
    assert line[:begin] + line[end:] == plain
    for one in (played, direct):
        one.close()
        one.end()


def test_a_line_beyond_all_measure_goes_through_in_parts(config: str) -> None:
    size = 70 * 1024 * 1024
    played = Played(proxied("--config", config))
    for number in range(4):
        played.send(call(number, "big", bytes=size))
        line = played.line()
        assert len(line) > size
        assert line.endswith(b'xx"}]}}\n')
        played.out = b""
    played.send(call("y", "same", text="y" * size))
    assert said(json.loads(played.line())) == ["nothing here"]
    played.close()
    err = played.end()[1]
    assert "too long to be read" in err
    assert "action=warn detector=generic_repeat count=3" in err  # seen by the digest


def test_the_exit_code_is_that_of_the_server() -> None:
    for tool, wanted in (("crash", 7), ("killed", 128 + signal.SIGKILL)):
        played = Played(proxied())
        played.send(call(1, tool))
        code, _ = played.end()
        assert code == wanted
        assert played.out == b""


@pytest.mark.parametrize(
    ("mode", "number", "code"),
    [("term", signal.SIGTERM, 42), ("", signal.SIGTERM, 143), ("", signal.SIGINT, 1)],
)
def test_signals_reach_the_server(mode: str, number: int, code: int) -> None:
    played = Played(proxied(server=[*SERVER, mode]))
    if mode:
        assert played.line()
    else:
        played.ask(call(1, "same"))
    played.process.send_signal(number)
    found = played.end()[0]
    assert found == code or (number == signal.SIGINT and found == 128 + number)


def test_a_client_that_does_not_read_can_still_end_it() -> None:
    played = Played(proxied())
    played.send(call(1, "big"))
    assert played.process.stdout is not None
    assert played.process.stdout.read(1)  # the rest fills the pipe
    played.process.send_signal(signal.SIGTERM)
    assert played.process.wait() == 128 + signal.SIGTERM
    played.end()


def test_a_server_that_does_not_listen_is_killed_when_nobody_reads() -> None:
    played = Played(proxied(server=[*SERVER, "deaf"], grace=0.1))
    assert played.line()
    played.close()
    assert played.process.stdout is not None
    played.process.stdout.close()
    assert played.process.wait() == 128 + signal.SIGKILL
    played.end()


def test_a_server_may_take_its_time_while_somebody_reads() -> None:
    slow = "import sys,time\nlines = sys.stdin.readlines()\ntime.sleep(0.5)\nprint(len(lines), flush=True)"
    played = Played(proxied(server=[sys.executable, "-c", slow], grace=0.0))
    played.send(call(1, "x") + call(2, "y"))
    played.close()
    assert played.end()[0] == 0
    assert played.out == b"2\n"


def test_the_end_of_the_output_is_passed_on_while_the_server_lives() -> None:
    played = Played(proxied(server=[*SERVER, "closes-output"]))
    assert played.line()
    assert played.line() == b""
    assert played.process.poll() is None
    played.close()
    assert played.end()[0] == 0


def test_an_unfinished_last_line_goes_on_both_ways() -> None:
    echo = "import sys\nsys.stdout.write(sys.stdin.read())"
    played = Played(proxied(server=[sys.executable, "-c", echo]))
    played.send(b'{"jsonrpc":"2.0"')
    played.close()
    assert played.end()[0] == 0
    assert played.out == b'{"jsonrpc":"2.0"'


def test_many_calls_at_once_keep_their_lines_whole(config: str) -> None:
    played = Played(proxied("--config", config))
    lines = b"".join(call(number, "same", n=number % 7) for number in range(2000))
    sender = threading.Thread(target=played.send, args=(lines,))
    sender.start()
    found = [json.loads(played.line()) for _ in range(2000)]
    sender.join()
    assert sorted(one["id"] for one in found) == list(range(2000))
    played.close()
    code, err = played.end()
    assert code == 0
    assert "fault in the guard" not in err


def test_a_client_that_never_reads_our_standard_error_is_served_on(config: str) -> None:
    played = Played(proxied("--config", config, "--mode", "observe"))
    for number in range(3_000):
        played.ask(call(number, "same", n=number // 4))  # a line for each four
    played.close()
    code, err = played.end()
    assert code == 0
    assert len(err) > MORE_THAN_A_PIPE_HOLDS


def test_what_is_printed_by_the_way_is_no_protocol(config: str, tmp_path: Path) -> None:
    record = tmp_path / "runs.jsonl"
    played = Played(proxied("--config", config, "--record", str(record), "--session", "s1"))
    played.ask(call(1, "same"))
    played.close()
    assert played.end() == (0, "")
    assert record.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either a COMMAND or --url"),
        (["--url", "http://x", "--", "y"], "give either a COMMAND or --url"),
        (["--header", "a:b", "--", "y"], "headers go with --url"),
        (["--", "no-such-program-here"], "no-such-program-here: No such file or directory"),
        (["--", os.sep], "Permission denied"),
        (["--config", "missing.json5", "--", "y"], "no such file"),
        (["--store", "nonsense:", "--", "y"], "nonsense"),
    ],
)
def test_wrong_use_is_told_in_a_sentence(arguments: list[str], words: str) -> None:
    played = Played(loopwarden("mcp", *arguments))
    code, err = played.end()
    assert code == 2
    assert words in " ".join(err.split())
    assert "Traceback" not in err
    assert played.out == b""
