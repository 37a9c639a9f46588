"""Calls that take more than a request and a response: questions to the user, tasks, batches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.mcp_proxy.scene import MODERN, NOTHING, Scene, dump


def test_input_that_the_server_asks_for_makes_no_second_call() -> None:
    scene = Scene()
    params = {"arguments": {"a": 1}, "_meta": MODERN}
    scene.call(1, **params)
    scene.answer(1, {"resultType": "input_required", "inputRequests": {}, "requestState": "s1"})
    scene.call(2, **params, requestState="s1", inputResponses={})
    scene.answer(2, {"resultType": "input_required", "inputRequests": {"q": {}}})
    scene.call(3, **params, inputResponses={"q": {}})
    scene.answer(3, NOTHING | {"resultType": "complete"})
    assert [told.verb for told in scene.guard.told] == ["before", "after"]
    assert len({told.call_id for told in scene.guard.told}) == 1
    scene.call(4, **params, requestState="of nobody")
    assert len(scene.of("before")) == 2


def test_the_result_of_a_task_is_that_of_the_call() -> None:
    scene = Scene()
    scene.loop(3, arguments={})
    scene.call(10, arguments={}, task={"ttl": 1})
    assert scene.answer(10, {"task": {"taskId": "t1", "status": "working"}})["result"]["task"]
    scene.ask(11, "tasks/get", taskId="t1")
    scene.answer(11, {"taskId": "t1", "status": "completed"})
    assert len(scene.of("after")) == 3
    scene.ask(12, "tasks/result", taskId="t1")
    assert len(scene.answer(12)["result"]["content"]) == 2  # the warning of the call
    assert len(scene.of("after")) == 4
    scene.loop(1, start=20)
    refused = scene.call(13, arguments={}, task={})
    assert refused["error"]["message"] == scene.of("before")[-1].verdict.message


@pytest.mark.parametrize(
    ("over", "result"), [({"result": NOTHING}, True), ({"error": {"message": "m"}}, False)]
)
def test_a_task_whose_state_holds_the_result(over: dict[str, Any], result: bool) -> None:
    scene = Scene()
    scene.loop(3, _meta=MODERN)
    scene.call(1, _meta=MODERN)
    scene.answer(1, {"resultType": "task", "taskId": "t", "status": "working"})
    scene.ask(2, "tasks/get", taskId="t")
    scene.answer(2, {"resultType": "complete", "taskId": "t", "status": "working"})
    scene.ask(3, "tasks/get", taskId="t")
    ended = scene.answer(3, {"resultType": "complete", "taskId": "t", "status": "completed", **over})[
        "result"
    ]
    assert (ended["result"]["content"][1:] != []) if result else ("\n\n" in ended["error"]["message"])
    assert scene.of("after")[-1].error == (None if result else "m")


def test_a_batch_loses_only_what_is_refused() -> None:
    scene = Scene()
    scene.loop(5)
    kept = '{"id":2, "method":"tools/call","params":{"name":"ö", "arguments":{"ü":1.0}}}'
    line = f'[ {{"id":1,"method":"tools/call","params":{{"name":"look"}}}} , {kept},5, {{}}]\n'.encode()
    onward, reply = scene.relay.read_client(line)
    assert onward == f"[{kept},5,{{}}]\n".encode()
    assert [one["id"] for one in json.loads(reply)] == [1]
    both = dump([{"id": 3, "method": "tools/call", "params": {"name": "look"}}] * 2)
    onward, reply = scene.relay.read_client(both)
    assert onward == b""
    assert len(json.loads(reply)) == 2


def test_a_batch_of_answers_is_read_one_by_one() -> None:
    scene = Scene()
    scene.loop(3)
    scene.call(3)
    other = '{"jsonrpc":"2.0","id":9,"result":{"é":1.00}}'
    line = f" [{other} , {json.dumps({'id': 3, 'result': NOTHING})}, 7]\r\n".encode()
    found = scene.relay.from_server(line)
    assert found.startswith(f" [{other} , ".encode())
    assert found.endswith(b", 7]\r\n")
    assert len(json.loads(found)[1]["result"]["content"]) == 2
