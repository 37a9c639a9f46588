"""LangChain's agents with the scripted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.tools import tool

from loopwarden.adapters import langchain
from tests.adapters.contract import Ran
from tests.adapters.langgraph_agents import NodeHost, ScriptedModel

if TYPE_CHECKING:
    from loopwarden import LoopGuard
    from loopwarden.adapters import Abilities
    from tests.adapters.contract import Script


class AgentHost(NodeHost):
    """`create_agent` with the middleware."""

    abilities: ClassVar[Abilities] = langchain.ABILITIES
    survives_errors = False

    def agent(self, guard: LoopGuard | None, script: Script, model: ScriptedModel) -> Any:
        middleware: list[Any] = [langchain.LoopGuardMiddleware(guard)] if guard is not None else []
        if script.compact_before is not None:
            middleware.append(
                SummarizationMiddleware(
                    ScriptedModel(replies=[], ran=Ran()),
                    trigger=("tokens", 5),
                    keep=("messages", 2),
                    token_counter=lambda _: 9 if model.asked == script.compact_before else 1,
                )
            )
        tools = [tool(function) for function in script.tools.values()]
        return create_agent(model, tools, middleware=middleware)
