"""Lines of any kind and results of any kind come through."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from loopwarden.mcp_proxy.calls import Relay
from loopwarden.mcp_proxy.hints import Naming
from tests.guards import SMALL, strict
from tests.mcp_proxy.scene import Scene

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
WORDS = (
    "id method params result error tools/call name arguments _meta taskId tasks/get tasks/result task "
    "message content notifications/cancelled requestId resultType input_required"
)
words = st.sampled_from(WORDS.split())
messages = st.recursive(
    words | st.integers(0, 3) | json_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=6),
    max_leaves=20,
)


@example([(True, {"method": [], "params": {}})])
@example([(True, {"id": [], "method": "tools/call", "params": {"name": "x"}})])
@example([(True, {"id": 1, "method": "tools/call", "params": {"name": [], "_meta": []}})])
@given(st.lists(st.tuples(st.booleans(), messages | st.binary()), max_size=8))
def test_lines_of_any_shape_go_on_as_they_are(said: list[tuple[bool, Any]]) -> None:
    verbs = strict(SMALL).session("s")
    relay = Relay(verbs, Naming(verbs))
    for from_client, message in said:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        if from_client:
            assert relay.read_client(line) == (line, b"")
        else:
            assert relay.read_server(line) == line


results = st.fixed_dictionaries({"x": json_values}, optional={"content": st.lists(json_values) | json_values})


@given(results, st.sampled_from([None, 1, 3]), st.booleans())
def test_any_result_comes_through_whole(result: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    scene = Scene()
    scene.loop(3)
    scene.call(3)
    message = {"id": 3, "result": result, "x": 1}
    raw = json.dumps(message, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")
    found = scene.relay.read_server(raw)
    if not isinstance(result.get("content", []), list):
        assert found == raw  # nowhere to put it
        return
    plain, noted = json.loads(raw), json.loads(found)
    *before, note = noted["result"].pop("content")
    assert note["text"] == scene.of("before")[3].verdict.message
    assert repr(before) == repr(plain["result"].pop("content", []))
    assert repr(noted) == repr(plain)


def test_a_number_of_any_length_is_seen() -> None:
    def line(number: int, digits: str) -> bytes:
        params = f'{{"name": "look", "arguments": {{"n": {digits}}}}}'
        return f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {params}}}\n'.encode()

    scene = Scene(SMALL)
    for number in range(9):
        digits = "7" * 5000 + str(number)
        asked = line(number, digits)
        assert scene.relay.read_client(asked) == (asked, b"")
        back = f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"n": {digits}}}}}\n'.encode()
        assert scene.relay.read_server(back) == back
    replies = []
    for number in range(9, 20):
        replies.append(scene.relay.read_client(line(number, "7" * 5000))[1])
        scene.answer(number)
    assert replies[0] == b""
    assert json.loads(replies[-1])["id"] == 19
    assert scene.relay.read_client(line(7, "1").replace(b'"id": 7', b'"id": ' + b"7" * 5000))[1] == b""
