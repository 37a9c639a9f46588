"""What a command writes, kept within bounds: the beginning, the end, and a digest of all of it."""

from __future__ import annotations

import codecs
import re
from hashlib import blake2b
from typing import Final

HEAD: Final = 64 * 1024
TAIL: Final = 192 * 1024
"""Bytes kept of the beginning and of the end; what is between is counted and digested."""

_CONTINUATION: Final = range(0x80, 0xC0)
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,16}[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[ -/]{0,16}[0-~])"
)
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), 127)}


class Output:
    """Standard output and error of one command, in the order in which they came.

    Attributes:
        size: Bytes written so far.
        lines: Lines begun so far.
    """

    __slots__ = ("_digest", "_ends_line", "_head", "_newlines", "_tail", "binary", "size")

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._digest = blake2b(digest_size=6)
        self._newlines = 0
        self._ends_line = True
        self.size = 0
        self.binary = False

    @property
    def lines(self) -> int:
        """Lines begun so far, the last one whether it is ended or not."""
        return self._newlines + (not self._ends_line)

    @property
    def truncated(self) -> bool:
        """Whether something of the middle is gone."""
        return self.size > len(self._head) + len(self._tail)

    def add(self, data: bytes) -> None:
        """Take what was read; `data` may be of any size."""
        if not data:
            return
        self.size += len(data)
        self._digest.update(data)
        self._newlines += data.count(b"\n")
        self._ends_line = data.endswith(b"\n")
        self.binary = self.binary or b"\0" in data
        room = HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * TAIL:  # not at every piece: each time costs a copy
            del self._tail[:-TAIL]

    def text(self, limit: int = HEAD + TAIL) -> str:
        r"""What was written, as text of about `limit` characters at most.

        Of more than that the beginning (a third) and the end are given, with the number of bytes left out
        and the digest of everything in between, so that texts are equal only for equal outputs. Bytes that
        are no UTF-8 are shown as `\\xNN`, control characters too; terminal escapes are left out. Output
        with NUL bytes is only described.
        """
        if self.binary:
            return f"[binary output: {self.size} bytes, digest {self._digest.hexdigest()}]"
        if self.size <= limit and not self.truncated:
            return _shown(bytes(self._head + self._tail))
        kept = bytes(self._head + self._tail)
        first = min(limit // 3, len(self._head))
        last = min(limit - first, TAIL, len(kept) - first)
        left_out = self.size - first - last
        end = kept[-last:]
        while end and end[0] in _CONTINUATION:  # half a character
            end = end[1:]
        gap = f"\n[... {left_out} bytes left out; digest of all {self._digest.hexdigest()} ...]\n"
        return _shown(kept[:first]) + gap + _shown(end)

    def tail(self, limit: int) -> str:
        """The last `limit` bytes as text."""
        if self.binary:
            return self.text()
        kept = bytes(self._tail[-limit:])
        if len(kept) < limit:
            kept = bytes(self._head)[len(kept) - limit :] + kept
        while kept and len(kept) < self.size and kept[0] in _CONTINUATION:
            kept = kept[1:]
        return _shown(kept)

    def since(self, position: int, limit: int) -> str:
        """What was written after the first `position` bytes, its last `limit` bytes at most, as text."""
        fresh = self.size - position
        if fresh <= 0:
            return ""
        if fresh > limit:
            return f"[... {fresh - limit} bytes left out ...]\n{self.tail(limit)}"
        return self.tail(fresh)


def _shown(data: bytes) -> str:
    """Bytes as text that is safe to show; half a character at the end is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return _ESCAPES.sub("", decoder.decode(data)).replace("\r\n", "\n").translate(_CONTROLS)
