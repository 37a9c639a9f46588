"""The proxy as a process in front of a server that speaks streamable HTTP."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("httpx2", reason="the extra mcp is not installed")

from tests.mcp_proxy.fake_http import SESSION, FakeHttp
from tests.mcp_proxy.play import Played, call, loopwarden, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
HELLO = request(0, "initialize", protocolVersion="2025-11-25")
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


@pytest.fixture
def server() -> Iterator[FakeHttp]:
    fake = FakeHttp()
    yield fake
    fake.told.set()
    fake.left.set()
    fake.shutdown()
    fake.server_close()


@pytest.fixture
def play(server: FakeHttp, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Callable[..., Played]:
    config = tmp_path / "loopwarden.json5"
    config.write_text("{enabled: true, warningThreshold: 2, criticalThreshold: 3}")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)

    def start(path: str = "/silent", *options: str, grace: float = 60.0) -> Played:
        words = ["mcp", "--config", str(config), "--url", server.url(path), *options]
        return Played(loopwarden(*words, way="http", grace=grace))

    return start


def said(answer: Any) -> list[str]:
    return [block["text"] for block in answer["result"]["content"]]


def ended(played: Played) -> str:
    """Closed by the client; what was written to standard error."""
    played.close()
    code, err = played.end()
    assert code == 0
    assert "Traceback" not in err
    return err


def test_a_session_from_hello_to_the_end(server: FakeHttp, play: Callable[..., Played]) -> None:
    played = play()
    assert played.ask(HELLO)["result"]["protocolVersion"] == "2025-11-25"
    played.send(READY)
    assert said(played.ask(call(1, "same"))) == ["nothing here"]
    ended(played)
    assert sorted(verb for verb, _, _ in server.seen) == ["DELETE", "GET", "POST", "POST", "POST"]
    first, *others = (headers for _, headers, _ in server.seen)
    assert "mcp-session-id" not in first
    assert "mcp-protocol-version" not in first
    for headers in others:
        assert headers["mcp-session-id"] == SESSION
        assert headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-method" not in headers
    assert first["accept"] == "application/json, text/event-stream"


def test_the_modern_generation_says_it_in_headers(server: FakeHttp, play: Callable[..., Played]) -> None:
    played = play()
    played.ask(request(1, "tools/list", _meta=MODERN))
    arguments = {"region": "Łódź", "in": {"dry": True}, "bad": "x"}
    played.ask(request(2, "tools/call", name="same", arguments=arguments, _meta=MODERN))
    played.ask(request(3, "tools/call", name="events", arguments={"region": "r"}, _meta=MODERN))
    played.ask(request(4, "resources/read", uri="file:///a b", _meta=MODERN))
    ended(played)
    (listed, _), (marked, _), (read, _) = (
        server.of("tools/list") + server.of("tools/call")[:1] + server.of("resources/read")
    )
    assert listed["mcp-protocol-version"] == "2026-07-28"
    assert listed["mcp-method"] == "tools/list"
    assert "mcp-name" not in listed
    assert marked["mcp-name"] == "same"
    assert marked["mcp-param-region"] == "=?base64?xYHDs2TFug==?="
    assert marked["mcp-param-dry"] == "true"
    assert not [name for name in server.of("tools/call")[1][0] if name.startswith("mcp-param")]
    assert read["mcp-name"] == "file:///a b"
    assert not [verb for verb, headers, _ in server.seen if verb != "POST" or "mcp-session-id" in headers]


@pytest.mark.parametrize("name", ["same", "pretty", "breaks"])
def test_a_result_is_one_line(name: str, play: Callable[..., Played]) -> None:
    played = play()
    assert said(played.ask(call("a", name))) == [{"breaks": "went on"}.get(name, "nothing here")]
    ended(played)


def test_events_are_lines(play: Callable[..., Played]) -> None:
    played = play()
    assert played.ask(call(1, "events"))["method"] == "notifications/progress"
    assert said(json.loads(played.line())) == ["nothing here"]
    ended(played)


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("gone", -32000, "HTTP 404 Not Found"),
        ("denied", -32000, "HTTP 401 Unauthorized"),
        ("accepted", -32000, "HTTP 202: the answer ended without a result"),
        ("bad", -32020, "mismatch"),
        ("html", -32000, "HTTP 200: the answer ended without a result"),
        ("cut", -32000, "HTTP 200: the answer ended without a result"),
    ],
)
def test_what_goes_wrong_is_an_error_with_the_id(
    name: str, code: int, words: str, play: Callable[..., Played]
) -> None:
    played = play()
    answer = played.ask(call("x", name))
    assert answer == {"jsonrpc": "2.0", "id": "x", "error": {"code": code, "message": words}}
    assert said(played.ask(call("y", "same"))) == ["nothing here"]
    ended(played)


def test_a_session_that_is_over_is_told_and_a_new_one_can_begin(
    server: FakeHttp, play: Callable[..., Played]
) -> None:
    played = play()
    played.ask(HELLO)
    fault = played.ask(call(1, "gone"))["error"]
    assert fault == {"code": -32600, "message": "the session is over (HTTP 404); initialize a new one"}
    played.ask(HELLO)
    played.ask(call(2, "same"))
    ended(played)
    assert "mcp-session-id" not in server.of("initialize")[1][0]
    assert server.of("tools/call")[1][0]["mcp-session-id"] == SESSION


def test_a_loop_is_warned_and_refused(server: FakeHttp, play: Callable[..., Played]) -> None:
    played = play()
    found = [said(played.ask(call(number, "pretty"))) for number in range(5)]
    assert [len(texts) for texts in found] == [1, 1, 2, 1, 1]
    assert "was refused" in found[3][0]
    assert len(server.of("tools/call")) == 3
    assert "action=block" in ended(played)


def test_the_server_may_ask_on_its_own_stream(server: FakeHttp, play: Callable[..., Played]) -> None:
    played = play("/mcp")
    played.ask(HELLO)
    played.send(READY)
    assert json.loads(played.line())["method"] == "roots/list"
    played.send(b'{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}\n')
    assert server.told.wait(30)
    ended(played)


@pytest.mark.parametrize("modern", [True, False])
def test_cancelling_closes_the_stream_or_is_a_message(
    modern: bool, server: FakeHttp, play: Callable[..., Played]
) -> None:
    played = play()
    more: dict[str, Any] = {"_meta": MODERN} if modern else {}
    played.send(request(1, "tools/call", name="slow", arguments={}, **more))
    played.ask(request(2, "ping"))  # while the other one is open
    played.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n')
    played.ask(request(3, "ping"))
    assert (server.of("notifications/cancelled") == []) is modern
    if modern:
        assert server.left.wait(30)
    server.left.set()
    played.close()
    assert played.end()[0] == 0


def test_batches_go_as_they_are(play: Callable[..., Played]) -> None:
    played = play()
    played.send(
        b'[{"id":1,"method":"tools/call","params":{"name":"same"}},{"method":"x"},{"id":2,"method":"y"}]\n'
    )
    assert [one["id"] for one in json.loads(played.line())] == [1, 2]
    ended(played)


def test_a_redirect_is_followed_on_the_same_host_only(server: FakeHttp, play: Callable[..., Played]) -> None:
    played = play("/old", "--header", "Authorization: secret")
    assert said(played.ask(call(1, "same"))) == ["nothing here"]
    assert said(played.ask(call(2, "same"))) == ["nothing here"]
    ended(played)
    assert len(server.seen) == 3
    for path, words in (("/away", "the server is elsewhere"), ("/circle", "in circles")):
        played = play(path)
        assert words in played.ask(call(1, "same"))["error"]["message"]
        ended(played)


def test_headers_may_come_from_the_environment(
    server: FakeHttp, play: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret:x")
    monkeypatch.setenv("PLACE", "/silent?key=s3cret")
    played = play("${PLACE}", "--header", "Authorization: Bearer ${TOKEN}", "--header", "X-Team:a")
    played.ask(call(1, "same"))
    assert "s3cret" not in ended(played)
    assert server.seen[0][1]["authorization"] == "Bearer s3cret:x"
    assert server.seen[0][1]["x-team"] == "a"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--header", "Authorization: ${NOT_SET_ANYWHERE}"], "the variable NOT_SET_ANYWHERE is not set"),
        (["--header", "secret"], "NAME:VALUE"),
        (["--header", "a b: secret"], "NAME:VALUE"),
        (["--header", "a: secr\u00e9t"], "only printable ASCII"),
        (["--url", "http://x/${NOT_SET_ANYWHERE}"], "--url: the variable NOT_SET_ANYWHERE is not set"),
        (["--url", "ftp://x"], "only http and https"),
        (["--url", "http://"], "only http and https"),
        (["--url", "http://x:y/"], "no URL"),
    ],
)
def test_wrong_use_is_told_without_the_secret(
    options: list[str], words: str, play: Callable[..., Played]
) -> None:
    played = play("/mcp", *options)
    played.close()
    code, err = played.end()
    assert code == 2
    assert words in err
    assert "secr" not in err
    assert "Traceback" not in err


def test_a_missing_package_is_named_with_the_command_that_brings_it() -> None:
    start = "import sys; sys.modules['httpx2'] = None; from loopwarden.cli.main import run; run()"
    played = Played([sys.executable, "-c", start, "mcp", "--url", "http://x"])
    code, err = played.end()
    assert code == 2
    assert err.endswith("loopwarden: httpx2 is not installed; run: pip install 'loopwarden[mcp]'\n")


def test_a_server_that_is_not_there_is_told(server: FakeHttp, play: Callable[..., Played]) -> None:
    server.shutdown()
    server.server_close()
    played = play()
    played.send(READY)
    assert "can't be reached" in played.ask(call(1, "same"))["error"]["message"]
    assert "can't be reached" in ended(played)


def test_no_json_is_answered(play: Callable[..., Played]) -> None:
    played = play()
    assert played.ask(b"what\n")["error"]["code"] == -32700
    played.send(b"\n")
    for odd in (b"5\n", b'{"method":[]}\n', b'{"id":1,"method":{}}\n', b"[[]]\n"):
        played.send(odd)
    ended(played)


def test_a_client_that_does_not_read_can_still_end_it(server: FakeHttp, play: Callable[..., Played]) -> None:
    played = play(grace=0.5)
    played.ask(HELLO)
    played.send(call(1, "big"))
    assert played.process.stdout is not None
    assert played.process.stdout.read(1)  # the rest fills the pipe
    played.process.send_signal(signal.SIGTERM)
    assert played.process.wait() == 128 + signal.SIGTERM
    played.end()
    assert server.seen[-1][0] == "DELETE"


def test_a_signal_ends_the_session(server: FakeHttp, play: Callable[..., Played]) -> None:
    played = play()
    played.ask(HELLO)
    played.process.send_signal(signal.SIGTERM)
    assert played.end()[0] == 128 + signal.SIGTERM
    assert server.seen[-1][0] == "DELETE"
