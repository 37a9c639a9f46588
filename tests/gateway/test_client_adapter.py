"""An adapter whose guard is at a gateway: it uses the verbs only, so nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")
pytest.importorskip("pydantic_ai", reason="the extra runner is not installed")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from loopwarden import LoopAborted, LoopGuard
from loopwarden.adapters.pydantic_ai import GuardCapability
from loopwarden.remote import service
from tests.event_loops import closed_at_the_end
from tests.gateway.processes import PATIENCE

if TYPE_CHECKING:
    from tests.gateway.processes import GatewayProcess


def stuck(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Asks for the same file again and again."""
    return ModelResponse(parts=[ToolCallPart("look", {"path": "a"}, tool_call_id=f"c{len(messages)}")])


def patient(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Stops when it is told to."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart) and "refused" in str(last.content):
        return ModelResponse(parts=[TextPart(f"told after {len(messages)}")])
    return stuck(messages, _)


@pytest.fixture
def guard(gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(service, "CONNECT_SECONDS", PATIENCE)
    monkeypatch.setattr(service, "ANSWER_SECONDS", PATIENCE)
    found = LoopGuard(store=f"http://:{gateway.token}@127.0.0.1:{gateway.port}", on_error="raise")
    with closed_at_the_end():
        yield found
    found.close()


def agent_of(guard: LoopGuard, model: Any) -> Agent[None, str]:
    agent = Agent(FunctionModel(model), capabilities=[GuardCapability(guard)])

    @agent.tool_plain
    def look(path: str) -> str:
        return f"nothing in {path}"

    return agent


def test_the_model_is_told_of_a_refusal(guard: LoopGuard) -> None:
    assert agent_of(guard, patient).run_sync("go").output.startswith("told after")


def test_a_run_is_ended(guard: LoopGuard) -> None:
    with pytest.raises(LoopAborted) as ended:
        agent_of(guard, stuck).run_sync("go")
    assert ended.value.verdict.error == "tool_loop_persisted"
