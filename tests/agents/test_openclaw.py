"""OpenClaw, the real program: loops are told, refused and ended, and work is left alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.chat_server import ChatRequest, ChatServer
from tests.agents.model_server import SUMMARY, Call, Reply, Request, asks
from tests.agents.place import LOOSE, Place, program

if TYPE_CHECKING:
    from tests.agents.model_server import Script
    from tests.agents.place import Ended

OPENCLAW = program("openclaw")
WARNED = "called 2 times with the same arguments"
OVERFLOW = "This model's maximum context length is 32000 tokens, and the messages have 46000."
_SUMMARIZE = "You are a context summarization assistant"
_SECONDS = "50"


class Server(ChatServer):
    """The server; a text that is `OVERFLOW` is said as an error."""

    def written(self, request: Request, reply: Reply, number: int) -> tuple[str, str]:
        if reply.text != OVERFLOW:
            return super().written(request, reply, number)
        error = {"message": OVERFLOW, "type": "invalid_request_error", "code": "context_length_exceeded"}
        return "text/event-stream", f"data: {json.dumps({'error': error})}\n\n"


@pytest.fixture(autouse=True)
def _files(place: Place) -> None:
    (place.project / "a.txt").write_text("text of a\n", encoding="utf-8")


def run(place: Place, script: Script) -> tuple[Ended, Server]:
    """Run a session to its end, with the guard installed."""
    with Server(script) as server:
        path = place.home / ".openclaw" / "openclaw.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(settings(place, server.url)), encoding="utf-8")
        place.loopwarden("install", "openclaw")
        options = ("agent", "--local", "--agent", "main", "--json", "--timeout", _SECONDS)
        ended = place.run([*OPENCLAW, *options, "--message", "Look around."], {})
        place.loopwarden("uninstall", "openclaw")
        assert json.loads(path.read_text(encoding="utf-8")).get("plugins") is None
        assert not (path.parent / "extensions").exists()
    return ended, server


def settings(place: Place, url: str) -> dict[str, Any]:
    model = {
        "id": "m",
        "name": "M",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 32_000,
        "maxTokens": 1000,
    }
    provider = {"baseUrl": f"{url}/v1", "apiKey": "none", "api": "openai-completions", "models": [model]}
    return {
        "models": {"providers": {"scripted": provider}},
        "agents": {"defaults": {"model": {"primary": "scripted/m"}, "workspace": str(place.project)}},
        "tools": {"loopDetection": {"enabled": False}},  # its own guard would be first
    }


def read(place: Place, name: str = "a.txt") -> Call:
    return Call("read", {"path": str(place.project / name)})


def results(server: Server) -> list[str]:
    """What the model read last as results, one a call."""
    return [text for texts in server.requests[-1].answers.values() for text in texts]


def is_summary(request: ChatRequest) -> bool:
    return _SUMMARIZE in str(request.messages[0])


def was_ended(ended: Ended) -> bool:
    return ended.code == 1 and "agent run aborted" in ended.out


@pytest.mark.parametrize(("name", "text"), [("a.txt", "text of a"), ("missing.txt", "File not found")])
def test_a_loop_is_told_refused_and_ended(place: Place, name: str, text: str) -> None:
    ended, server = run(place, [asks(read(place, name))] * 20)
    given = results(server)
    assert text in given[2]
    assert WARNED in given[2]
    assert "was refused and did not run" in given[3]
    assert len(server.requests) in {5, 6}  # the next one may have begun
    assert was_ended(ended)


def test_work_is_untouched(place: Place) -> None:
    place.configure(LOOSE)
    path = str(place.project / "b.txt")
    writes = [Call("write", {"path": path, "content": f"{number}\n"}) for number in range(3)]
    script = [asks(call) for write in writes for call in (write, read(place, "b.txt"))]
    ended, server = run(place, [*script, asks(*[read(place)] * 3)])
    assert ended.code == 0
    assert len(server.requests) == 8
    given = results(server)
    assert [given[number] for number in (1, 3, 5)] == ["0\n", "1\n", "2\n"]
    assert given[-3:] == ["text of a\n"] * 3


def test_a_loop_that_outlives_a_compaction_is_ended(place: Place) -> None:
    place.configure(LOOSE)
    requests: list[ChatRequest] = []

    def said(request: Request) -> Reply:
        assert isinstance(request, ChatRequest)
        requests.append(request)
        if is_summary(request):
            return Reply(SUMMARY)
        if len(requests) == 7:
            return Reply(OVERFLOW)
        text = f"I think of {len(requests)}. " * 900 if len(requests) < 7 else ""
        return asks(read(place), text=text)

    ended, _ = run(place, said)
    last = max(number for number, request in enumerate(requests) if is_summary(request))
    assert len(requests) - last - 1 in {3, 4}  # the next one may have begun
    assert was_ended(ended)
