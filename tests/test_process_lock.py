"""A lock that one process has, and that goes with it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fcntl", reason="there are no such locks on Windows")

from loopwarden.process_lock import TakenError, take

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = """
import sys
from pathlib import Path
from loopwarden.process_lock import take
take(Path(sys.argv[1]))
print("taken", flush=True)
sys.stdin.read()
"""


def test_another_process_is_named_and_its_end_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        with pytest.raises(TakenError, match=f"in use by process {holder.pid}") as taken:
            take(path)
        assert taken.value.owner == f"process {holder.pid}"
        holder.kill()
        holder.wait()
        os.close(take(path))
    assert path.read_text() == f"{os.getpid()}\n"


def test_what_stands_in_the_file_is_no_more_than_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = take(path)
    path.write_text("\x1b[31mnonsense, and a longer one than was there")
    with pytest.raises(TakenError, match=r"in use by another process$"):
        take(path)
    os.close(held)
    os.close(take(path))
    assert path.read_text() == f"{os.getpid()}\n"


def test_it_is_for_its_owner_only_and_follows_no_link(tmp_path: Path) -> None:
    path, other = tmp_path / "lock", tmp_path / "precious"
    os.close(take(path))
    assert path.stat().st_mode & 0o777 == 0o600
    other.write_text("precious")
    path.unlink()
    path.symlink_to(other)
    with pytest.raises(OSError, match="lock"):
        take(path)
    assert other.read_text() == "precious"
