"""A graph of one's own with a `ToolNode`, and a model that reads its replies from a script."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from loopwarden import LoopAborted, LoopGuard
from loopwarden.adapters import langgraph
from tests.adapters.contract import Ask, Ran

if TYPE_CHECKING:
    from loopwarden.adapters import Abilities
    from tests.adapters.contract import Script

HELLO: dict[str, Any] = {"messages": [("user", "hello")]}
THREAD: dict[str, Any] = {"configurable": {"thread_id": "t1"}}


class ScriptedModel(BaseChatModel):
    """Says what the script says, then "done"; `ran` has what it was shown."""

    replies: list[list[Ask]]
    ran: Any
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> ScriptedModel:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        for message in messages:
            if isinstance(message, ToolMessage):
                seen = self.ran.answers.setdefault(message.tool_call_id, [])
                seen += [text for text in [message.text] if text not in seen]
        asks = self.replies[self.asked] if self.asked < len(self.replies) else None
        self.asked += 1
        self.ran.requests += 1
        calls = [{"name": ask.tool, "args": {"query": ask.query}, "id": ask.call_id} for ask in asks or []]
        reply = AIMessage("" if asks else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def model_of(replies: list[list[Ask]], ran: Ran | None = None) -> ScriptedModel:
    return ScriptedModel(replies=replies, ran=ran or Ran())


class NodeHost:
    """Its node turns errors of tools into messages."""

    abilities: ClassVar[Abilities] = langgraph.ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, way: str) -> None:
        self.way = way

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        ran = Ran()
        model = ScriptedModel(replies=script.replies, ran=ran)
        agent = self.agent(guard, script, model)
        try:
            ran.text = self.invoke(agent)
        except Exception as error:  # noqa: BLE001 - the tests look at it
            ran.raised = error
            ran.aborted = error if isinstance(error, LoopAborted) else None
        return ran

    def invoke(self, agent: Any, value: Any = None, config: Any = None) -> str:
        value = HELLO if value is None else value
        if self.way == "sync":
            messages = agent.invoke(value, config)["messages"]
        elif self.way == "async":
            messages = asyncio.run(agent.ainvoke(value, config))["messages"]
        else:
            messages = []
            for chunk in agent.stream(value, config, stream_mode="updates"):
                for update in chunk.values():
                    messages += (update or {}).get("messages", ()) if isinstance(update, dict | None) else ()
        return str(messages[-1].text)

    def agent(self, guard: LoopGuard | None, script: Script, model: ScriptedModel) -> Any:
        tools = [tool(function) for function in script.tools.values()]
        wrappers: dict[str, Any] = {}
        if guard is not None:
            guarded = langgraph.GuardedToolCalls(guard)
            wrappers = {
                "wrap_tool_call": guarded.wrap_tool_call,
                "awrap_tool_call": guarded.awrap_tool_call,
            }

        node = ToolNode(tools, handle_tool_errors=True, **wrappers)
        return self.graph(node, model, script.compact_before).compile()

    def graph(self, node: ToolNode, model: ScriptedModel, compact_before: int | None) -> Any:
        def ask(state: MessagesState) -> dict[str, Any]:
            messages = state["messages"]
            if model.asked != compact_before:
                return {"messages": [model.invoke(messages)]}
            kept = [HumanMessage("what was so far"), *messages[-2:]]
            return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *kept, model.invoke(kept)]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", ask)
        graph.add_node("tools", node)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        return graph


def asks_a_person(ran: list[str]) -> list[Any]:
    """A tool that runs at once, and one that interrupts; `ran` has what the first was asked."""

    @tool
    def look(query: str) -> str:
        """Look something up."""
        ran.append(query)
        return f"nothing about {query}"

    @tool
    def sure(query: str) -> str:
        """Ask a person."""
        return f"{query}: {interrupt('really?')}"

    return [look, sure]


PAIR = [Ask(tool="look", call_id="c1"), Ask(tool="sure", call_id="c2")]
