"""The scripted model against the clients that agents really use."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("openai")

import openai

from tests.runner.model_server import (
    DONE,
    SUMMARY,
    Call,
    ModelServer,
    Reply,
    asks,
    breaks,
    limits,
    overflows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOOLS: Any = [{"type": "function", "function": {"name": "exec", "parameters": {"type": "object"}}}]
USER: Any = [{"role": "user", "content": "Do it."}]
TWO = asks(Call("exec", {"command": "echo " + "x" * 40}), Call("read", {"path": "ä"}), text="I look at both.")
ASKED = [("exec", {"command": "echo " + "x" * 40}), ("read", {"path": "ä"})]


class Client:
    """Asks the server with OpenAI's own client."""

    def __init__(self, url: str, retries: int = 0, key: str = "none") -> None:
        self.openai = openai.OpenAI(base_url=url, api_key=key, max_retries=retries)

    def whole(self, messages: Any = USER, model: str = "m", **more: Any) -> Any:
        return self.openai.chat.completions.create(model=model, messages=messages, **{"tools": TOOLS, **more})

    def stream(self, messages: Any = USER, **more: Any) -> list[Any]:
        given = {"tools": TOOLS, "stream_options": {"include_usage": True}, **more}
        return list(self.openai.chat.completions.create(model="m", messages=messages, stream=True, **given))


def asked(calls: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


def test_a_reply_in_one_piece() -> None:
    with ModelServer([TWO]) as server:
        reply = Client(server.url).whole()
        assert Client(server.url).whole().choices[0].message.content == DONE
    message = reply.choices[0].message
    assert (message.content, asked(message.tool_calls)) == ("I look at both.", ASKED)
    assert reply.choices[0].finish_reason == "tool_calls"
    assert len({call.id for call in message.tool_calls}) == 2
    assert reply.usage.prompt_tokens == server.requests[0].tokens > 10


def test_a_reply_in_many_pieces() -> None:
    with ModelServer([TWO]) as server:
        pieces = Client(server.url).stream()
    assert [choice.index for choice in pieces[-1].choices] == []
    assert pieces[-1].usage.prompt_tokens == server.requests[0].tokens
    deltas = [piece.choices[0].delta for piece in pieces[:-1]]
    assert "".join(delta.content or "" for delta in deltas) == "I look at both."
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert [call.function.name for call in calls if call.id] == ["exec", "read"]
    first = [call.function.arguments for call in calls if call.index == 0]
    assert json.loads("".join(first)) == ASKED[0][1]
    assert len([piece for piece in first if piece]) > 2
    assert pieces[-2].choices[0].finish_reason == "tool_calls"


def test_usage_is_told_only_to_those_who_ask() -> None:
    with ModelServer([TWO]) as server:
        pieces = Client(server.url).stream(stream_options={"include_usage": False})
    assert all(piece.choices and piece.usage is None for piece in pieces)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("reply", "raised", "code"),
    [
        (overflows(), openai.BadRequestError, "context_length_exceeded"),
        (limits(), openai.RateLimitError, "rate_limit_exceeded"),
        (breaks(), openai.InternalServerError, None),
        (Reply(drop="before"), openai.APIConnectionError, None),
    ],
)
def test_failures(reply: Reply, raised: type[openai.APIError], code: str | None, streams: bool) -> None:
    with ModelServer([reply, reply, Reply("Again.")]) as server:
        client = Client(server.url)
        with pytest.raises(raised) as caught:
            client.stream() if streams else client.whole()
        assert caught.value.code == code
        patient = Client(server.url, retries=1)
        if code == "context_length_exceeded":
            with pytest.raises(raised):
                patient.whole()
        else:
            assert patient.whole().choices[0].message.content == "Again."


def test_a_stream_that_is_cut() -> None:
    whole = Reply("A long text of many pieces.")
    with ModelServer([Reply(whole.text, drop="middle"), whole, Reply(whole.text, drop="middle")]) as server:
        client, pieces = Client(server.url), []
        with pytest.raises(openai.APIConnectionError):  # noqa: PT012 - what came before the cut is looked at
            for piece in client.openai.chat.completions.create(
                model="m", messages=USER, tools=TOOLS, stream=True
            ):
                pieces.append(piece)  # noqa: PERF402 - the loop raises
        assert pieces
        assert len(client.stream()) > len(pieces)
        with pytest.raises(openai.APIConnectionError):
            client.whole()


