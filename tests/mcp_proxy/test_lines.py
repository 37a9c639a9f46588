"""Lines out of chunks, events out of chunks, and what is known of a line that is too long."""

from __future__ import annotations

import json
from hashlib import blake2b
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.mcp_proxy.lines import Lines, LongLine
from loopwarden.mcp_proxy.sse import Events

chunks = st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"a\n", b"\n\nb", b"\r\n"]), max_size=12)


@given(chunks, st.integers(1, 20))
def test_no_byte_is_lost_however_it_comes(stream: list[bytes], longest: int) -> None:
    lines = Lines(longest)
    pieces = [piece for chunk in stream for piece in lines.feed(chunk)] + list(lines.end())
    whole = b"".join(stream)
    found, line = [], b""
    for piece in pieces:
        line += piece.data
        assert (piece.long is not None) == (piece.kind == "last")
        if piece.long is not None:
            assert piece.long.size == len(line)
            assert piece.long.digest == blake2b(line, digest_size=16).hexdigest()
        if piece.kind != "part":
            found.append(line)
            line = b""
    assert line == b""
    assert found == BytesIO(whole).readlines()


@pytest.mark.parametrize("number", [0, 7, 123456789012345, "a-1", ""])
@pytest.mark.parametrize("spaces", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("last", [False, True])
def test_the_id_of_a_long_line(number: int | str, spaces: tuple[str, str], last: bool) -> None:
    result = {"content": "x" * 10_000 + '"id":99,'}
    message = {"jsonrpc": "2.0", "id": number, "result": result}
    if last:
        message = {"result": result, "jsonrpc": "2.0", "id": number}
    long = LongLine()
    data = json.dumps(message, separators=spaces).encode() + b"\r\n"
    for start in range(0, len(data), 999):
        long.add(data[start : start + 999])
    assert long.id == number


@pytest.mark.parametrize(
    "line", [b'{"result":{"id":1},"x":[', b"x", b'{"id":1.5,', b'{"id":"a\\"b",', b'{"id":null,']
)
def test_an_id_that_stands_elsewhere_is_not_guessed(line: bytes) -> None:
    long = LongLine()
    long.add(line + b"x" * 10_000)
    assert long.id is None


def test_events_of_any_chunks() -> None:
    stream = (
        b'\xef: hello\n\nid: 1\nretry: 2500\ndata: {"a":\ndata:1}\n\nevent: ping\ndata: x\n\ndata\n\n'
        b'event: message\r\nid: 2\r\ndata: {"b":"\xc3\xa9"}\r\n\r\nretry: soon\nid: a\0b\ndata: cut'
    )
    for size in (1, 2, 3, 7, 1000):
        events = Events()
        found = [one for n in range(0, len(stream), size) for one in events.feed(stream[n : n + size])]
        assert [json.loads(one) for one in found] == [{"a": 1}, {"b": "é"}]
        assert all(one.count(b"\n") == 1 for one in found)
        assert (events.last_id, events.retry) == ("2", 2.5)
