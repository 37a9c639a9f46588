"""Where the blocks stand in a configuration: a bare block, or a file laid out as OpenClaw's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from loopwarden.config.resolve import TOP
from loopwarden.config.schema import LoopDetection
from loopwarden.config.wording import dotted, line_of, nearest, shown
from loopwarden.errors import ConfigProblem

if TYPE_CHECKING:
    from loopwarden.config.document import Document, Path

BLOCK: Final = TOP[-1]

_FIELDS = frozenset(str(one.alias) for one in LoopDetection.model_fields.values())
_OTHER_SECTIONS = frozenset({  # what stands on top of an OpenClaw file beside `tools` and `agents`
    "acp", "approvals", "audio", "auth", "bindings", "broadcast", "browser", "canvasHost",
    "channels", "cli", "commands", "cron", "diagnostics", "discovery", "env", "gateway", "hooks",
    "logging", "mcp", "media", "memory", "messages", "meta", "models", "nodeHost", "plugins",
    "secrets", "session", "skills", "talk", "ui", "update", "web", "wizard",
})  # fmt: skip
_NEAR_MISS = ("loopdetection", "loopdetections", "loopdetector", "loopdetectors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One written block.

    Attributes:
        path: Where it stands; empty for a bare block.
        value: What stands there, unchecked.
        agent: Id of the agent it is for; `None` for all.
    """

    path: Path
    value: Any
    agent: str | None = None


@dataclass(slots=True, kw_only=True)
class Layout:
    """The blocks of one configuration.

    Attributes:
        blocks: In the order of the file, the global one first.
        agents: Ids of all agents that are listed, with or without a block.
        faults: What makes the configuration unusable.
        notices: What is worth saying though it can be used.
    """

    blocks: list[Found] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    faults: list[ConfigProblem] = field(default_factory=list)
    notices: list[ConfigProblem] = field(default_factory=list)


def lay_out(document: Document) -> Layout:
    """Find the blocks; keys of other programs are left alone.

    `tools` or `agents` on top makes a file laid out as OpenClaw's, and so does one of OpenClaw's other
    sections where no field of the block stands beside it; anything else is a bare block.
    """
    finder = _Finder(document)
    top = document.value
    if not isinstance(top, dict):
        finder.fault((), f"{shown(top)} is not allowed; allowed: an object")
    elif "tools" in top or "agents" in top or (not _FIELDS & top.keys() and _OTHER_SECTIONS & top.keys()):
        finder.whole(top)
    else:
        bare = {key: value for key, value in top.items() if key != "$schema"}
        finder.layout.blocks.append(Found(path=(), value=bare))
    finder.duplicates()
    return finder.layout


class _Finder:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.layout = Layout()
        self.ids: dict[str, Path] = {}

    def problem(self, path: Path, message: str, suggestion: str | None = None) -> ConfigProblem:
        line = line_of(path, self.document.lines)
        return ConfigProblem(path=dotted(path), message=message, line=line, suggestion=suggestion)

    def fault(self, path: Path, message: str, suggestion: str | None = None) -> None:
        self.layout.faults.append(self.problem(path, message, suggestion))

    def whole(self, top: dict[str, Any]) -> None:
        self.included((), top)
        for key in top:
            if key in _FIELDS:
                self.fault(
                    (key,), f"stands on top; in a file with tools or agents it belongs under {dotted(TOP)}"
                )
            elif (
                key not in _OTHER_SECTIONS and (near := nearest(key, ("tools", "agents"))) and near not in top
            ):
                self.fault((key,), "unknown key", near)
        if "tools" in top:
            self.tools(("tools",), top["tools"], None)
        if "agents" in top:
            self.agents(top["agents"])

    def tools(self, path: Path, value: Any, agent: str | None) -> None:
        if not isinstance(value, dict):
            self.fault(path, f"{shown(value)} is not allowed; allowed: an object")
            return
        self.included(path, value)
        for key in value:
            if key != BLOCK and key.replace("_", "").replace("-", "").lower() in _NEAR_MISS:
                self.fault((*path, key), "unknown key", BLOCK)
        if BLOCK in value:
            self.layout.blocks.append(Found(path=(*path, BLOCK), value=value[BLOCK], agent=agent))

    def agents(self, value: Any) -> None:
        if not isinstance(value, dict):
            self.fault(("agents",), f"{shown(value)} is not allowed; allowed: an object")
            return
        self.included(("agents",), value)
        listed = value.get("list", [])
        if not isinstance(listed, list):
            self.fault(
                ("agents", "list"), f"{shown(listed)} is not allowed; allowed: a list of objects with an id"
            )
            listed = []
        for index, entry in enumerate(listed):
            path: Path = ("agents", "list", index)
            if self.is_object(path, entry):
                if "id" not in entry:
                    self.fault(path, "an agent without id; add the id of the agent that this is about")
                else:
                    self.agent(path, (*path, "id"), entry["id"], entry)
        entries = value.get("entries", {})
        if self.is_object(("agents", "entries"), entries):
            for key, entry in entries.items():
                path = ("agents", "entries", key)
                if self.is_object(path, entry):
                    self.agent(path, path, key, entry)

    def is_object(self, path: Path, value: Any) -> bool:
        if not isinstance(value, dict):
            self.fault(path, f"{shown(value)} is not allowed; allowed: an object")
        return isinstance(value, dict)

    def agent(self, path: Path, id_path: Path, agent: Any, entry: dict[str, Any]) -> None:
        if not isinstance(agent, str) or not agent:
            self.fault(id_path, f"{shown(agent)} is not allowed; allowed: a string that is not empty")
        elif agent in self.ids:
            self.fault(
                id_path, f"the id {shown(agent)} stands already at {dotted(self.ids[agent])}; allowed: once"
            )
        else:
            self.ids[agent] = id_path
            self.layout.agents.append(agent)
        self.included(path, entry)
        if "tools" in entry:
            self.tools((*path, "tools"), entry["tools"], agent if isinstance(agent, str) else "")

    def included(self, path: Path, value: dict[str, Any]) -> None:
        if "$include" in value:
            message = (
                "parts that are included from other files are not read; only what stands in this file counts"
            )
            self.layout.notices.append(self.problem((*path, "$include"), message))

    def duplicates(self) -> None:
        """Keys written twice, where they decide what is read; elsewhere they are other programs' matter."""
        ours = [found.path for found in self.layout.blocks]
        steps = {path[:end] for path in ours for end in range(1, len(path) + 1)} | {("tools",), ("agents",)}
        steps |= set(self.ids.values()) | {("agents", "list"), ("agents", "entries")}
        for path, line in self.document.duplicates:
            inside = any(path[: len(one)] == one and len(path) > len(one) for one in ours)
            if inside or path in steps:
                message = "the key stands twice; allowed: once"
                self.layout.faults.append(ConfigProblem(path=dotted(path), message=message, line=line))
