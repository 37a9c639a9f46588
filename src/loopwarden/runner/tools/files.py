"""`read`, `write` and `edit`: files of the workspace."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field
from pydantic_ai import Tool, ToolReturn

from loopwarden.runner.folder import OutsideError
from loopwarden.runner.tools.arguments import RETRIES, Arguments
from loopwarden.runner.tools.shapes import TEXT, refused, shaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden.runner.folder import Folder
    from loopwarden.runner.tools.bench import Bench

LINES: Final = 2000
"""Lines given at once."""

SCANNED: Final = 64 * 1024 * 1024
"""Bytes of a file that are looked through for a line, or digested."""

EDITED: Final = 8 * 1024 * 1024
"""Bytes of a file that can be edited."""

WRITTEN: Final = 2_000_000
"""Characters that can be written at once."""

_Path = Annotated[str, Field(min_length=1, max_length=4096, description="File inside the workspace.")]


class ReadArguments(Arguments):
    """Arguments of `read`."""

    path: _Path
    offset: Annotated[int, Field(ge=1, le=10**9, description="First line to give, from 1.")] = 1
    limit: Annotated[int, Field(ge=1, le=LINES, description="Most lines to give.")] = LINES


class WriteArguments(Arguments):
    """Arguments of `write`."""

    path: _Path
    content: Annotated[str, Field(max_length=WRITTEN, description="The whole file.")]


class EditArguments(Arguments):
    """Arguments of `edit`."""

    path: _Path
    old_text: Annotated[
        str, Field(min_length=1, max_length=WRITTEN, description="What is replaced, exactly as it stands.")
    ]
    new_text: Annotated[str, Field(max_length=WRITTEN, description="What stands there then.")]
    all: Annotated[bool, Field(description="Replace every occurrence; else there must be one only.")] = False


def read_tool(bench: Bench) -> Tool[Any]:
    """The tool `read`."""

    async def run(arguments: ReadArguments) -> ToolReturn[str]:
        return await _in_thread(lambda: _read(bench.folder, arguments), arguments.path)

    description = (
        "Read a text file, or some of its lines. Of a binary file only its type and a digest are given."
    )
    return Tool(run, takes_ctx=False, name="read", description=description, max_retries=RETRIES)


def write_tool(bench: Bench) -> Tool[Any]:
    """The tool `write`."""

    async def run(arguments: WriteArguments) -> ToolReturn[str]:
        return await _in_thread(lambda: _write(bench.folder, arguments), arguments.path)

    description = "Write a whole file, new or in place of the old one; folders on the way are made."
    return Tool(run, takes_ctx=False, name="write", description=description, max_retries=RETRIES)


def edit_tool(bench: Bench) -> Tool[Any]:
    """The tool `edit`."""

    async def run(arguments: EditArguments) -> ToolReturn[str]:
        return await _in_thread(lambda: _edit(bench.folder, arguments), arguments.path)

    description = "Replace a piece of a file by another. Give enough of the old text to be unique."
    return Tool(run, takes_ctx=False, name="edit", description=description, max_retries=RETRIES)


async def _in_thread(work: Callable[[], ToolReturn[str]], path: str) -> ToolReturn[str]:
    """Do file work in a thread; what the system or the workspace refuses is a result."""
    try:
        return await asyncio.to_thread(work)
    except OutsideError as error:
        return refused(str(error))
    except OSError as error:
        return refused(f"{path}: {error.strerror or 'can not be used'}")


def _read(folder: Folder, arguments: ReadArguments) -> ToolReturn[str]:
    path = arguments.path
    with folder.reading(path) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
        size = os.fstat(descriptor).st_size
        start = file.peek(8192)[:8192]
        if b"\0" in start:
            return _binary(path, size, file)
        lines: list[bytes] = []
        number, room, scanned = 0, TEXT, 0
        more = True
        while scanned < SCANNED and room > 0 and len(lines) < arguments.limit:
            wanted = number + 1 >= arguments.offset
            line = file.readline(room if wanted else SCANNED - scanned)
            if not line:
                more = False
                break
            scanned += len(line)
            number += 1
            if wanted:
                lines.append(line)
                room -= len(line)
        more = more and bool(file.peek(1))
    text = b"".join(lines).decode("utf-8", "backslashreplace").replace("\0", "\\x00")
    details: dict[str, Any] = {
        "lines": len(lines),
        "truncated": more,
    }
    if not lines and more:
        return refused(f"{path}: no line {arguments.offset} within the first {SCANNED} bytes")
    if not lines and arguments.offset > 1:
        return refused(f"{path}: has {number} lines only")
    if more:
        whole = lines[-1].endswith(b"\n")
        details["nextOffset"] = arguments.offset + len(lines)
        where = f"go on with offset {details['nextOffset']}" if whole else "the last line is cut"
        text = f"{text.rstrip(chr(10))}\n[... more follows; {where} ...]"
    return shaped(text or "(empty file)", details)


def _binary(path: str, size: int, file: Any) -> ToolReturn[str]:
    digest = hashlib.sha256()
    left = SCANNED
    while left > 0 and (piece := file.read(min(left, 1 << 20))):
        digest.update(piece)
        left -= len(piece)
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    text = f"{path} is a binary file ({kind}, {size} bytes, sha256:{digest.hexdigest()})."
    part = {
        "type": "image" if kind.startswith("image/") else "binary",
        "mimeType": kind,
        "digest": f"sha256:{digest.hexdigest()}",
    }
    return shaped(text, {"path": path, "bytes": size}, parts=[part])


def _write(folder: Folder, arguments: WriteArguments) -> ToolReturn[str]:
    data = arguments.content.encode()
    folder.write(arguments.path, data)
    return shaped(
        f"Wrote {len(data)} bytes to {arguments.path}.", {"path": arguments.path, "bytes": len(data)}
    )


def _edit(folder: Folder, arguments: EditArguments) -> ToolReturn[str]:
    path = arguments.path
    old, new = arguments.old_text.encode(), arguments.new_text.encode()
    if old == new:
        return refused("oldText and newText are the same")
    found = 0

    def change(data: bytes) -> bytes:
        nonlocal found
        found = data.count(old)
        if found == 0:
            raise OutsideError(f"{path}: oldText is not in the file; read it again")
        if found > 1 and not arguments.all:
            raise OutsideError(f"{path}: oldText is {found} times in the file; give more of it, or all: true")
        return data.replace(old, new)

    folder.change(path, EDITED, change)
    return shaped(f"Replaced {found} in {path}.", {"path": path, "replaced": found})