def test_a_request_that_does_not_fit() -> None:
    long: Any = [{"role": "user", "content": "word " * 1000}]
    with ModelServer([Reply("Fits.")], window=500) as server:
        with pytest.raises(openai.BadRequestError, match="maximum context length is 500 tokens"):
            Client(server.url).whole(long)
        assert Client(server.url).whole().choices[0].message.content == "Fits."
    assert len(server.requests) == 2


CALLED: Any = {
    "role": "assistant",
    "tool_calls": [
        {"id": one, "type": "function", "function": {"name": "exec", "arguments": "{}"}} for one in "ab"
    ],
}


def result(one: str) -> Any:
    return {"role": "tool", "tool_call_id": one, "content": [{"type": "text", "text": f"result {one}"}]}


@pytest.mark.parametrize(
    ("messages", "match"),
    [
        ([*USER, CALLED, result("a")], "did not have response messages: b"),
        ([*USER, CALLED, result("b"), *USER], "did not have response messages: a"),
        ([*USER, result("a")], "must be a response to"),
        ([*USER, CALLED, result("a"), result("b"), result("b")], "must be a response to"),
    ],
)
def test_calls_and_results_must_be_paired(messages: Any, match: str) -> None:
    with ModelServer([]) as server, pytest.raises(openai.BadRequestError, match=match):
        Client(server.url).whole(messages)


def test_what_the_model_reads() -> None:
    with ModelServer([]) as server:
        Client(server.url).whole([*USER, CALLED, result("b"), result("a")])
    request = server.requests[0]
    assert request.results == {"b": "result b", "a": "result a"}
    assert (request.last_result, request.said, request.tools) == ("result a", ["Do it."], ["exec"])


def test_a_summary_takes_no_reply_of_a_list() -> None:
    with ModelServer([Reply("One.")]) as server:
        client = Client(server.url)
        assert client.whole(tools=openai.omit).choices[0].message.content == SUMMARY
        assert client.whole().choices[0].message.content == "One."


def test_each_model_has_its_script() -> None:
    def echo(request: object) -> Reply:
        return Reply(f"{type(request).__name__}.")

    with ModelServer({"a": [Reply("One."), Reply("Two.")], "b": echo}) as server:
        client = Client(server.url)
        said = [client.whole(model=name).choices[0].message.content for name in "abaa"]
    assert said == ["One.", "Request.", "Two.", DONE]
    assert len(server.of("a")) == 3


def test_a_slow_reply_comes_when_it_is_let() -> None:
    go = threading.Event()
    with ModelServer([Reply("Now.", wait=go)]) as server, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(Client(server.url).whole)
        server.wait_for(1)
        assert not asking.done()
        go.set()
        assert asking.result(60).choices[0].message.content == "Now."


def test_only_the_right_key() -> None:
    with ModelServer([], key="sk-right") as server:
        with pytest.raises(openai.AuthenticationError):
            Client(server.url, key="sk-wrong").whole()
        assert Client(server.url, key="sk-right").whole()
        with pytest.raises(openai.NotFoundError):
            Client(server.url).openai.models.list()
    assert server.others == ["GET /v1/models"]


def test_a_script_that_raises_is_told() -> None:
    def wrong(request: object) -> Reply:
        raise LookupError(f"no line for this {type(request).__name__}")

    def run() -> None:
        with ModelServer(wrong) as server, pytest.raises(openai.InternalServerError):
            Client(server.url).whole()

    with pytest.raises(LookupError, match="no line for this Request"):
        run()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[str]:
    script = tmp_path / "script.json"
    call = {"tool": "exec", "arguments": {"command": "ls"}}
    replies = [{"calls": [call], "times": 2}, {"fails": "overflow"}, {"text": "Ready."}]
    script.write_text(json.dumps({"models": {"m": replies}}))
    command = [sys.executable, "-m", "tests.runner.model_server", str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield server.stdout.readline().strip()
        assert server.stdin
        server.stdin.close()
        assert server.wait(60) == 0


def test_as_a_process(process: str) -> None:
    client = Client(process)
    for _ in range(2):
        assert asked(client.whole().choices[0].message.tool_calls) == [("exec", {"command": "ls"})]
    with pytest.raises(openai.BadRequestError):
        client.whole()
    assert client.whole().choices[0].message.content == "Ready."
