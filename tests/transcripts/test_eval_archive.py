from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest

from loopwarden.errors import MissingExtraError, TranscriptError
from loopwarden.transcripts import eval_archive
from loopwarden.transcripts.eval_archive import MemberFault, open_archive
from loopwarden.transcripts.source import Limits
from tests.transcripts.archives import zstd_archive

if TYPE_CHECKING:
    from pathlib import Path

zstandard = pytest.importorskip("zstandard", reason="the extra zstd is not installed")

MEBIBYTE = 1024 * 1024


def stored(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def member(path: Path, name: str = "a.json", limits: Limits | None = None) -> bytes:
    with open_archive(path, "test", limits or Limits()) as archive:
        return archive.read(name)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_plain_members(tmp_path: Path, method: int) -> None:
    path = stored(tmp_path / "x.eval", {"a.json": b"[1]", "b.json": b"2" * 100_000}, method)
    assert member(path) == b"[1]"
    assert member(path, "b.json") == b"2" * 100_000


@pytest.mark.parametrize("frames", [1, 3])
def test_zstandard_members(tmp_path: Path, frames: int) -> None:
    data = b"0123456789" * 50_000
    piece = len(data) // frames + 1
    packed = b"".join(
        zstandard.ZstdCompressor().compress(data[start : start + piece])
        for start in range(0, len(data), piece)
    )
    path = tmp_path / "x.eval"
    path.write_bytes(zstd_archive({"a.json": data, "b.json": b"{}"}, packed={"a.json": packed}))
    assert member(path) == data
    assert member(path, "b.json") == b"{}"


def test_without_zstandard_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.eval"
    path.write_bytes(zstd_archive({"a.json": b"{}"}))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'loopwarden\[zstd\]'"):
        member(path)


@pytest.mark.parametrize("method", ["deflate", "zstd"])
@pytest.mark.parametrize("claimed", [None, 10])
def test_bombs_are_cut_whatever_the_header_says(tmp_path: Path, method: str, claimed: int | None) -> None:
    data = bytes(40 * MEBIBYTE)
    path = tmp_path / "x.eval"
    if method == "zstd":
        path.write_bytes(zstd_archive({"a.json": data}, claimed=claimed))
    else:
        stored(path, {"a.json": data})
        if claimed is not None:
            path.write_bytes(
                path.read_bytes().replace(struct.pack("<L", len(data)), struct.pack("<L", claimed))
            )
    with pytest.raises(MemberFault) as fault:
        member(path, limits=Limits(member_bytes=16 * MEBIBYTE))
    # a deflated member that claims less than it holds is taken at its word, and is damaged then
    assert fault.value.kind == ("bad_line" if method == "deflate" and claimed else "cut_member")


@pytest.mark.parametrize("method", ["deflate", "zstd"])
def test_the_ratio_is_bounded(tmp_path: Path, method: str) -> None:
    data = bytes(12 * MEBIBYTE)
    path = tmp_path / "x.eval"
    if method == "zstd":
        path.write_bytes(zstd_archive({"a.json": data}))
    else:
        stored(path, {"a.json": data})
    with pytest.raises(MemberFault) as fault:
        member(path)
    assert fault.value.kind == "cut_member"


def test_a_window_larger_than_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_archive, "WINDOW_BYTES", 1 << 20)
    parameters = zstandard.ZstdCompressionParameters(window_log=23, write_content_size=0)
    engine = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = b"x" * 100_000
    packed = engine.compress(data) + engine.flush()
    path = tmp_path / "x.eval"
    path.write_bytes(zstd_archive({"a.json": data}, packed={"a.json": packed}))
    with pytest.raises(MemberFault):
        member(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: zstd_archive({"a.json": data}, packed={"a.json": b"no frame at all"}),
        lambda data: zstd_archive({"a.json": data}, packed={"a.json": b""}),
        lambda data: zstd_archive({"a.json": data}, checksum=1),
        lambda data: zstd_archive({"a.json": data}, method=12),  # bzip2 has no bounded decompression
        lambda data: zstd_archive({"a.json": data}, method=99),
        lambda data: zstd_archive({"a.json": data}, flags=1),  # encrypted
        lambda data: zstd_archive({"a.json": data}, offset=5_000),
    ],
)
def test_damaged_members(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "x.eval"
    path.write_bytes(damage(b"[1, 2]" * 100))  # type: ignore[operator]  # a table of functions
    with pytest.raises(MemberFault) as fault:
        member(path)
    assert fault.value.kind == "bad_line"


def test_a_large_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = stored(tmp_path / "x.eval", {f"samples/{n}_{'x' * 300}": b"" for n in range(50)})
    with (
        pytest.raises(TranscriptError, match="directory"),
        open_archive(path, "test", Limits(members=10)),
    ):
        pass


def test_the_large_form_of_the_directory_is_bounded_too(tmp_path: Path) -> None:
    end_64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, 1 << 40, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path = tmp_path / "x.eval"
    path.write_bytes(end_64 + locator + end)
    with pytest.raises(TranscriptError), open_archive(path, "test", Limits()):
        pass
    path.write_bytes(end_64 + locator + end.replace(b"\xff\xff\xff\xff", b"\0\0\0\0"))
    with pytest.raises(TranscriptError, match="directory"), open_archive(path, "test", Limits()):
        pass


def test_only_so_many_members_are_looked_at(tmp_path: Path) -> None:
    path = stored(tmp_path / "x.eval", {str(n): b"" for n in range(8)})
    with open_archive(path, "test", Limits(members=5)) as archive:
        assert (archive.names, archive.left_out) == (["0", "1", "2", "3", "4"], 3)


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    path.write_bytes(zstd_archive({str(n): b"0123456789" for n in range(9)}, packed_size=2_000))
    with pytest.raises(TranscriptError, match="overlap"), open_archive(path, "test", Limits()):
        pass


@pytest.mark.parametrize("keep", [0, 3, 30, -1, -10, -40])
def test_cut_archives(tmp_path: Path, keep: int) -> None:
    path = stored(tmp_path / "x.eval", {"a.json": b"[1]"})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TranscriptError), open_archive(path, "test", Limits()):
        pass


def test_a_missing_file() -> None:
    from pathlib import Path

    with pytest.raises(TranscriptError), open_archive(Path("nowhere.eval"), "test", Limits()):
        pass


def test_the_builder_of_this_test_writes_valid_archives() -> None:
    data = b"hello"
    built = zstd_archive({"a": data}, packed={"a": data}, method=zipfile.ZIP_STORED)
    with zipfile.ZipFile(io.BytesIO(built)) as archive:
        assert archive.read("a") == data
        assert zlib.crc32(data) == archive.getinfo("a").CRC
