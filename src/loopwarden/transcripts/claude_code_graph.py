"""Which records of a Claude Code session were abandoned by a rewind or a retried reply.

Not every fork in the graph is one: parallel calls fork too (each result hangs on its own call, while
the reply goes on), and notices of the program hang anywhere. Only a fork where a person or the model
spoke twice after the same record is a fork of the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

_Kind: TypeAlias = Literal["prompt", "reply", "result", "other"]


@dataclass(frozen=True, slots=True)
class _Node:
    above: int  # place of the parent, -1 for none in the file
    kind: _Kind
    reply: str | None  # message id of a reply
    agent: str | None  # "" for a sidechain without a name


def abandoned(records: Iterable[dict[str, Any]]) -> set[int]:
    """Places (from 0, over all records) of the abandoned records."""
    nodes: list[_Node] = []
    places: dict[str, int] = {}
    children: dict[tuple[int, str | None], list[int]] = {}
    for place, record in enumerate(records):
        node = _node(record, places)
        nodes.append(node)
        uuid = record.get("uuid")
        if isinstance(uuid, str) and places.setdefault(uuid, place) != place:
            continue  # a copy; the reader leaves it out
        if node.above >= 0 and node.kind != "other":
            children.setdefault((node.above, node.agent), []).append(place)
    last = list(range(len(nodes)))  # newest record that was said below
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        if node.kind == "other" and last[place] == place:
            last[place] = -1
        if node.above >= 0:
            last[node.above] = max(last[node.above], last[place])
    dead: set[int] = set()
    for (above, _), forks in children.items():
        if len(forks) > 1:
            dead.update(_given_up(nodes, above, forks, last))
    if dead:
        for place, node in enumerate(nodes):
            if node.above in dead:
                dead.add(place)
    return dead


def _given_up(nodes: list[_Node], above: int, forks: list[int], last: list[int]) -> list[int]:
    """The children of one record that were given up for a later one."""
    live = max(forks, key=lambda place: last[place])
    same_reply = {nodes[above].reply, nodes[live].reply} - {None}
    return [
        place
        for place in forks
        if place != live
        and (
            nodes[place].kind == "prompt"
            or (nodes[place].kind == "reply" and nodes[place].reply not in same_reply)
        )
    ]


def _node(record: dict[str, Any], places: dict[str, int]) -> _Node:
    message = record.get("message")
    kind: _Kind = "other"
    reply = None
    if isinstance(message, dict):
        if record.get("type") == "assistant":
            kind = "reply"
            identity = message.get("id")
            reply = identity if isinstance(identity, str) else None
        elif record.get("type") == "user":
            kind = "result" if is_tool_result(message.get("content")) else "prompt"
    agent = record.get("agentId")
    side = record.get("isSidechain") is True
    above = record.get("parentUuid")
    return _Node(
        above=places.get(above, -1) if isinstance(above, str) else -1,
        kind="other" if record.get("isMeta") is True else kind,
        reply=reply,
        agent=(agent if isinstance(agent, str) else "") if side else None,
    )


def is_tool_result(content: object) -> bool:
    """Whether the content of a user record holds results of tools rather than words of a person."""
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    )
