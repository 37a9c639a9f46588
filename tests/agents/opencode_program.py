"""opencode, headless, with a scripted model and the plug-in in its folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from loopwarden.hooks.plugins import PLUGINS
from tests.agents.chat_server import ChatRequest, ChatServer
from tests.agents.place import HOOK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.agents.model_server import Script
    from tests.agents.place import Ended, Place

ENVIRONMENT = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
MCP_SERVER = Path(__file__).parent / "mcp_server.py"
_SUMMARIZE = "Here is the conversation so far:"
_TITLE = "Generate a title for this conversation:"


class OpencodeRequest(ChatRequest):
    """A request for a completion."""

    @property
    def asks_for_summary(self) -> bool:
        """The client compacts the history."""
        return str(self.messages[-1]["content"]).startswith(_SUMMARIZE)


class OpencodeServer(ChatServer):
    """The server; titles of sessions are no part of the script."""

    def read(self, path: str, body: dict[str, Any]) -> OpencodeRequest | None:
        """The request for a reply that this is; that for a title is answered with 404, which is no harm."""
        request = OpencodeRequest(path, body) if path.endswith("/chat/completions") else None
        return None if request is None or _TITLE in request.text else request


def install(place: Place, command: Sequence[str] = (str(HOOK),)) -> None:
    """Put the plug-in where it belongs."""
    plugin = PLUGINS["opencode"]
    for name, data in plugin.contents(command).items():
        path = place.home / ".config" / "opencode" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data, encoding="utf-8")


def run(
    place: Place,
    command: list[str],
    script: Script,
    *words: str,
    limit: int = 200_000,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Ended, OpencodeServer]:
    """Run a session to its end.

    Args:
        place: Where.
        command: The program.
        script: What the model does.
        words: Further arguments.
        limit: The model's context in tokens.
        variables: Variables that name folders of the program.
    """
    with OpencodeServer(script) as server:
        folder = Path(variables.get("XDG_CONFIG_HOME", place.home / ".config")) / "opencode"
        for one in (folder, Path(variables.get("OPENCODE_CONFIG_DIR", folder))):
            one.mkdir(parents=True, exist_ok=True)
            library = one / "node_modules"
            if not library.exists():
                # the library for plug-ins is installed there, with an endless wait where there is no network
                library.symlink_to(Path(command[-1]).parent.parent)
        (folder / "opencode.json").write_text(json.dumps(_settings(server.url, limit)), encoding="utf-8")
        switches = ("--format", "json", "--print-logs", "--log-level", "WARN")
        ended = place.run([*command, "run", *switches, *words, "Look around."], {**ENVIRONMENT, **variables})
    return ended, server


def calls_shown(ended: Ended) -> list[dict[str, Any]]:
    """The state of each call that the program shows to the user."""
    lines = [json.loads(line) for line in ended.out.splitlines() if line.startswith("{")]
    return [line["part"]["state"] for line in lines if line["type"] == "tool_use"]


def _settings(url: str, limit: int) -> dict[str, Any]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"m": {"name": "M", "limit": {"context": limit, "output": 1000}}},
    }
    return {
        "model": "scripted/m",
        "small_model": "scripted/m",
        "provider": {"scripted": provider},
        "mcp": {"files": {"type": "local", "command": [sys.executable, str(MCP_SERVER)]}},
        "permission": "allow",
    }
