"""Files made to take memory or time, in processes that have little: a clear message, or a count.

Archives that expand or lie are in `tests/transcripts/test_eval_archive.py`.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from loopwarden.errors import TranscriptError
from loopwarden.transcripts import FORMATS, Limits, ReadNotes, Source, read
from loopwarden.transcripts.packed import MAX_RATIO
from loopwarden.transcripts.parsing import MOST_IN_DOCUMENT, MOST_IN_LINE
from loopwarden.transcripts.passes import KEPT_BYTES
from tests.fuzz.judge import check_error, check_items
from tests.transcripts.facts import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.transcripts import Item

MEBIBYTE: Final = 1024 * 1024
ROOM: Final = 600
"""MiB of address space for a whole Python process that reads."""

SECONDS: Final = 300
"""After which a reader counts as hanging; it takes a hundredth of that."""

CALL: Final = '{"type":"call","id":"%d","tool":"look","args":{"path":"%s"}}\n'


def bounded(path: Path, form: str = "-", room: int = ROOM) -> dict[str, Any]:
    """What `tests.fuzz.bounded` says about a file."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.bounded", str(path), form, str(room)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")[-2_000:]
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


@pytest.fixture(scope="module")
def gigabyte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A call, then one line of a gigabyte, then a call; it takes no room on disk."""
    path = tmp_path_factory.mktemp("sparse") / "long.jsonl"
    with path.open("wb") as file:
        file.write((CALL % (1, "a")).encode())
        file.truncate(1024 * MEBIBYTE)
        file.seek(0, 2)
        file.write(b"\n" + (CALL % (2, "b")).encode())
    return path


def test_a_line_of_a_gigabyte_is_left_out_and_counted(gigabyte: Path) -> None:
    answer = bounded(gigabyte)
    assert answer["items"] == {"StreamStart": 1, "Recorded": 2}
    assert answer["notes"] == {"long_line": 1, "call_without_result": 2}
    assert answer["error"] is None
    assert answer["peak"] < 250 * 1024


@pytest.mark.parametrize("form", ["atif", "inspect-ai"])
def test_a_document_of_a_gigabyte_is_refused(gigabyte: Path, form: str) -> None:
    answer = bounded(gigabyte, form)
    assert str(gigabyte) in answer["error"]
    assert f"larger than {Limits().document_bytes} bytes, the limit" in answer["error"]
    assert answer["peak"] < 100 * 1024


def packed(path: Path, head: bytes, piece: bytes, size: int) -> Path:
    """A gzip file that expands to `size` bytes: the head, then the piece again and again."""
    with gzip.open(path, "wb", 9) as file:
        file.write(head)
        for _ in range(size // len(piece)):
            file.write(piece)
    return path


def test_a_packed_line_that_expands_is_bounded(tmp_path: Path) -> None:
    path = packed(tmp_path / "bomb.jsonl.gz", (CALL % (1, "a")).encode(), bytes(MEBIBYTE), 400 * MEBIBYTE)
    answer = bounded(path)
    assert str(path) in answer["error"]
    assert f"expands to more than {MAX_RATIO} times its size, the limit" in answer["error"]
    assert answer["peak"] < 250 * 1024


def test_packed_lines_that_expand_are_bounded(tmp_path: Path) -> None:
    line = (CALL % (1, "a" * 8_000)).encode()
    answer = bounded(packed(tmp_path / "bomb.jsonl.gz", line, line * 100, 300 * MEBIBYTE))
    assert "expands to more than" in answer["error"]
    assert answer["peak"] < 250 * 1024


def test_a_packed_document_that_expands_is_bounded(tmp_path: Path) -> None:
    path = packed(tmp_path / "bomb.json.gz", b'{"eval": [', b'"x", ' * 200_000, 400 * MEBIBYTE)
    answer = bounded(path, "inspect-ai")
    assert "expands to more than" in answer["error"]
    with pytest.raises(TranscriptError, match="larger than 1000000 bytes, the limit for one JSON document"):
        list(read(Source(path, limits=Limits(document_bytes=1_000_000)), format="inspect-ai").items)


def test_a_stream_that_expands_is_bounded(tmp_path: Path) -> None:
    path = packed(tmp_path / "bomb.jsonl.gz", (CALL % (1, "a")).encode(), bytes(MEBIBYTE), 300 * MEBIBYTE)
    with path.open("rb") as file, pytest.raises(TranscriptError, match="expands to more than"):
        list(Source(None, data=file, limits=Limits(line_bytes=MEBIBYTE)).lines(ReadNotes()))


def test_a_document_of_very_many_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_bytes(b'{"steps": [' + b"{}," * (MOST_IN_DOCUMENT // 2) + b"{}]}")
    answer = bounded(path, "atif")
    assert f"more than {MOST_IN_DOCUMENT} values, the limit for one JSON document" in answer["error"]
    assert answer["peak"] < 250 * 1024


def test_a_line_of_very_many_values_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    many = b'{"type":"call","id":"2","tool":"look","args":[' + b"[]," * (MOST_IN_LINE // 2) + b"0]}\n"
    path.write_bytes((CALL % (1, "a")).encode() + many + b'{"type":"user"}\n')
    answer = bounded(path)
    assert answer["items"] == {"StreamStart": 1, "Recorded": 2}
    assert answer["notes"] == {"too_many_values": 1, "call_without_result": 1}
    assert answer["peak"] < 250 * 1024


DEEP: Final = 100_000


@pytest.mark.parametrize("form", [reader.name for reader in FORMATS])
@pytest.mark.parametrize("data", [
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"\n" + b'{"type":"user"}\n',
    b'{"messages":' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"type":"user","message":' + b'{"content":[' * DEEP + b"]}" * DEEP + b"}\n" + b'{"b":1}\n',
    b'{"messages":[{"role":"assistant","content":' + b"[" * 1_010 + b"]" * 1_010 + b"}]}\n",
], ids=["open", "lists", "objects", "messages", "content", "nearly"])  # fmt: skip
def test_deep_nesting(form: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_bytes(data)
    items: list[Item] = []
    try:
        items += read(path, format=form).items
    except TranscriptError as error:
        check_error(error, str(path))
    check_items(items)


LONG_RUNS: Final = {
    "openclaw": "converted/openclaw/v3_streak_with_branch_and_compaction.jsonl",
    "claude-code": "converted/claude-code/streak_with_compaction.jsonl",
    "codex": "converted/codex/rollout-2025-06-01T09-00-00-pingpong.jsonl",
}
LONG_RUN: Final = KEPT_BYTES + 2 * MEBIBYTE
"""More than is kept in memory between two passes."""


def long_run(path: Path, sample: str, size: int) -> Path:
    """The sample again and again, with ids of its own and heavy results each time."""
    lines = [json.loads(line) for line in (SAMPLES / sample).read_bytes().splitlines()]
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for lap in range(size):
            for number, line in enumerate(lines):
                if lap and number == 0 and line.get("type") in ("session", "session_meta"):
                    continue
                text = json.dumps(dict(renamed(line, lap)) | {"padding": "x" * 8_000}) + "\n"
                written += file.write(text)
                if written >= size:
                    return path
    return path


IDS: Final = ("id", "parentId", "uuid", "parentUuid", "call_id", "toolCallId", "tool_use_id")


def renamed(value: dict[str, Any], lap: int) -> Iterable[tuple[str, Any]]:
    """The members of an object with the number of the lap behind every id."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield key, dict(renamed(inner, lap))
        elif inner is None and key in IDS:
            continue  # no new root: it follows what came before
        elif isinstance(inner, list):
            yield key, [dict(renamed(one, lap)) if isinstance(one, dict) else one for one in inner]
        else:
            yield key, f"{inner}.{lap}" if key in IDS and isinstance(inner, str) else inner


@pytest.mark.parametrize("form", LONG_RUNS)
def test_memory_does_not_grow_with_the_file(form: str, tmp_path: Path) -> None:
    answers = [
        bounded(long_run(tmp_path / f"{size}.jsonl", LONG_RUNS[form], size), form, 0)
        for size in (LONG_RUN, 2 * LONG_RUN)
    ]
    few, many = (answer["items"]["Recorded"] for answer in answers)
    assert many > few * 1.9
    assert answers[1]["peak"] < answers[0]["peak"] * 1.3
