"""Codex CLI, headless, with a scripted model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.agents.model_server import Call, Script
from tests.agents.responses_server import ResponsesServer

if TYPE_CHECKING:
    from tests.agents.place import Ended, Place

EVENTS = ("PreToolUse", "PostToolUse", "PreCompact", "PostCompact", "SessionStart", "SessionEnd")

CONFIG = """
model = "scripted"
model_provider = "scripted"
model_context_window = 10000
model_auto_compact_token_limit = 8000
approval_policy = "never"
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
base_url = "{url}/v1"
"""
"""Offline, one try a request, compaction after a reply that says it took 8,000 tokens or more."""


def shell(command: str, call_id: str = "") -> Call:
    """A shell command."""
    return Call("exec_command", {"cmd": command}, call_id)


def register(place: Place) -> None:
    """Register the hook for the user."""
    entry = {"hooks": [{"type": "command", "command": place.hook("codex"), "timeout": 10}]}
    path = place.home / ".codex" / "hooks.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": {event: [entry] for event in EVENTS}}), encoding="utf-8")


def run(
    place: Place, command: list[str], script: Script, *options: str, trusted: bool = True
) -> tuple[Ended, ResponsesServer]:
    """Run a session to its end; `trusted`: the hooks are taken for trusted."""
    with ResponsesServer(script) as server:
        path = place.home / ".codex" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(CONFIG.format(url=server.url), encoding="utf-8")
        trust = ["--dangerously-bypass-hook-trust"] if trusted else []
        switches = ["--skip-git-repo-check", *trust, *options]
        ended = place.run([*command, "exec", *switches, "Look around."], {})
    return ended, server
