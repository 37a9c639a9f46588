"""What a process that was killed left running is found by the next owner of its file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai")

from loopwarden.runner.process_tree import end_marked, owner_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

OWNER = """
    import asyncio, os, signal, sys
    from pathlib import Path
    from loopwarden.runner.process_tree import owner_of
    from loopwarden.runner.processes import Processes

    async def main():
        processes = Processes(owner_of(Path(sys.argv[1])))
        command = await processes.start("echo $$; sleep 600 & wait", Path.cwd())
        print(command.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
"""


def left_by(path: Path) -> int:
    """The process that a killed owner of a file left running."""
    code = textwrap.dedent(OWNER)
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    return int(ended.stdout)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_next_owner_ends_it_and_nobody_else_does(tmp_path: Path) -> None:
    pid = left_by(tmp_path / "one.db")
    try:
        assert end_marked(owner_of(tmp_path / "two.db")) == 0
        assert alive(pid)
        assert end_marked(owner_of(tmp_path / "one.db")) >= 1
        until = time.monotonic() + 60
        while alive(pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert not alive(pid)
    finally:
        if alive(pid):
            os.killpg(pid, signal.SIGKILL)


def test_the_same_file_has_the_same_owner_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert owner_of(Path("one.db")) == owner_of(tmp_path / "one.db")
    assert owner_of(Path("one.db")) != owner_of(Path("two.db"))
