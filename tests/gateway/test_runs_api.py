"""Agents over HTTP: sessions, messages, runs and their events, in a real gateway."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra gateway")
pytest.importorskip("httpx2", reason="needs the extra client")
pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from tests.gateway.processes import SMALL, GatewayProcess, problem, wait_until
from tests.runner.model_server import Call, ModelServer, Reply, asks
from tests.scan.recordings import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx2


def configured(server: ModelServer | None = None, *agents: dict[str, Any], **gateway: Any) -> dict[str, Any]:
    defaults = {} if server is None else {"model": "scripted", "baseUrl": server.url}
    listed = list(agents) or [{"id": "main"}]
    return {**SMALL, "agents": {"defaults": defaults, "list": listed}, "gateway": gateway}


def send(client: httpx2.Client, text: str = "go", session: str = "s1", agent: str = "main") -> dict[str, Any]:
    opened = client.post("/v1/sessions", json={"agent": agent, "session": session})
    assert opened.status_code in (200, 201), opened.text
    sent = client.post(f"/v1/sessions/{session}/messages", json={"text": text})
    assert sent.status_code == 202, sent.text
    found: dict[str, Any] = sent.json()
    return found


def events(client: httpx2.Client, run: str, last: int | None = None) -> Iterator[dict[str, Any]]:
    """The events of a run, to its end."""
    headers = {} if last is None else {"last-event-id": str(last)}
    with client.stream("GET", f"/v1/runs/{run}/events", headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        block: dict[str, str] = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                block[name] = value
            else:
                if "data" in block:
                    event = json.loads(block["data"])
                    assert (block["id"], block["event"]) == (str(event["number"]), event["kind"])
                    yield event
                block = {}


def ended(client: httpx2.Client, run: str) -> dict[str, Any]:
    """The run, once it is over."""

    def now() -> dict[str, Any]:
        found: dict[str, Any] = client.get(f"/v1/runs/{run}").json()
        return found

    wait_until(lambda: now()["state"] != "open")
    return now()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The state folder."""
    return tmp_path / "state"


def test_a_message_is_a_run_and_what_happens_can_be_followed(place: Path) -> None:
    (place.parent / "a.txt").write_text("forty-two")
    script = [asks(Call("read", {"path": "a.txt"}), text="I look."), Reply("It says forty-two.")]
    with (
        ModelServer(script) as server,
        GatewayProcess(place, configured(server)) as gateway,
        gateway.client() as client,
    ):
        sent = send(client, "What does a.txt say?")
        assert sent["joined"] is False
        told = list(events(client, sent["run"]))
        assert [event["kind"] for event in told if not event["data"].get("partial")] == [
            "began", "text", "call", "outcome", "text", "ended",
        ]  # fmt: skip
        assert [event["number"] for event in told] == sorted({event["number"] for event in told})
        assert told[0]["data"]["task"] == "What does a.txt say?"
        run = ended(client, sent["run"])
        assert (run["state"], run["answer"], run["trigger"]) == ("done", "It says forty-two.", "user")
        assert (run["requests"], run["session"], run["agent"]) == (2, "s1", "main")
        assert run["output_tokens"] > 0
        session = client.get("/v1/sessions/s1").json()
        assert (session["agent"], session["runs"], session["open_runs"]) == ("main", 1, [])
        assert [one["run"] for one in session["newest_runs"]] == [sent["run"]]
        assert [one["session"] for one in client.get("/v1/sessions").json()["sessions"]] == ["s1"]

        again = send(client, "And again?")
        ended(client, again["run"])
        assert server.requests[-1].said == ["What does a.txt say?", "And again?"]
        runs = client.get("/v1/runs", params={"session": "s1", "agent": "main", "state": "done"}).json()[
            "runs"
        ]
        assert [one["run"] for one in runs] == [again["run"], sent["run"]]
        assert client.get("/v1/runs", params={"limit": 1}).json()["runs"] == runs[:1]
        assert client.get("/v1/runs", params={"state": "open"}).json() == {"runs": []}


IMPORTS = """
import sys
told = open({path!r}, "a", buffering=1)
sys.addaudithook(lambda event, given: event == "import" and print(given[0], file=told))
"""
"""Writes the name of each module as it is loaded."""


def test_what_runs_need_is_loaded_before_the_first_one(place: Path, tmp_path: Path) -> None:
    """It takes seconds, for which every other agent would wait for its verdict."""
    path = tmp_path / "imports"
    with (
        ModelServer([Reply("hello")]) as server,
        GatewayProcess(place, configured(server), before=IMPORTS.format(path=str(path))) as gateway,
        gateway.client() as client,
    ):
        known = len(path.read_text().splitlines())
        assert known > 100
        assert ended(client, send(client)["run"])["state"] == "done"
        later = [name.split(".")[0] for name in path.read_text().splitlines()[known:]]
        assert not {"openai", "pydantic_ai", "httpx", "httpx2"} & set(later)


