"""Where a coding agent is run: a home and a project of its own, the hook registered, nothing else known."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from loopwarden.hooks.faults import faults

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = "LOOPWARDEN_AGENTS"
"""The variable with the folder that `scripts/check-agents` installs the agents in."""

RUN_SECONDS: Final = 60.0
"""The longest that a run may take."""

HOOK: Final = Path(sys.executable).parent / "loopwarden-hook"

TIGHT: Final = {
    "enabled": True,
    "warningThreshold": 2,
    "criticalThreshold": 3,
    "globalCircuitBreakerThreshold": 4,
    "refusedCallLimit": 2,
}
"""Warns about the third call, refuses the fourth, and ends the run at the fifth."""

TIGHTER: Final = {**TIGHT, "warningThreshold": 1, "criticalThreshold": 2, "globalCircuitBreakerThreshold": 3}
"""Warns about the second call, refuses the third, and ends the run at the fourth."""

LOOSE: Final = {"enabled": True}
"""The defaults: nothing is said in a short session but by the guard after a compaction."""


def program(name: str) -> list[str]:
    """The command of an agent; tests of one that is not installed are skipped.

    Raises:
        FileNotFoundError: `scripts/check-agents` runs the tests, and the program is not there.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        pytest.skip(f"scripts/check-agents installs {name} and runs this", allow_module_level=True)
    row = tomllib.loads((Path(__file__).parent / "agents.toml").read_text(encoding="utf-8"))[name]
    path = Path(folder) / name / "node_modules" / ".bin" / row["program"]
    if not path.exists():
        raise FileNotFoundError(path)
    return [str(path)]


LOOK: Final = "echo the same | tee -a ran"
"""A command that gives the same each time, and leaves a line in the project each time it is executed."""


@dataclass(frozen=True)
class Ended:
    """How a run of an agent ended.

    Attributes:
        code: The exit code.
        out: Standard output.
        err: Standard error.
    """

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Place:
    """A home, a project in it, and the state of the hooks, in a folder of its own.

    Attributes:
        folder: The folder; its path is short enough for a socket.
    """

    folder: Path

    @property
    def home(self) -> Path:
        """The home folder."""
        return self.folder / "home"

    @property
    def project(self) -> Path:
        """The folder that the agent works in."""
        return self.home / "project"

    @property
    def state(self) -> Path:
        """What `LOOPWARDEN_STATE` names."""
        return self.folder / "state"

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What went through the hook: `event`, `answer` and `code` of each."""
        path = self.folder / "events.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of a name that the hook was sent."""
        found = (line["event"] for line in self.lines)
        return [event for event in found if event["hook_event_name"] == name]

    @property
    def ran(self) -> int:
        """How often the command `LOOK` was executed."""
        path = self.project / "ran"
        return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Write the project's configuration."""
        block = json.dumps({"tools": {"loopDetection": settings}})
        (self.project / "loopwarden.json5").write_text(block, encoding="utf-8")

    def hook(self, host: str) -> str:
        """The command of the hook, which also writes down what it is sent."""
        line = [
            sys.executable,
            "-S",
            str(Path(__file__).parent / "hook_tap.py"),
            str(self.folder),
            str(HOOK),
            host,
        ]
        return shlex.join(line)

    def loopwarden(self, *words: str, **variables: str) -> None:
        """Run a command of loopwarden as the user of this home would, which has to succeed."""
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LOOPWARDEN_STATE": str(self.state)}
        own |= variables
        command = [str(HOOK.parent / "loopwarden"), *words]
        subprocess.run(
            command, cwd=self.project, env=own, capture_output=True, check=True, timeout=RUN_SECONDS
        )

    def run(self, command: list[str], environment: Mapping[str, str], text: str | None = None) -> Ended:
        """Run an agent in the project, with nothing of the outer environment but the path."""
        outer = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": str(self.home), "LOOPWARDEN_STATE": str(self.state), "NO_PROXY": "*", "NO_COLOR": "1"}
        ended = subprocess.run(
            command,
            cwd=self.project,
            env={**outer, **own, **environment},
            input=text or "",
            capture_output=True,
            encoding="utf-8",
            timeout=RUN_SECONDS,
            check=False,
        )
        assert faults(self.state) == []
        return Ended(ended.returncode, ended.stdout, ended.stderr)
