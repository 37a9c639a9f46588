"""Where the known programs keep their sessions, for a search without a path."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place where a program keeps its sessions.

    Attributes:
        program: Name of the program.
        pattern: Path of the folder or file, with `*` for any name; an argument of `discover`.
        exists: Whether there is anything.
    """

    program: str
    pattern: str
    exists: bool


def known_locations(
    environment: Mapping[str, str] | None = None, home: Path | None = None
) -> tuple[Location, ...]:
    """The session folders of the known programs, in a fixed order.

    Args:
        environment: Environment variables, by default those of the process. Variables by which the
            programs are told another place are honoured.
        home: The person's home folder, by default that of the process.
    """
    environment = os.environ if environment is None else environment
    home = Path.home() if home is None else home

    def base(variables: str, *default: str) -> str:
        """The folder that the first of the variables names that is set, else the usual one."""
        value = next((v for name in variables.split() if (v := environment.get(name, "").strip())), "")
        return glob.escape(os.path.expanduser(value) if value else str(home.joinpath(*default)))  # noqa: PTH111 - "~" of the process

    claude = base("CLAUDE_CONFIG_DIR", ".claude")
    codex = base("CODEX_HOME", ".codex")
    gemini = base("GEMINI_CLI_HOME", ".")
    openclaw = base("OPENCLAW_STATE_DIR", ".openclaw")
    pi = base("PI_CODING_AGENT_DIR", ".pi", "agent")
    data = base("XDG_DATA_HOME", ".local", "share")
    hermes = base("HERMES_HOME", ".hermes")
    qwen = base("QWEN_RUNTIME_DIR QWEN_HOME", ".qwen")
    places = (
        ("Claude Code", claude, "projects"),
        ("Codex CLI", codex, "sessions"),
        ("Codex CLI", codex, "archived_sessions"),
        ("Gemini CLI", gemini, ".gemini/tmp/*/chats"),
        ("OpenClaw", openclaw, "agents/*/sessions"),
        ("pi", pi, "sessions"),
        ("opencode", data, "opencode/storage"),
        ("opencode", data, "opencode/opencode.db"),
        ("Hermes", hermes, "state.db"),
        ("Qwen Code", qwen, "tmp/*/chats"),
        ("Qwen Code", qwen, "projects/*/chats"),
    )
    return tuple(
        Location(program=program, pattern=pattern, exists=next(glob.iglob(pattern), None) is not None)  # noqa: PTH207 - absolute patterns
        for program, folder, rest in places
        for pattern in [os.path.join(folder, *rest.split("/"))]  # noqa: PTH118 - text, not a path
    )
