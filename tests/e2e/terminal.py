"""`loopwarden run` in a process of its own: one task of one agent."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.e2e.gateway import PATIENCE, environment
from tests.e2e.stage import Played

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.e2e.stage import Lines, Play, Plays


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where the command is given.

    Attributes:
        folder: Its home and working directory.
        config: What stands in its settings.
        plays: What the model says.
    """

    folder: Path
    config: Mapping[str, Any]
    plays: Plays

    def start(self, agent: str, task: str, *more: str) -> subprocess.Popen[bytes]:
        """The command as it runs, with more options; it tells what happens as JSON lines."""
        settings = self.folder / "loopwarden.json5"
        settings.write_text(json.dumps(self.config), encoding="utf-8")
        options = ["--config", str(settings), "--agent", agent, "--json", *more]
        return subprocess.Popen(
            [sys.executable, "-m", "loopwarden", "run", task, *options],
            cwd=self.folder,
            env=environment(self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def play(self, agent: str, lines: Lines, *more: str) -> tuple[Play, Played, int]:
        """A new play to its end, what became of it, and the exit code."""
        play = self.plays.stage(lines)
        with self.start(agent, f"Please do {play.name}.", *more) as process:
            out, err = process.communicate(timeout=PATIENCE)
        played = happened(out)
        assert played.events[-1:], err.decode()
        return play, played, process.returncode


def happened(out: bytes) -> Played:
    """What was told of the run, without those of its sub-agents."""
    told = [json.loads(line) for line in out.splitlines()]
    events = [event for event in told if event["run"] == told[0]["run"]]
    end = events[-1]["data"]
    return Played({"run": events[-1]["run"], "state": end["reason"], **end}, events)
