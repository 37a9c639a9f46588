"""Qwen Code, headless, with a scripted model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.agents.chat_server import ChatServer
from tests.agents.model_server import Call, Script

if TYPE_CHECKING:
    from tests.agents.place import Ended, Place

EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PreCompact",
    "PostCompact",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
)


def shell(command: str, call_id: str = "") -> Call:
    """A shell command; of one that is over at once the program may lose the output."""
    return Call("run_shell_command", {"command": f"{command}; sleep 0.3", "is_background": False}, call_id)


def settings(place: Place, *, guarded: bool) -> dict[str, Any]:
    """Of the user, with the hook registered."""
    entry = {"hooks": [{"type": "command", "command": place.hook("qwen"), "timeout": 10_000}]}
    return {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "telemetry": {"enabled": False},
        "$version": 4,
        "hooks": {event: [entry] for event in EVENTS} if guarded else {},
    }


def run(
    place: Place, command: list[str], script: Script, *options: str, guarded: bool = True, **more: Any
) -> tuple[Ended, ChatServer]:
    """Run a session to its end; `more` are blocks of the settings.

    Settings that `loopwarden install` has changed are left as they are.
    """
    with ChatServer(script) as server:
        path = place.home / ".qwen" / "settings.json"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or "loopwarden-hook" not in path.read_text(encoding="utf-8") or guarded:
            path.write_text(json.dumps(settings(place, guarded=guarded) | more), encoding="utf-8")
        environment = {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_MODEL": "scripted",
        }
        switches = ("--approval-mode", "yolo")
        ended = place.run([*command, *switches, *options, "-p", "Look around."], environment)
    return ended, server
