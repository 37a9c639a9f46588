"""`loopwarden run` where what it writes to fails: a reader that goes away, a full disk, a damaged journal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from loopwarden.runner.journal import Journal
from loopwarden.runner.places import session_file
from tests.cli.test_main import apart  # noqa: F401 - the fixture is used by every test
from tests.cli.test_run_agent import heads, replayed, state_folder  # noqa: F401 - a fixture
from tests.scan.recordings import write


def test_the_reader_may_go_away(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "abcdefgh" * 200)
    command = f"{sys.executable} -m loopwarden run t --model replay:{path}"
    ended = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 141
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("options", [["--json"], []])
def test_an_output_that_can_not_be_written_ends_the_run(
    tmp_path: Path, state: Path, options: list[str]
) -> None:
    path = write(tmp_path / "a.jsonl", "abcdefgh" * 20)
    command = [sys.executable, "-m", "loopwarden", "run", "t", "--session", "s1", "--model", f"replay:{path}"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*command, *options], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert ended.returncode == 2
    assert ended.stderr == "loopwarden: standard output: No space left on device\n"
    with Journal(session_file(state / "sessions", "s1")) as journal:
        assert [one.state for one in journal.runs()] == ["cancelled"]


@pytest.mark.parametrize("blocks", [0, 8])
def test_a_disk_that_is_full_at_the_start_ends_no_run(tmp_path: Path, state: Path, blocks: int) -> None:
    path = write(tmp_path / "a.jsonl", "abc")
    command = f"ulimit -f {blocks}; exec {sys.executable} -m loopwarden run t --model replay:{path}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0
    assert heads(ended.stdout)[-1] == "done"
    first = ended.stderr.splitlines()[0]
    assert first.startswith(f"loopwarden: {state}")
    assert first.endswith("the run goes on, and this session is not kept")


def test_a_journal_that_can_not_be_used_otherwise_is_a_fault(tmp_path: Path) -> None:
    journal = tmp_path / "a.db"
    journal.write_text("no database" * 100)
    code, _, err = replayed(write(tmp_path / "a.jsonl", "abc"), "--journal", journal)
    assert code == 2
    assert str(journal) in err
