"""The OpenAPI document says what the gateway does: its routes, what it takes and what it answers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

from tests.gateway.processes import before, loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

Document = dict[str, Any]


@pytest.fixture
def described(client: httpx2.Client) -> Document:
    answer = client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    found: Document = answer.json()
    return found


def parts(value: Any) -> Iterator[Any]:
    """The value and everything in it."""
    yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(one)


def validator(described: Document, name: str) -> Any:
    schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
    return jsonschema.Draft202012Validator(schema)


def test_document_is_of_one_piece(described: Document) -> None:
    assert described["openapi"] == "3.1.0"
    assert described["info"]["title"]
    for one in parts(described):
        if isinstance(one, dict) and isinstance(one.get("$ref"), str):
            assert one["$ref"].startswith("#/components/schemas/")
            assert one["$ref"].rpartition("/")[2] in described["components"]["schemas"]
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    paths = described["paths"].values()
    operations = [entry for path in paths for name, entry in path.items() if name != "parameters"]
    assert all(entry["summary"] and entry["responses"] for entry in operations)
    names = [entry["operationId"] for entry in operations]
    assert len(names) == len(set(names))
    assert "http" not in json.dumps(described["components"]["schemas"])  # nothing that is to be fetched


def test_parameters_are_those_of_the_path(described: Document) -> None:
    for path, entry in described["paths"].items():
        named = {one["name"] for one in entry.get("parameters", []) if one["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))


def test_every_route_is_described_and_there_is_no_other(described: Document, client: httpx2.Client) -> None:
    methods = ("get", "post", "put", "patch", "delete")
    for path, entry in described["paths"].items():
        there = [name for name in methods if name in entry]
        for method in methods:
            status = client.request(method, path.replace("{run}", "some"), content=b"?").status_code
            assert (status == 405) == (method not in there), (path, method, status)


def test_application_has_no_route_that_is_not_described(described: Document) -> None:
    from loopwarden.gateway import guard_api, openapi

    paths = {guard_api.plain(path) for path in (*guard_api.PATHS.values(), guard_api.BATCH_PATH)}
    paths |= {guard_api.plain(guard_api.RUN_BATCH_PATH), openapi.PATH, "/healthz", "/metrics"}
    assert paths <= set(described["paths"])


def test_verdicts_and_problems_are_as_described(described: Document, client: httpx2.Client) -> None:
    verdict, fault = validator(described, "VerdictBody"), validator(described, "ProblemBody")
    assert loop(client, range(12), "described") == "...wwBBBBXXX"
    for number in (0, 4, 8, 12):
        verdict.validate(before(client, number, f"described-{number}"))
    verdict.validate(before(client, 13, "described"))
    batch = client.post("/v1/events", json={"events": [{"event": "compacted"}]})
    validator(described, "Verdicts").validate(batch.json())
    wrong = [
        client.post("/v1/events", json={"events": [{"event": "before"}]}),
        client.post("/v1/runs/x/before", json={}),
        client.post("/v1/runs/x/before", content=b"{"),
        client.get("/nope"),
        client.put("/v1/events"),
        client.get("/metrics", headers={"authorization": "Bearer x"}),
    ]
    assert [answer.status_code for answer in wrong] == [422, 422, 400, 404, 405, 401]
    for answer in wrong:
        fault.validate(answer.json())


EVENTS = [
    {"event": "before", "tool": "t", "call_id": "c"},
    {"event": "before", "tool": "t", "call_id": "c", "run": None, "arguments": [1], "turn_id": "t", "at": 1},
    {"event": "before", "tool": "t", "call_id": "c", "at": True},
    {"event": "before", "tool": "t"},
    {"event": "before", "tool": None, "call_id": "c"},
    {"event": "after", "call_id": "c", "timed_out": True},
    {"event": "after", "call_id": "c", "timed_out": "true"},
    {"event": "after", "call_id": "", "result": 1},
    {"event": "after", "call_id": "c", "result": 1, "error": "e"},
    {"event": "after", "call_id": "c", "result": None, "error": "e"},
    {"event": "after", "call_id": "c", "result": 1, "error": None},
    {"event": "compacted", "run": "r", "continues": "q", "event_id": "e", "session": "s"},
    {"event": "compacted", "run": ""},
    {"event": "compacted", "mode": "enforced"},
    {"event": "user_message", "agent": "a", "mode": "observe"},
    {"event": "user_message", "text": "hello"},
    {"event": "retract", "call_ids": []},
    {"event": "retract", "call_ids": [1]},
    {"event": "forget"},
    {"event": "unknown"},
    {},
    [],
]


@pytest.mark.parametrize("event", EVENTS, ids=range(len(EVENTS)))
def test_what_is_described_is_taken_and_nothing_else(
    described: Document, client: httpx2.Client, event: Any
) -> None:
    described_so = validator(described, "Batch").is_valid({"events": [event]})
    answer = client.post("/v1/events", json={"events": [event]})
    assert answer.status_code == (200 if described_so else 422), answer.text