def test_a_reader_resumes_where_it_left_off(place: Path, tmp_path: Path) -> None:
    recording = write(tmp_path / "a.jsonl", "abcABC")
    config = configured(None, {"id": "main", "model": f"replay:{recording}"})
    with GatewayProcess(place, config) as gateway, gateway.client() as client:
        run = send(client)["run"]
        ended(client, run)
        whole = list(events(client, run))
        assert whole[-1]["kind"] == "ended"
        for last in (1, 5, whole[-2]["number"]):
            assert list(events(client, run, last)) == [event for event in whole if event["number"] > last]
        over = client.get(f"/v1/runs/{run}/events", headers={"last-event-id": str(whole[-1]["number"])})
        assert (over.status_code, over.content) == (204, b"")
        assert gateway.stop() == 0
    with GatewayProcess(place, config) as gateway, gateway.client() as client:  # also after a restart
        assert list(events(client, run, 5)) == [event for event in whole if event["number"] > 5]
        assert run in client.get("/").text  # and the page shows it


def test_a_recorded_loop_is_refused_and_ended(place: Path, tmp_path: Path) -> None:
    config = configured(None, {"id": "main", "model": f"replay:{write(tmp_path / 'a.jsonl', 'a' * 30)}"})
    with GatewayProcess(place, config) as gateway, gateway.client() as client:
        run = send(client)["run"]
        told = list(events(client, run))
        actions = [event["data"]["action"] for event in told if event["kind"] == "verdict"]
        assert list(dict.fromkeys(actions)) == ["warn", "block", "abort"]
        found = ended(client, run)
        assert (found["state"], found["code"]) == ("aborted", "tool_loop_persisted")
        metrics = client.get("/metrics").text
        assert "agent_runs 0.0" in metrics


def waiting(events: list[threading.Event], *replies: Reply) -> Callable[[Any], Reply]:
    """Each request waits for its turn."""
    left = iter(zip(events, replies, strict=True))

    def answer(_: Any) -> Reply:
        event, reply = next(left)
        return Reply(reply.text, reply.calls, wait=event)

    return answer


def test_a_message_while_a_run_goes_on_reaches_that_run(place: Path) -> None:
    turns = [threading.Event() for _ in range(2)]
    call = asks(Call("read", {"path": "nothing"}))
    with (
        ModelServer(waiting(turns, call, Reply("Done."))) as server,
        GatewayProcess(place, configured(server)) as gateway,
        gateway.client() as client,
    ):
        first = send(client, "one")
        server.wait_for(1)
        second = send(client, "two")
        assert second == {"run": first["run"], "session": "s1", "joined": True}
        turns[0].set()
        server.wait_for(2)
        assert "two" in server.requests[1].said
        turns[1].set()
        assert ended(client, first["run"])["state"] == "done"
        kinds = [event["kind"] for event in events(client, first["run"])]
        assert kinds.count("user_message") == 1


def test_a_run_is_cancelled_and_the_reader_told(place: Path) -> None:
    never = threading.Event()
    with (
        ModelServer([Reply("late", wait=never)]) as server,
        GatewayProcess(place, configured(server)) as gateway,
        gateway.client() as client,
    ):
        run = send(client)["run"]
        server.wait_for(1)
        reader = events(client, run)
        assert next(reader)["kind"] == "began"
        assert client.get("/v1/sessions/s1").json()["open_runs"] == [run]
        with gateway.client() as other:
            cancelled = other.post(f"/v1/runs/{run}/cancel")
        assert (cancelled.status_code, cancelled.json()["cancelled"]) == (202, True)
        assert [event["data"].get("reason") for event in reader] == ["cancelled"]
        assert ended(client, run)["state"] == "cancelled"
        again = client.post(f"/v1/runs/{run}/cancel")
        assert (again.status_code, again.json()) == (
            200,
            {"run": run, "cancelled": False, "state": "cancelled"},
        )
        never.set()


def test_too_many_runs_are_a_problem_that_says_when_to_ask_again(place: Path) -> None:
    never = threading.Event()
    with (
        ModelServer(lambda _: Reply("late", wait=never)) as server,
        GatewayProcess(place, configured(server, limits={"activeRuns": 2})) as gateway,
        gateway.client() as client,
    ):
        runs = [send(client, session=f"s{number}")["run"] for number in range(2)]
        client.post("/v1/sessions", json={"agent": "main", "session": "s3"})
        refused = client.post("/v1/sessions/s3/messages", json={"text": "go"})
        assert "2 runs go on" in problem(refused, 503)["detail"]
        assert int(refused.headers["retry-after"]) > 0
        assert send(client, session="s0")["joined"] is True
        client.post(f"/v1/runs/{runs[0]}/cancel")
        ended(client, runs[0])
        assert client.post("/v1/sessions/s3/messages", json={"text": "go"}).status_code == 202
        never.set()


