from __future__ import annotations

import gzip
import io
import json
import os
import socket
from pathlib import Path

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.transcripts.discover import DEEPEST, Candidate, Skipped, discover, printable
from loopwarden.transcripts.model import ReadNotes
from tests.transcripts.facts import SAMPLES

EVENT = json.dumps({"type": "call", "id": "a", "tool": "x"}) + "\n"


def found(*arguments: object, **options: object) -> list[tuple[str, str]]:
    """Each entry as its file name and the reader's name, or the reason in brackets."""
    entries = discover(arguments, **options)  # type: ignore[arg-type]  # paths and options of the test
    return [
        (
            Path(entry.label if isinstance(entry, Skipped) else entry.source.label).name,
            f"[{entry.why}]" if isinstance(entry, Skipped) else entry.reader.name,
        )
        for entry in entries
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.jsonl").write_text(EVENT)
    (tmp_path / "a.jsonl").write_text(EVENT)
    (tmp_path / "c.json").write_text('{"not": "ours"}')
    (tmp_path / "d.log").write_text("nothing to see\n")
    (tmp_path / "e.py").write_text(EVENT)  # an ending that no recorded run has
    (tmp_path / "f.gz").write_bytes(gzip.compress(EVENT.encode()))
    (tmp_path / "g.jsonl").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.jsonl").write_text(EVENT)
    return tmp_path


IN_FOLDER = [
    ("a.jsonl", "events"),
    ("one.jsonl", "events"),
    ("c.json", "[unknown_format]"),
    ("f.gz", "events"),
    ("g.jsonl", "[empty]"),
]


def test_a_folder_is_gone_through_in_order_and_others_are_passed_over(folder: Path) -> None:
    assert found(folder) == IN_FOLDER


def test_nothing_comes_twice(folder: Path) -> None:
    (folder / "z.jsonl").symlink_to(folder / "a.jsonl")
    (folder / "zz").symlink_to(folder)  # a loop
    assert found(folder, folder / "a.jsonl", folder / "b", f"{folder}/*.jsonl") == IN_FOLDER


def test_a_named_file_is_always_answered_for(folder: Path) -> None:
    names = ("e.py", "d.log", "g.jsonl", "nowhere", "*.nothing")
    assert found(*(folder / name for name in names)) == [
        ("e.py", "events"),
        ("d.log", "[unknown_format]"),
        ("g.jsonl", "[empty]"),
        ("nowhere", "[missing]"),
        ("*.nothing", "[missing]"),
    ]


def test_patterns_and_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert found("~/**/one.jsonl", "~/a.*") == [("one.jsonl", "events"), ("a.jsonl", "events")]
    (folder / "[x].jsonl").write_text(EVENT)
    assert found(folder / "[x].jsonl") == [("[x].jsonl", "events")]


def test_special_files_broken_links_and_what_the_system_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "never")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock.jsonl")
        assert found(tmp_path) == [
            ("gone.jsonl", "[missing]"),
            ("loop.jsonl", "[unreadable]"),
            ("pipe.jsonl", "[special]"),
            ("sock.jsonl", "[special]"),
        ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0)
    (tmp_path / "b.jsonl").write_text(EVENT)
    (tmp_path / "b.jsonl").chmod(0)
    assert found(tmp_path) == [("a", "[unreadable]"), ("b.jsonl", "[unreadable]")]


def test_a_file_that_is_no_gzip_inside(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8b and then nothing of the kind")
    [entry] = discover([tmp_path])
    assert isinstance(entry, Skipped)
    assert entry.why == "unreadable"


def test_folders_too_deep_end_the_way_down(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*("d" for _ in range(DEEPEST + 2)))
    deep.mkdir(parents=True)
    (deep / "a.jsonl").write_text(EVENT)
    assert found(tmp_path) == [("d", "[unreadable]")]


def test_standard_input_once() -> None:
    stream = io.BytesIO(gzip.compress(EVENT.encode()))
    assert found("-", "-", stdin=stream) == [("(standard input)", "events"), ("-", "[missing]")]
    assert found("-", stdin=io.BytesIO(b"  \n")) == [("(standard input)", "[empty]")]
    assert found("-") == [("-", "[missing]")]


def test_a_stream_that_the_shell_made() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "wb") as stream:
        stream.write(EVENT.encode())
    try:
        [entry] = discover([f"/dev/fd/{read}"])
    finally:
        os.close(read)
    assert isinstance(entry, Candidate)
    assert entry.modified is None
    assert [number for number, _ in entry.source.records(ReadNotes())] == [1]


def test_size_and_time_of_change(folder: Path) -> None:
    os.utime(folder / "a.jsonl", (1_000, 2_000))
    [entry] = discover([folder / "a.jsonl"])
    assert isinstance(entry, Candidate)
    assert (entry.size, entry.modified) == (len(EVENT), 2_000)


def test_a_folder_that_is_one_recording_comes_as_one(tmp_path: Path) -> None:
    for name in ("session/p", "message/s", "part/m"):
        (tmp_path / "storage" / name).mkdir(parents=True)
    (tmp_path / "storage" / "session" / "p" / "s.json").write_text("{}")
    assert found(tmp_path / "storage") == [("storage", "opencode")]
    [entry] = discover([tmp_path])
    assert isinstance(entry, Candidate)
    assert entry.source.kind == "folder"


def test_a_named_format_is_taken_for_granted(folder: Path) -> None:
    assert found(folder / "c.json", format="codex") == [("c.json", "codex")]
    unknown = [(name, reason if reason == "[empty]" else "[unknown_format]") for name, reason in IN_FOLDER]
    assert found(folder, format="codex") == unknown
    assert found(folder, format="events") == IN_FOLDER
    with pytest.raises(TranscriptError, match="did you mean 'codex'"):
        found(folder, format="codexx")


def test_all_samples_are_found() -> None:
    entries = list(discover([SAMPLES]))
    assert [entry.label for entry in entries if isinstance(entry, Skipped)] == []
    assert len(entries) == sum(path.is_file() for path in SAMPLES.rglob("*")) - 1  # the list of sources


def test_names_are_safe_to_print() -> None:
    assert (
        printable(os.fsdecode(b"a\xff\x1b[31m\n"))
        == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}"
    )
