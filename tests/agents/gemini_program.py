"""Gemini CLI, headless, with a scripted model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.agents.gemini_server import GeminiServer
from tests.agents.model_server import Call, Script

if TYPE_CHECKING:
    from tests.agents.place import Ended, Place

EVENTS = (
    "BeforeTool",
    "AfterTool",
    "BeforeAgent",
    "BeforeModel",
    "PreCompress",
    "SessionStart",
    "SessionEnd",
)


def shell(command: str, call_id: str = "") -> Call:
    """A shell command."""
    return Call("run_shell_command", {"command": command}, call_id)


def settings(place: Place, *, guarded: bool) -> dict[str, Any]:
    """Of the user: the own loop detection is off, and the hook is registered."""
    entry = {"hooks": [{"type": "command", "command": place.hook("gemini"), "timeout": 10_000}]}
    return {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "model": {"disableLoopDetection": True},
        "hooks": {event: [entry] for event in EVENTS} if guarded else {},
    }


def run(
    place: Place, command: list[str], script: Script, *options: str, guarded: bool = True, **more: Any
) -> tuple[Ended, GeminiServer]:
    """Run a session to its end; `more` are blocks of the settings.

    Settings that `loopwarden install` has changed are left as they are.
    """
    with GeminiServer(script) as server:
        path = place.home / ".gemini" / "settings.json"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or "loopwarden-hook" not in path.read_text(encoding="utf-8") or guarded:
            path.write_text(json.dumps(settings(place, guarded=guarded) | more), encoding="utf-8")
        environment = {
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
        switches = ("--model", "gemini-2.5-flash", "--approval-mode", "yolo")
        ended = place.run([*command, *switches, *options, "-p", "Look around."], environment)
    return ended, server
