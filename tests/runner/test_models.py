"""The model that an agent's configuration names."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from loopwarden.config.runtime import ListedAgent
from loopwarden.errors import ConfigError
from loopwarden.runner.models import model_of, settings_of
from tests.runner.agents import Seen, runner_for
from tests.runner.model_server import ModelServer, Reply


def agent(**fields: Any) -> ListedAgent:
    return ListedAgent.model_validate({"id": "main", **fields})


def look(query: str) -> str:
    return query


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "has no model"),
        ({"model": "gpt-5"}, "provider:model"),
        ({"model": "nobody:gpt-5"}, "nobody:gpt-5"),
        ({"model": "openai:gpt-5"}, "OPENAI_API_KEY"),
        ({"model": "openai:gpt-5", "apiKeyEnv": "MY_KEY"}, "MY_KEY is not set"),
        (
            {"model": "scripted", "baseUrl": "http://127.0.0.1:9/v1", "apiKeyEnv": "MY_KEY"},
            "MY_KEY is not set",
        ),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MY_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=words) as raised:
        model_of(agent(**fields))
    assert raised.value.problems[0].path.startswith("agents.list[main].")


@pytest.mark.skipif(importlib.util.find_spec("anthropic") is not None, reason="it is installed here")
def test_a_provider_whose_package_is_missing_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "k")
    with pytest.raises(ConfigError, match=r"pip install .*anthropic"):
        model_of(agent(model="anthropic:claude-sonnet-4-5", apiKeyEnv="MY_KEY"))


def test_an_agent_without_a_model_fails_with_an_end() -> None:
    seen = Seen()
    with ModelServer([]) as server:
        runner = runner_for(
            server, seen, look, agents=[{"id": "main", "model": "openai:gpt-5", "baseUrl": None}]
        )
        runner._runtime.agents["main"] = agent(model="nobody:x")
        result = asyncio.run(runner.run("main", "Look."))
    assert result.reason == "failed"
    assert "nobody:x" in (result.message or "")
    assert [one.kind for one in seen.all] == ["began", "ended"]


def test_the_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "right")
    with ModelServer([Reply("ok")], key="right") as server:
        runner = runner_for(server, Seen(), look, agent={"apiKeyEnv": "MY_KEY"})
        assert asyncio.run(runner.run("main", "Look.")).answer == "ok"


@pytest.mark.parametrize("name", ["scripted", "openai:scripted", "openai-chat:scripted"])
def test_a_name_at_a_base_url(name: str) -> None:
    with ModelServer([Reply("ok")]) as server:
        runner = runner_for(server, Seen(), look, agent={"model": name})
        assert asyncio.run(runner.run("main", "Look.")).answer == "ok"
    assert server.requests[0].model == "scripted"


def test_a_name_with_a_colon_is_a_name_there() -> None:
    model = model_of(agent(model="qwen3:8b", baseUrl="http://127.0.0.1:9/v1"))
    assert model.model_name == "qwen3:8b"


def test_the_thinking_level_is_passed_where_there_is_one() -> None:
    assert settings_of(agent()) is None
    assert settings_of(agent(thinking="off")) == {"thinking": False}
    assert settings_of(agent(thinking="high")) == {"thinking": "high"}
    with ModelServer({"gpt-5": [Reply("ok")], "gpt-4o": [Reply("ok")]}) as server:
        for name in ("gpt-5", "gpt-4o"):
            runner = runner_for(server, Seen(), look, agent={"model": name, "thinking": "low"})
            asyncio.run(runner.run("main", "Look."))
    assert server.of("gpt-5")[0].body["reasoning_effort"] == "low"
    assert "reasoning_effort" not in server.of("gpt-4o")[0].body


def test_a_model_that_can_not_stream_is_asked_at_once() -> None:
    def reply(messages: Any, info: Any) -> ModelResponse:  # noqa: ARG001 - as the host calls it
        return ModelResponse(parts=[TextPart("whole")])

    seen = Seen()
    with ModelServer([]) as server:
        runner = runner_for(server, seen, look, model=FunctionModel(reply))
        assert asyncio.run(runner.run("main", "Look.")).answer == "whole"
    assert seen.of("text")[-1] == {"text": "whole", "partial": False}