def test_a_killed_gateway_goes_on_with_its_sessions_and_the_evidence(place: Path) -> None:
    (place.parent / "a.txt").write_text("the same")
    same = asks(Call("read", {"path": "a.txt"}))
    never = threading.Event()
    replies = iter([same] * 4 + [Reply("late", wait=never)] + [same] * 2 + [Reply("I give up.")])
    with ModelServer(lambda _: next(replies)) as server:
        config = configured(server)
        with GatewayProcess(place, config) as gateway, gateway.client() as client:
            first = send(client, "read it")["run"]
            server.wait_for(5)
            gateway.process.kill()
        never.set()
        with GatewayProcess(place, config) as gateway, gateway.client() as client:
            found = client.get(f"/v1/runs/{first}").json()
            assert (found["state"], found["message"]) == (
                "interrupted",
                "the process ended in the middle of the run",
            )
            told = list(events(client, first))
            assert (told[0]["kind"], told[-1]["kind"]) == ("began", "ended")
            assert [event["kind"] for event in told].count("outcome") == 4
            wait_until(lambda: any("was interrupted" in line for line in gateway.logged))
            second = send(client, "go on")["run"]
            assert second != first
            assert ended(client, second)["state"] == "done"
            verdicts = [event["data"] for event in events(client, second) if event["kind"] == "verdict"]
            assert [(verdict["action"], verdict["count"]) for verdict in verdicts] == [
                ("warn", 4),
                ("block", 5),
            ]
            assert server.requests[-1].said == ["read it", "go on"]
            assert len(server.requests[-1].results) == 6
            third = client.get("/v1/runs", params={"state": "interrupted"}).json()["runs"]
            assert [run["run"] for run in third] == [first]


def test_an_interruption_is_said_at_the_next_start_only(place: Path) -> None:
    never = threading.Event()
    said = []
    with ModelServer(lambda _: Reply("late", wait=never)) as server:
        config = configured(server)
        with GatewayProcess(place, config) as gateway, gateway.client() as client:
            run = send(client)["run"]
            server.wait_for(1)
            gateway.process.kill()
        never.set()
        for _ in range(2):
            with GatewayProcess(place, config) as gateway:
                assert gateway.stop() == 0
            said.append([line for line in gateway.logged if f"run {run} of agent 'main' was interr" in line])
    assert [len(lines) for lines in said] == [1, 0]


def test_an_orderly_end_cancels_runs_and_writes_them_down(place: Path) -> None:
    never = threading.Event()
    with ModelServer(lambda _: Reply("late", wait=never)) as server:
        config = configured(server)
        with GatewayProcess(place, config) as gateway, gateway.client() as client:
            run = send(client)["run"]
            server.wait_for(1)
            with gateway.client() as other:
                reader = events(other, run)
                assert next(reader)["kind"] == "began"
                gateway.process.terminate()
                last = [(event["kind"], event["data"]["reason"]) for event in reader]
                assert last == [("ended", "cancelled")]
            assert gateway.wait() == 0
        never.set()
        with GatewayProcess(place, config) as gateway, gateway.client() as client:
            assert client.get(f"/v1/runs/{run}").json()["state"] == "cancelled"


def test_heartbeats_are_runs_of_their_own(place: Path, tmp_path: Path) -> None:
    beat = {"every": "1s", "prompt": "Look around."}
    recording = write(tmp_path / "a.jsonl", "aa")  # the third would be warned of
    agent = {"id": "my agent", "model": f"replay:{recording}", "heartbeat": beat}
    with GatewayProcess(place, configured(None, agent)) as gateway, gateway.client() as client:
        assert client.get("/v1/agents").json()["agents"][0]["next_heartbeat"] > 0

        def done() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = client.get("/v1/runs", params={"state": "done"}).json()["runs"]
            return found

        wait_until(lambda: len(done()) >= 3)
        assert {(run["trigger"], run["task"], run["session"]) for run in done()} == {
            ("heartbeat", "Look around.", done()[0]["session"])
        }
        assert done()[0]["session"].startswith("heartbeat-my-agent-")
        for run in done():
            assert "verdict" not in [event["kind"] for event in events(client, run["run"])]


def test_a_heartbeat_that_is_wrong_is_said_at_the_start(place: Path) -> None:
    config = configured(None, {"id": "main", "heartbeat": {"cron": "61 * * * *"}})
    gateway = GatewayProcess(place, config)
    assert gateway.wait() == 2
    assert "agents.list[0].heartbeat.cron" in "".join(gateway.logged)


def test_the_document_describes_it(place: Path) -> None:
    with GatewayProcess(place, configured()) as gateway, gateway.client() as client:
        document = client.get("/openapi.json").json()
    paths = document["paths"]
    assert set(paths["/v1/runs/{run}/events"]) >= {"get", "post"}
    assert {"/v1/agents", "/v1/sessions", "/v1/runs/{run}/cancel", "/v1/sessions/{session}/messages"} <= set(
        paths
    )
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert reference in document["components"]["schemas"]
