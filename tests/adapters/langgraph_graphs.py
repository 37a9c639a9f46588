"""Graphs with a `ToolNode` over states of every shape, with replies that get no ids."""

from __future__ import annotations

import asyncio
import dataclasses
import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, Send
from pydantic import BaseModel

from loopwarden.adapters.langgraph import GuardedToolCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden import LoopGuard


class Bare(TypedDict):
    """A history whose messages get no ids."""

    messages: Annotated[list[AnyMessage], operator.add]


class Chat(TypedDict):
    """A history under another name, beside another list."""

    plan: list[str]
    chat: Annotated[list[AnyMessage], operator.add]


class Named(TypedDict):
    """A history under another name, with ids."""

    chat: Annotated[list[AnyMessage], add_messages]


class Two(TypedDict):
    """Two histories; the tools are called in the second."""

    messages: Annotated[list[AnyMessage], add_messages]
    chat: Annotated[list[AnyMessage], operator.add]


class Model(BaseModel):
    """A history in a model."""

    messages: Annotated[list[AnyMessage], operator.add]


@dataclasses.dataclass
class Data:
    """A history under another name, in a dataclass."""

    chat: Annotated[list[AnyMessage], operator.add]


STATES: list[Any] = [MessagesState, Bare, Chat, Named, Two, Model, Data]


def ask(question: str, number: int, replies: int, *, call_id: str | None = None) -> AIMessage:
    """A reply without an id that asks for what the person asked for, `replies` times, then "done"."""
    if number >= replies:
        return AIMessage("done")
    call = {"name": "look", "args": {"query": question}, "id": call_id or f"c{number}"}
    return AIMessage("", tool_calls=[call])


def graph(
    guard: LoopGuard,
    state: Any,
    reply: Callable[[str, int], AIMessage],
    tools: list[Any] | None = None,
    *,
    sends: bool = False,
    handles: bool = True,
    retry: RetryPolicy | None = None,
    **options: Any,
) -> Any:
    """A graph that asks `reply(question, replies so far)`, with an object of its own around its tools."""
    key = next((name for name in ("chat", "messages") if name in state.__annotations__), "messages")
    guarded = GuardedToolCalls(guard)
    node = ToolNode(
        [tool(look)] if tools is None else tools,
        wrap_tool_call=guarded.wrap_tool_call,
        awrap_tool_call=guarded.awrap_tool_call,
        handle_tool_errors=handles,
        messages_key=key,
    )

    def history(values: Any) -> list[Any]:
        found: list[Any] = values[key] if isinstance(values, dict) else getattr(values, key)
        return found

    def model(values: Any) -> dict[str, Any]:
        messages = history(values)
        first = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
        replies = sum(isinstance(message, AIMessage) for message in messages[first:])
        return {key: [reply(str(messages[first].content), replies)]}

    def route(values: Any) -> Any:
        calls = history(values)[-1].tool_calls
        if not calls:
            return END
        return [Send("tools", [call]) for call in calls] if sends else "tools"

    built = StateGraph(state)
    built.add_node("model", model)
    built.add_node("tools", node, retry_policy=retry)
    built.add_edge(START, "model")
    built.add_conditional_edges("model", route, ["tools", END])
    built.add_edge("tools", "model")
    compiled = built.compile(**options)
    compiled.key = key
    return compiled


def look(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


def question(agent: Any, text: str) -> dict[str, Any]:
    """What the agent is asked; histories that it does not read are there too, the same each time."""
    asked: dict[str, Any] = {agent.key: [HumanMessage(text)]}
    if agent.builder.state_schema is Two:
        asked["messages"] = [HumanMessage("a note", id="same")]
    if agent.builder.state_schema is Chat:
        asked["plan"] = ["look"]
    return asked


def invoked(agent: Any, value: Any, config: Any = None, way: str = "sync") -> str:
    """The agent's last word."""
    config = {"recursion_limit": 200} | (config or {})
    if way == "sync":
        ended = agent.invoke(value, config)
    elif way == "async":
        ended = asyncio.run(agent.ainvoke(value, config))
    else:
        *_, ended = agent.stream(value, config, stream_mode="values")
    return str(ended[agent.key][-1].content)
