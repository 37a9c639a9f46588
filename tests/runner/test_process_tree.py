"""Processes of a command that show no environment for a moment."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai")

from loopwarden.runner import process_tree
from loopwarden.runner.process_tree import MARK, end_marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

PAUSE = time.sleep


def environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        PAUSE(0.005)


@contextmanager
def blank(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process without an environment, which becomes one with the mark when it reads a line."""
    command = ["/bin/sh", "-c", f"echo; read go; exec env {MARK}={mark}.1 sleep 600"]
    with subprocess.Popen(command, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None
            started.stdout.readline()
            assert environment(started.pid) == b""
            yield started
        finally:
            started.kill()


def test_one_that_becomes_another_program_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "_NEW", sys.maxsize)
    with blank("test-becomes") as started:

        def goes_on(_: float) -> None:
            if started.stdin is not None and not started.stdin.closed:
                started.stdin.write(b"\n")
                started.stdin.close()
                until(lambda: b"test-becomes" in environment(started.pid))

        monkeypatch.setattr(time, "sleep", goes_on)
        assert end_marked("test-becomes") == 1
        assert started.wait(60) == -9


def test_one_that_was_started_without_an_environment_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "_NEW", 0)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("nothing is to be waited for"))
    with blank("test-stays") as started:
        assert end_marked("test-stays") == 0
        assert started.poll() is None
