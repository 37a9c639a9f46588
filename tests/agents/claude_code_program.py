"""Claude Code, headless, with a scripted model."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from loopwarden.hooks.ledger import Ledger
from loopwarden.hooks.places import SESSIONS_FILE
from tests.adapters.anthropic_server import AnthropicServer, calling
from tests.agents.place import LOOK
from tests.agents.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.adapters.anthropic_server import Block, Script
    from tests.agents.place import Ended, Place

HOST: Final = "claude-code"

EVENTS: Final = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "UserPromptSubmit",
    "PreCompact",
    "PostCompact",
    "SessionStart",
    "SessionEnd",
)
"""Those of the table, and some that show what happened."""

PRINT: Final = ("-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")

HOOK_SECONDS: Final = 10


def bash(call_id: str, command: str = LOOK) -> Block:
    """A shell command."""
    return calling("Bash", {"command": command, "description": "look"}, call_id)


def looks(times: int, first: int = 1) -> list[list[Block]]:
    """Replies with the same command each."""
    return [[bash(f"toolu_{number}")] for number in range(first, first + times)]


def settings(place: Place) -> Path:
    """The user's settings; the server's `environment` names the folder."""
    return place.home / "config" / "settings.json"


def register(
    place: Place, command: str | None = None, *, path: Path | None = None, seconds: float = HOOK_SECONDS
) -> None:
    """Register a command for all events, by default the hook, in the user's settings or another file."""
    hook = {"type": "command", "command": command or place.hook(HOST), "timeout": seconds}
    path = path or settings(place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": {event: [{"hooks": [hook]}] for event in EVENTS}}))


def run(
    place: Place,
    command: list[str],
    script: Script,
    *options: str,
    prompt: str = "Look around.",
    flags: Sequence[str] = PRINT,
    **variables: str,
) -> tuple[Ended, AnthropicServer]:
    """Run a session to its end."""
    with AnthropicServer(script) as server:
        given = {name: value for name, value in server.environment(place.home).items() if value}
        root = {"IS_SANDBOX": "1"}  # so that root may skip permissions, too
        ended = place.run([*command, *flags, *options, prompt], {**given, **root, **variables})
    return ended, server


@contextmanager
def in_a_terminal(
    place: Place, command: list[str], script: Script, *options: str
) -> Iterator[tuple[Terminal, AnthropicServer]]:
    """A session in a terminal: nothing is asked at the start, and shell commands need no permission."""
    path = settings(place)
    given = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(
            {
                **given,
                "permissions": {
                    "allow": ["Bash"],
                    "defaultMode": "acceptEdits",
                    "disableAutoMode": "disable",
                },
            }
        )
    )
    seen = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    (path.parent / ".claude.json").write_text(
        json.dumps(
            {
                "hasCompletedOnboarding": True,
                "theme": "dark",
                "customApiKeyResponses": {"approved": ["none"], "rejected": []},
                "projects": {str(place.project): seen},
            }
        )
    )
    with AnthropicServer(script) as server:
        variables = {name: value for name, value in server.environment(place.home).items() if value}
        variables |= {"LOOPWARDEN_STATE": str(place.state), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        with Terminal([*command, *options], place.project, variables) as terminal:
            terminal.await_text("accept edits on")
            yield terminal, server


def ask(terminal: Terminal, prompt: str) -> None:
    """Type a prompt and send it."""
    terminal.press(prompt)
    terminal.await_text(prompt)
    terminal.press("\r")


def result(ended: Ended) -> dict[str, Any]:
    """The last message of a run."""
    message: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    return message


def done(place: Place) -> list[tuple[str, str | None]]:
    """What the guard did, and who found it."""
    ledger = Ledger(place.state / SESSIONS_FILE)
    try:
        return [(deed.action, deed.detector) for deed in ledger.deeds(0)]
    finally:
        ledger.close()
