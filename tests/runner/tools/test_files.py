"""Files of the workspace, and nothing but them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra runner")

from loopwarden.runner.folder import Folder, OutsideError
from loopwarden.runner.tools import files
from tests.runner.tools.benches import Scene

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with a secret beside it and links to that."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (folder / "file-link").symlink_to(tmp_path / "secret")
    (folder / "folder-link").symlink_to(tmp_path / "outside")
    (folder / "up-link").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to(tmp_path / "made")
    return folder


OUTSIDE = [
    "../secret", "a/../../secret", "/etc/passwd", "file-link", "up-link/secret", "folder-link/new",
    "dangling",
    "loop", "loop/x", ".", "", "\0", "a\0b", "a/" * 3000, "x" * 300, "~/../../secret", "//etc/passwd",
    "/proc/self/environ", "sub/..", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE, ids=range(len(OUTSIDE)))
def test_paths_that_lead_out_are_refused(work: Path, path: str) -> None:
    async def main() -> None:
        async with Scene(work) as scene:
            calls = {
                "read": {},
                "write": {"content": "x"},
                "edit": {"oldText": "secret", "newText": "x", "all": True},
            }
            for tool, more in calls.items():
                try:
                    result = await scene.call(tool, path=path, **more)
                except ValueError:  # empty or too long: rejected by the schema
                    continue
                assert result.failed, tool
                assert "secret" not in result.text.replace(path, "")

    before = sorted(str(path) for path in work.parent.rglob("*"))
    asyncio.run(main())
    assert (work.parent / "secret").read_text(encoding="utf-8") == "secret"
    assert sorted(str(path) for path in work.parent.rglob("*")) == before


def test_what_is_no_ordinary_file_is_refused(work: Path) -> None:
    os.mkfifo(work / "fifo")
    (work / "null").symlink_to("/dev/null")
    (work / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        place = os.getcwd()  # noqa: PTH109 - socket names are short
        os.chdir(work)
        try:
            server.bind("socket")
        finally:
            os.chdir(place)

        async def main() -> None:
            async with Scene(work) as scene:
                for path in ("fifo", "null", "folder", "socket"):
                    assert (await scene.call("read", path=path)).failed
                    assert (await scene.call("write", path=path, content="x")).failed
                    assert (await scene.call("edit", path=path, oldText="a", newText="b")).failed

        asyncio.run(main())
    assert stat.S_ISFIFO((work / "fifo").stat().st_mode)


def test_links_inside_can_be_used(work: Path) -> None:
    (work / "real").mkdir()
    (work / "inner").symlink_to("real")
    (work / "same").symlink_to("real/file")

    async def main() -> None:
        async with Scene(work) as scene:
            await scene.call("write", path="inner/file", content="text")
            assert (await scene.call("read", path="same")).text == "text"
            await scene.call("edit", path="same", oldText="text", newText="changed")
            assert (await scene.call("read", path=str(work / "real" / "file"))).text == "changed"

    asyncio.run(main())
    assert (work / "same").is_symlink()


def test_a_link_that_is_put_in_the_way_is_not_followed(work: Path) -> None:
    class Late(Folder):
        __slots__ = ()

        def place(self, path: str) -> Path:
            found = super().place(path)
            (work / "sub").rmdir()
            (work / "sub").symlink_to(work.parent / "outside")
            return found

    (work / "sub").mkdir()
    with pytest.raises((OutsideError, OSError)):
        Late(work).write("sub/new", b"x")
    assert not list((work.parent / "outside").iterdir())


def test_writing_is_whole_and_keeps_the_mode(work: Path) -> None:
    async def main() -> None:
        async with Scene(work) as scene:
            wrote = await scene.call("write", path="a/b/script.sh", content="one\n")
            assert wrote.text == "Wrote 4 bytes to a/b/script.sh."
            place = work / "a/b/script.sh"
            plain = work / "plain"
            plain.touch()
            assert place.stat().st_mode == plain.stat().st_mode
            place.chmod(0o750)
            with place.open("rb") as reader:
                await scene.call("write", path="a/b/script.sh", content="two\n")
                await scene.call("edit", path="a/b/script.sh", oldText="two", newText="three")
                assert reader.read() == b"one\n", "who has it open sees the old one"
            assert stat.S_IMODE(place.stat().st_mode) == 0o750
            assert place.read_text(encoding="utf-8") == "three\n"
            assert [path.name for path in place.parent.iterdir()] == ["script.sh"]
            (work / "kept").touch()
            assert (await scene.call("write", path="kept/inner", content="x")).failed

    asyncio.run(main())


def test_reading_by_lines(work: Path) -> None:
    (work / "lines").write_text("".join(f"{number}\n" for number in range(1, 5001)), encoding="utf-8")
    (work / "empty").touch()
    (work / "wide").write_text("x" * 100_000, encoding="utf-8")
    (work / "latin").write_bytes(b"caf\xe9\r\n")

    async def main() -> None:
        async with Scene(work) as scene:
            first = await scene.call("read", path="lines")
            assert first.details["truncated"] is True
            assert first.details["nextOffset"] == 2001
            assert "go on with offset 2001" in first.text
            page = await scene.call("read", path="lines", offset=4999, limit=10)
            assert page.text == "4999\n5000\n"
            assert page.details["truncated"] is False
            assert (await scene.call("read", path="lines", offset=3, limit=1)).text.startswith("3\n[... more")
            assert (await scene.call("read", path="lines", offset=6000)).text == "lines: has 5000 lines only"
            assert (await scene.call("read", path="empty")).text == "(empty file)"
            wide = await scene.call("read", path="wide")
            assert wide.details["truncated"] is True
            assert len(wide.text) < 31_000
            assert (await scene.call("read", path="latin")).text == "caf\\xe9\r\n"
            missing = await scene.call("read", path="none")
            assert (missing.failed, missing.text) == (True, "none: No such file or directory")

    asyncio.run(main())


def test_the_same_text_from_other_places_is_the_same_outcome(work: Path) -> None:
    (work / "one").write_text("nothing here\n" * 20, encoding="utf-8")
    (work / "two").write_text("nothing here\n" * 20, encoding="utf-8")
    (work / "three").write_text("something here\n" * 20, encoding="utf-8")

    async def main() -> None:
        async with Scene(work) as scene:
            one, two = await scene.call("read", path="one"), await scene.call("read", path="two")
            assert one.shaped == two.shaped
            half = [await scene.call("read", path="one", offset=offset, limit=10) for offset in (2, 11)]
            assert half[0].shaped != half[1].shaped, "more follows only after one of them"
            assert (await scene.call("read", path="three")).shaped != one.shaped

    asyncio.run(main())


def test_a_file_without_lines_is_looked_through_only_so_far(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SCANNED", 1000)
    (work / "wide").write_text("x" * 5000, encoding="utf-8")

    async def main() -> None:
        async with Scene(work) as scene:
            assert "no line 2 within" in (await scene.call("read", path="wide", offset=2)).text

    asyncio.run(main())


def test_binary_files_are_compared_by_their_digest(work: Path) -> None:
    (work / "a.png").write_bytes(b"\x89PNG\0\1")
    (work / "b.png").write_bytes(b"\x89PNG\0\2")

    async def main() -> None:
        async with Scene(work) as scene:
            one = await scene.call("read", path="a.png")
            digest = hashlib.sha256((work / "a.png").read_bytes()).hexdigest()
            assert one.text == f"a.png is a binary file (image/png, 6 bytes, sha256:{digest})."
            assert one.shaped["content"][1]["type"] == "image"
            other = await scene.call("read", path="b.png")
            assert one.shaped["content"][1] != other.shaped["content"][1]

    asyncio.run(main())


def test_an_edit_is_exact(work: Path) -> None:
    (work / "file").write_bytes(b"a b a\r\n\xff\n")

    async def main() -> None:
        async with Scene(work) as scene:
            for old, said in (("c", "not in the file"), ("a", "2 times")):
                refused = await scene.call("edit", path="file", oldText=old, newText="x")
                assert refused.failed
                assert said in refused.text
            assert (await scene.call("edit", path="file", oldText="a", newText="a", all=True)).failed
            assert not (await scene.call("edit", path="file", oldText="a", newText="x", all=True)).failed
            assert not (await scene.call("edit", path="file", oldText="b", newText="")).failed

    asyncio.run(main())
    assert (work / "file").read_bytes() == b"x  x\r\n\xff\n"


def test_edits_at_once_lose_nothing(work: Path) -> None:
    marks = [f"<{number}>" for number in range(30)]
    (work / "file").write_text("\n".join(marks), encoding="utf-8")

    async def main() -> None:
        async with Scene(work) as scene, Scene(work) as other:
            calls = [
                (scene, other)[index % 2].call("edit", path="file", oldText=mark, newText="done")
                for index, mark in enumerate(marks)
            ]
            assert not any(result.failed for result in await asyncio.gather(*calls))

    asyncio.run(main())
    assert (work / "file").read_text(encoding="utf-8") == "\n".join(["done"] * 30)


def test_the_workspace_may_be_a_link_itself(work: Path) -> None:
    (work.parent / "home").symlink_to(work)

    async def main() -> None:
        async with Scene(work.parent / "home") as scene:
            assert not (await scene.call("write", path="a", content="x")).failed
            assert (await scene.call("exec", command="cat a")).details["aggregated"] == "x"

    asyncio.run(main())
