"""What sessions and runs refuse over HTTP, and the words that it is refused with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra gateway")
pytest.importorskip("httpx2", reason="needs the extra client")
pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from tests.gateway.processes import SMALL, GatewayProcess, problem
from tests.gateway.test_runs_api import configured, ended

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The state folder."""
    return tmp_path / "state"


def test_wrong_requests_are_problems_that_say_what_is_wrong(place: Path) -> None:
    agents = ({"id": "main", "model": "replay:nowhere.jsonl"}, {"id": "other"})
    with GatewayProcess(place, configured(None, *agents)) as gateway, gateway.client() as client:

        def post(path: str, body: Any, status: int) -> dict[str, Any]:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return problem(client.post(path, content=content), status)

        assert post("/v1/sessions", {"agent": "nobody"}, 422)["errors"][0]["field"] == "agent"
        assert "there are: 'main', 'other'" in post("/v1/sessions", {"agent": "nobody"}, 422)["detail"]
        assert post("/v1/sessions", b"{", 400)
        assert post("/v1/sessions", [], 422)
        assert post("/v1/sessions", {"agent": "main", "more": 1}, 422)["errors"][0]["field"] == "more"
        for session in ("a/b", "..", ".", "", "a b", "x" * 201, 7, "a\n"):
            assert post("/v1/sessions", {"agent": "main", "session": session}, 422)
        assert client.post("/v1/sessions", json={"agent": "main", "session": "s"}).status_code == 201
        assert client.post("/v1/sessions", json={"agent": "main", "session": "s"}).status_code == 200
        assert post("/v1/sessions", {"agent": "other", "session": "s"}, 409)
        assert post("/v1/sessions/none/messages", {"text": "t"}, 404)
        assert post("/v1/sessions/s/messages", {"text": ""}, 422)
        assert post("/v1/sessions/s/messages", {"text": "x" * 100_001}, 422)
        assert post("/v1/sessions/s/messages", {}, 422)
        assert post("/v1/runs/none/cancel", {}, 404)
        for path in ("/v1/runs/none", "/v1/runs/none/events", "/v1/sessions/none"):
            assert problem(client.get(path), 404)
        for query in ("state=x", "limit=0", "limit=1001", "limit=x", "limit=%C2%B2"):
            assert problem(client.get(f"/v1/runs?{query}"), 422)
        assert problem(client.get("/v1/agents", headers={"authorization": "Bearer wrong"}), 401)
        run = client.post("/v1/sessions/s/messages", json={"text": "t"}).json()["run"]
        assert "nowhere.jsonl" in ended(client, run)["message"]
        assert problem(client.get(f"/v1/runs/{run}/events", headers={"last-event-id": "x"}), 422)


def test_a_method_that_is_not_there_is_told_all_that_are(place: Path) -> None:
    with GatewayProcess(place, configured()) as gateway, gateway.client() as client:
        for path, methods in (
            ("/v1/sessions", "GET, HEAD, POST"),
            ("/v1/runs/r/events", "GET, HEAD, POST"),
            ("/v1/runs", "GET, HEAD"),
            ("/v1/events", "POST"),
        ):
            refused = client.put(path)
            assert problem(refused, 405)
            assert refused.headers["allow"] == methods


SESSION_WORDS = "must be a letter, a digit or `_`, then these and `.:-`, at most 200 characters"


def test_faults_are_said_as_those_of_the_guard_are(place: Path) -> None:
    with GatewayProcess(place, configured()) as gateway, gateway.client() as client:
        for body, field, words in (
            ({"agent": "main", "session": "a/b"}, "session", SESSION_WORDS),
            ({"agent": "main", "session": "a\n"}, "session", SESSION_WORDS),
            ({"agent": "main", "sesion": "a"}, "sesion", "did you mean `session`?"),
            ({"agent": 7}, "agent", "must be a string, not a number"),
            ({}, "agent", "is missing"),
            ([], "", "must be an object, not an array"),
        ):
            found = problem(client.post("/v1/sessions", json=body), 422)
            assert found["errors"][0]["field"] == field
            assert words in found["errors"][0]["message"]
            assert words in found["detail"]
        for session in ("_x", "0", "a.:-_", "x" * 200):
            answer = client.post("/v1/sessions", json={"agent": "main", "session": session})
            assert answer.status_code == 201
        assert "can't be read" in problem(client.post("/v1/sessions", content=b"{"), 400)["detail"]
        cut = client.post("/v1/sessions/_x/messages", content=b'{"text": "cut \\ud83d"}')
        assert cut.status_code == 202
        assert ended(client, cut.json()["run"])["task"] == "cut \\ud83d"


def test_without_agents_the_gateway_is_the_guard_alone(place: Path) -> None:
    with GatewayProcess(place, SMALL) as gateway, gateway.client() as client:
        for path in ("/v1/sessions", "/v1/agents", "/v1/runs", "/v1/runs/r", "/v1/sessions/s"):
            assert "lists none (agents.list)" in problem(client.get(path), 404)["detail"]
        for path in ("/v1/sessions", "/v1/runs/r/cancel", "/v1/sessions/s/messages"):
            assert "lists none (agents.list)" in problem(client.post(path), 404)["detail"]
        assert "nothing at this path" in problem(client.get("/v1/other"), 404)["detail"]
        assert not (place / "journal.db").exists()
