"""Commands of agents that say who they are, so that a test can see whether they still run."""

from __future__ import annotations

import os
from pathlib import Path

from tests.e2e.gateway import wait_until
from tests.runner.model_server import Call


def sleeper(name: str, *, background: bool = False) -> Call:
    """A command that takes for ever and writes its process id into a file."""
    command = f"echo $$ > {name}.part; mv {name}.part {name}; exec sleep 600"
    return Call("exec", {"command": command, "background": background})


def pid_in(path: Path) -> int:
    """The id that such a command wrote."""
    wait_until(path.exists, f"the command that writes {path.name}")
    return int(path.read_text())


def ends(pid: int) -> None:
    """Wait until the process is over."""
    wait_until(lambda: not alive(pid), "the command to end")


def alive(pid: int) -> bool:
    """Whether it runs; one that is over and waits to be noticed does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()
