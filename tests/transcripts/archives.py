"""Zip archives with Zstandard members, and with headers that lie, as `zipfile` would not write them."""

from __future__ import annotations

import struct
import zlib


def zstd_archive(
    members: dict[str, bytes],
    *,
    packed: dict[str, bytes] | None = None,
    method: int = 93,
    flags: int = 0,
    claimed: int | None = None,
    checksum: int | None = None,
    packed_size: int | None = None,
    offset: int = 0,
) -> bytes:
    """An archive; every argument after `packed` puts a number of its own into the headers.

    Args:
        members: Name and content.
        packed: Compressed form of some members; the others are compressed here.
        method: Compression method.
        flags: Flags of each member.
        claimed: Size of each member.
        checksum: Checksum of each member.
        packed_size: Compressed size of each member.
        offset: Added to the place of each member.
    """
    import zstandard  # an extra: only the tests that need it ask for it

    body = b""
    directory = b""
    for name, data in members.items():
        squeezed = (packed or {}).get(name)
        if squeezed is None:
            squeezed = zstandard.ZstdCompressor().compress(data)
        numbers = (
            zlib.crc32(data) if checksum is None else checksum,
            len(squeezed) if packed_size is None else packed_size,
            len(data) if claimed is None else claimed,
            len(name),
            0,
        )
        directory += struct.pack("<4s6H3L2H", b"PK\x01\x02", 63, 63, flags, method, 0, 33, *numbers)
        directory += struct.pack("<3H2L", 0, 0, 0, 0, len(body) + offset) + name.encode()
        body += struct.pack("<4s5H3L2H", b"PK\x03\x04", 63, flags, method, 0, 33, *numbers)
        body += name.encode() + squeezed
    end = struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), len(body), 0
    )
    return body + directory + end
