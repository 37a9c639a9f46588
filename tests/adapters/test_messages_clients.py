"""The hand-written loop with the real clients: what they send and how they say what came back."""

from __future__ import annotations

import importlib
import json
from importlib.metadata import requires
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("openai", reason="needs openai")
pytest.importorskip("anthropic", reason="needs anthropic")

import anthropic
import openai

from loopwarden import LoopAborted
from loopwarden.adapters.messages import GuardedMessages
from tests.adapters.contract import asking
from tests.adapters.test_messages import HELLO, Anthropic, Chat
from tests.adapters.writing_guard import CONFIG, WritingGuard

if TYPE_CHECKING:
    from collections.abc import Callable


class Api:
    """Answers requests as the API would, always with the same call; `sent` has their messages."""

    def __init__(self, package: str) -> None:
        wanted = requires(package) or []
        newer = any(line.startswith("httpx2") for line in wanted)
        self.http = importlib.import_module("httpx2" if newer else "httpx")
        self.sent: list[Any] = []

    def client(self) -> Any:
        """The client of HTTP that the package is made for."""
        return self.http.Client(transport=self.http.MockTransport(self))

    def __call__(self, request: Any) -> Any:
        body = json.loads(request.content)
        self.sent.append(body["messages"])
        ((ask,),) = asking(1)
        number = len(self.sent)
        if request.url.path.endswith("/chat/completions"):
            message = Chat.reply([ask])
            message["tool_calls"][0]["id"] = f"c{number}"
            choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
            told = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        else:
            message = Anthropic.reply([ask])
            message["content"][0]["id"] = f"c{number}"
            usage = {"input_tokens": 1, "output_tokens": 1}
            told = {
                "id": "x",
                "type": "message",
                "model": "m",
                "stop_reason": "tool_use",
                "usage": usage,
            } | message
        return self.http.Response(200, json=told)


ACTIONS = [*["allow"] * 3, *["warn"] * 2, *["block"] * 4, "abort"]


@pytest.mark.parametrize("own_object", [True, False])
def test_openai(own_object: bool) -> None:
    api, guard = Api("openai"), WritingGuard(CONFIG)
    client = openai.OpenAI(api_key="none", http_client=api.client())

    def ask(history: list[Any]) -> Any:
        message = client.chat.completions.create(model="m", messages=history).choices[0].message
        given = {"role": "assistant", "content": None, "tool_calls": message.tool_calls}
        return message if own_object else given

    with pytest.raises(LoopAborted):
        loop(guard, ask)
    assert [told.verdict.action for told in guard.of("before")] == ACTIONS
    assert guard.of("before")[0].arguments == {"query": "a"}
    assert len([each for each in api.sent[-1] if each["role"] == "tool"]) == 9


def test_anthropic() -> None:
    api, guard = Api("anthropic"), WritingGuard(CONFIG)
    client = anthropic.Anthropic(api_key="none", http_client=api.client())

    def ask(history: list[Any]) -> Any:
        reply = client.messages.create(model="m", max_tokens=9, messages=history)
        return {"role": "assistant", "content": reply.content}

    with pytest.raises(LoopAborted):
        loop(guard, ask)
    assert [told.verdict.action for told in guard.of("before")] == ACTIONS
    assert api.sent[-1][-1]["content"][0]["is_error"] is True


def loop(guard: WritingGuard, ask: Callable[[list[Any]], Any]) -> None:
    guarded = GuardedMessages(guard, tools=["look"])
    history: list[Any] = [HELLO]
    for _ in range(12):
        history.append(ask(history))
        judged = guarded.judge(history)
        history += judged.answers({call.call_id: "nothing" for call in judged.run})
