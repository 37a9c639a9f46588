"""Folders and files as they are in the wild: named, skipped, counted, and nothing ends the search."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import FORMATS, Candidate, ReadNotes, Skipped, discover, read
from tests.fuzz.judge import check_error, check_items
from tests.transcripts.facts import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from loopwarden.transcripts import Item

CALL: Final = '{"type":"call","id":"%d","tool":"look"}\n'
NAMES: Final = (
    "a\nb.jsonl",
    "\x1b[31mred.jsonl",
    b"\xff\xfe.jsonl",
    "\u202egpj.jsonl",
    "x" * 240 + ".jsonl",
    " .jsonl",
)
NOBODY: Final = 65_534
ROOT: Final = Path(__file__).parents[2]


def test_names_are_safe_wherever_they_are_shown(tmp_path: Path) -> None:
    for name in NAMES:
        path = tmp_path / (os.fsdecode(name) if isinstance(name, bytes) else name)
        path.write_text(CALL % 1)
        path.with_name(path.name + ".json").write_text("no run")
    found = list(discover([tmp_path]))
    assert len(found) == 2 * len(NAMES)
    for entry in found:
        label = entry.source.label if isinstance(entry, Candidate) else entry.label
        assert label.isprintable()
    for path in tmp_path.iterdir():
        if path.suffix == ".json":
            with pytest.raises(TranscriptError) as raised:
                read(path)
            assert str(raised.value).isprintable()
        else:
            items = list(read(path).items)
            check_items(items)
            assert len(items) == 2


@pytest.mark.parametrize("name", ["a\0b", "x" * 5_000, "no/such/file", "/dev/null/x", ""])
def test_paths_that_lead_nowhere(name: str) -> None:
    with pytest.raises(TranscriptError) as raised:
        list(read(name, format="events").items)
    assert str(raised.value).isprintable()
    assert [type(entry) for entry in discover([name])] == [Skipped]


def test_circles_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "run.jsonl").write_text(CALL % 1)
    (tmp_path / "a" / "to_b").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "to_a").symlink_to(tmp_path / "a")
    (tmp_path / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "b" / "self.jsonl").symlink_to("self.jsonl")
    (tmp_path / "b" / "again.jsonl").symlink_to(tmp_path / "a" / "run.jsonl")
    found = list(discover([tmp_path]))
    assert [entry.source.path for entry in found if isinstance(entry, Candidate)] == [
        tmp_path / "a" / "run.jsonl"
    ]
    assert [entry.why for entry in found if isinstance(entry, Skipped)] == ["unreadable"]


def test_devices_and_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    found = list(discover([tmp_path, "/dev/null", "/dev/zero"]))
    assert [entry.why for entry in found if isinstance(entry, Skipped)] == ["special"] * len(found)
    assert len(found) == 3  # the link and what it leads to are one


READS_AS_NOBODY: Final = """
import os, sys
from loopwarden.errors import TranscriptError
from loopwarden.transcripts import discover, read
if os.geteuid() == 0:
    os.setgroups([])
    os.seteuid({nobody})
for entry in discover([sys.argv[1]]):
    print(type(entry).__name__, getattr(entry, "why", ""))
for name in ("run.jsonl", "folder/run.jsonl", "folder"):
    try:
        read(os.path.join(sys.argv[1], name))
    except TranscriptError as error:
        print(error)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can come to; those that pytest makes are for their owner."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_what_the_system_refuses(open_folder: Path) -> None:
    (open_folder / "fine.jsonl").write_text(CALL % 1)
    (open_folder / "fine.jsonl").chmod(0o644)
    (open_folder / "run.jsonl").write_text(CALL % 1)
    (open_folder / "run.jsonl").chmod(0)
    (open_folder / "folder").mkdir(mode=0)
    ended = subprocess.run(
        [sys.executable, "-c", READS_AS_NOBODY.format(nobody=NOBODY), str(open_folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    (open_folder / "folder").chmod(0o700)
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        "Candidate ",
        "Skipped unreadable",
        "Skipped unreadable",
        f"{open_folder / 'run.jsonl'}: Permission denied",
        f"{open_folder / 'folder/run.jsonl'}: Permission denied",
        f"{open_folder / 'folder'}: no known format of recorded runs (known: "
        + ", ".join(reader.name for reader in FORMATS)
        + ")",
    ]


MANY: Final = 5_000


def test_memory_of_a_search_does_not_grow_with_the_files(tmp_path: Path) -> None:
    line = json.dumps({"type": "outcome", "id": "1", "result": "x" * 20_000}) + "\n"
    (tmp_path / "first.jsonl").write_text(line * 4)
    for number in range(MANY):
        os.link(tmp_path / "first.jsonl", tmp_path / f"{number}.jsonl")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = list(discover([tmp_path]))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(found) == MANY + 1
    assert all(isinstance(entry, Candidate) for entry in found)
    assert after - before < MANY * 8  # KiB; the beginning of a file alone has 64


LIVING: Final = [
    "claude-code/synthetic_edge_cases.jsonl",
    "codex/rollout-2026-01-02T03-04-05-11111111-1111-4111-8111-111111111111.jsonl",
    "openclaw/openclaw_v3_real_head.jsonl",
    "converted/opencode/run_format_json.jsonl",
    "converted/hermes/sessions_export.jsonl",
    "converted/gemini-cli/session-2025-06-01T09-10-5e6f7a8b.jsonl",
    "converted/langsmith/runs.jsonl",
    "converted/openhands/v1_events.jsonl",
    "converted/atif/period6_cycle.trajectory.json",
    "inspect/log_tool_call_error.json",
]


def _grow(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data[: len(data) // 3])  # ends within a line


def _shrink(path: Path, data: bytes) -> None:
    os.truncate(path, len(data) // 2)


def _vanish(path: Path, _: bytes) -> None:
    path.unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(bytes(reversed(data)))


def _become_folder(path: Path, _: bytes) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("change", [_grow, _shrink, _vanish, _replace, _become_folder])
@pytest.mark.parametrize("after", [-1, 0, 1, 7])
@pytest.mark.parametrize("name", LIVING)
def test_files_that_change_while_they_are_read(
    name: str, after: int, change: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    """It changes once `after` more items were read; -1: right after the detection."""
    data = (SAMPLES / name).read_bytes()
    path = tmp_path / "run"
    path.write_bytes(data)
    notes = ReadNotes()
    transcript = read(path, notes=notes)
    items: list[Item] = []
    try:
        items += _with_change(transcript.items, after, lambda: change(path, data))
    except TranscriptError as error:
        check_error(error, str(path))
    check_items(items)


def _with_change(items: Iterator[Item], after: int, change: Callable[[], None]) -> Iterator[Item]:
    if after < 0:
        change()
    for number, item in enumerate(items):
        yield item
        if number == after:
            change()


def test_a_file_that_grows_is_said_to_grow(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    data = (SAMPLES / "openclaw/openclaw_v3_real_head.jsonl").read_bytes()
    path.write_bytes(data)
    notes = ReadNotes()
    list(_with_change(read(path, notes=notes).items, 1, lambda: _grow(path, data)))
    assert notes.counts["still_growing"] == 1
