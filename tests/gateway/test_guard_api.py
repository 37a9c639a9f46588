"""The guard over HTTP: what it answers, once each, apart by run, session, agent and mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

from tests.gateway.processes import after, before, loop, problem, said

if TYPE_CHECKING:
    import httpx2

FIELDS = {
    "action", "level", "detector", "count", "threshold", "tool", "paired_tools", "message", "key", "error",
    "would", "announce",
}  # fmt: skip


def test_loop_is_warned_of_then_refused_then_ended(client: httpx2.Client) -> None:
    assert loop(client, range(12)) == "...wwBBBBXXX"


def test_verdict_has_every_field(client: httpx2.Client) -> None:
    assert loop(client, range(3), "fields") == "..."
    verdict = before(client, 3, "fields")
    assert set(verdict) == FIELDS
    assert verdict["action"] == "warn"
    assert verdict["detector"] == "generic_repeat"
    assert verdict["count"] == 3
    assert verdict["announce"] is True
    assert "read" in verdict["message"]


def test_changing_results_are_not_refused(client: httpx2.Client) -> None:
    for number in range(12):
        assert before(client, number, "changing")["action"] in {"allow", "warn"}
        after(client, number, "changing", result=f"new {number}")


@pytest.mark.parametrize("other", [{"session": "s"}, {"agent": "a"}, {"mode": "observe"}])
def test_runs_are_apart(client: httpx2.Client, other: dict[str, Any]) -> None:
    name = f"apart-{other}"
    assert loop(client, range(6), name) == "...wwB"
    assert loop(client, range(3), name, **other) == "..."


def test_observing_never_refuses(client: httpx2.Client) -> None:
    assert loop(client, range(12), "watched", mode="observe") == "." * 12
    assert before(client, 99, "watched", mode="observe")["would"] in {"block", "abort"}


def test_names_with_signs_are_names(client: httpx2.Client) -> None:
    odd = "a/b?c#d%41 é\u202e\n\r\u2028/before"
    assert loop(client, range(5), quote(odd, safe="")) == "...ww"
    event = {"event": "before", "run": odd, "tool": "read", "arguments": {"path": "a"}, "call_id": "x"}
    assert said(client.post("/v1/events", json={"events": [event]}))["verdicts"][0]["action"] == "block"


def test_event_sent_again_counts_once(client: httpx2.Client) -> None:
    for number in range(5):
        first, again = before(client, number, "again"), before(client, number, "again")
        assert first == again
        assert after(client, number, "again") == after(client, number, "again")
    refusals = [before(client, 9, "again") for _ in range(30)]
    assert {verdict["action"] for verdict in refusals} == {"block"}
    assert before(client, 10, "again")["action"] == "block"


def test_id_of_an_open_call_is_that_call(client: httpx2.Client) -> None:
    first = before(client, 1, "open", tool="read", arguments=0)
    other = before(client, 1, "open", tool="write", arguments=9)
    assert (first["tool"], other["tool"]) == ("read", "read")
    after(client, 1, "open")
    assert before(client, 1, "open", tool="write", arguments=9)["tool"] == "write"


def test_id_used_anew_after_its_outcome_is_a_new_call(client: httpx2.Client) -> None:
    strip = [before(client, 1, "reused")["action"]]
    for _ in range(5):
        after(client, 1, "reused")
        strip.append(before(client, 1, "reused")["action"])
    assert strip == ["allow", "allow", "allow", "warn", "warn", "block"]


def test_refused_call_with_another_event_id_counts(client: httpx2.Client) -> None:
    assert loop(client, range(5), "events") == "...ww"
    refused = [before(client, 7, "events", event_id=f"e{number}")["action"] for number in range(6)]
    assert refused == ["block"] * 4 + ["abort"] * 2


def test_event_with_its_id_counts_once(client: httpx2.Client) -> None:
    """Three compactions without work between them end a run; one that is told three times does not."""
    path = "/v1/runs/compactions/compacted"
    for _ in range(4):
        assert said(client.post(path, json={"event_id": "one"}))["action"] == "allow"
    assert said(client.post(path, json={"event_id": "two"}))["action"] == "allow"
    verdict = said(client.post(path, json={"event_id": "three"}))
    assert verdict["action"] == "abort"
    assert verdict["error"] == "compaction_loop_persisted"
    assert said(client.post(path, json={"event_id": "three"})) == verdict


def test_post_compaction_guard_answers_the_outcome(client: httpx2.Client) -> None:
    said(client.post("/v1/runs/armed/compacted"))
    ends = []
    for number in range(3):
        before(client, number, "armed")
        ends.append(after(client, number, "armed"))
    assert [verdict["action"] for verdict in ends] == ["allow", "allow", "abort"]
    assert after(client, 2, "armed") == ends[2]


def test_evidence_goes_on_under_a_new_name(client: httpx2.Client) -> None:
    assert loop(client, range(5), "old") == "...ww"
    said(client.post("/v1/runs/new/compacted", json={"continues": "old"}))
    assert before(client, 5, "new")["action"] == "block"
    assert before(client, 5, "old")["action"] == "allow"


def test_retracted_calls_are_no_evidence(client: httpx2.Client) -> None:
    assert loop(client, range(5), "retracted") == "...ww"
    said(client.post("/v1/runs/retracted/retract", json={"call_ids": [f"c{number}" for number in range(5)]}))
    assert loop(client, range(5, 8), "retracted") == "..."


def test_forgotten_run_begins_afresh(client: httpx2.Client) -> None:
    assert loop(client, range(6), "over") == "...wwB"
    said(client.post("/v1/runs/over/forget"))
    assert loop(client, range(6), "over") == "...wwB"


def test_person_makes_refusals_good(client: httpx2.Client) -> None:
    assert loop(client, range(7), "person") == "...wwBB"
    said(client.post("/v1/runs/person/user-message", json={}))
    assert before(client, 7, "person")["action"] == "warn"


def test_outcomes_of_all_kinds(client: httpx2.Client) -> None:
    for number in range(4):
        before(client, number, "unknown", tool="nope", arguments={"n": number})
        after(client, number, "unknown", result=None, error="gone", unknown_tool="nope")
    assert before(client, 4, "unknown", tool="nope")["detector"] == "unknown_tool_repeat"
    for number in range(5):
        before(client, number, "late", tool=f"t{number % 2}", arguments={"n": number})
        after(client, number, "late", result=None, error="late", timed_out=True)
    assert before(client, 9, "late", tool="t0")["detector"] == "failure_streak"


def test_batch_is_answered_in_order(client: httpx2.Client) -> None:
    events: list[dict[str, Any]] = []
    for number in range(6):
        call = f"c{number}"
        events.append({"event": "before", "run": "b", "tool": "read", "arguments": 1, "call_id": call})
        events.append({"event": "after", "run": "b", "call_id": call, "result": "same"})
    verdicts = said(client.post("/v1/events", json={"events": events}))["verdicts"]
    assert [verdict["action"] for verdict in verdicts[::2]] == [*["allow"] * 3, *["warn"] * 2, "block"]
    assert said(client.post("/v1/events", json={"events": events}))["verdicts"][-2]["action"] == "block"


def test_batch_of_one_run_and_of_none(client: httpx2.Client) -> None:
    event = {"event": "before", "tool": "read", "call_id": "c"}
    named = [{**event, "run": "x"}, {**event, "run": "y"}]
    assert len(said(client.post("/v1/runs/x/events", json={"events": named[:1]}))["verdicts"]) == 1
    found = problem(client.post("/v1/runs/x/events", json={"events": named}), 422)
    assert found["errors"][0]["field"] == "events.1.run"
    assert len(said(client.post("/v1/runs/x/events", json={"events": [event, event]}))["verdicts"]) == 2
    assert len(said(client.post("/v1/events", json={"events": [event]}))["verdicts"]) == 1
    assert said(client.post("/v1/events", json={"events": []})) == {"verdicts": []}


def test_batch_with_a_fault_does_nothing(client: httpx2.Client) -> None:
    good = {"event": "compacted", "run": "all-or-none"}
    for bad in ({"event": "before", "tool": "x"}, {"event": "nope"}, [], {"event": "forget", "run": 1}):
        found = problem(client.post("/v1/events", json={"events": [good, good, bad]}), 422)
        assert found["errors"][0]["index"] == 2
        assert found["errors"][0]["field"].startswith("events.2")
    assert said(client.post("/v1/events", json={"events": [good, good]}))["verdicts"][1]["action"] == "allow"


@pytest.mark.parametrize(
    ("kind", "body", "field", "words"),
    [
        ("before", {"call_id": "c"}, "tool", "is missing"),
        ("before", {"tool": 1, "call_id": "c"}, "tool", "must be a string, not a number"),
        ("before", {"tool": "x", "call_id": ""}, "call_id", "at least 1 character"),
        ("before", {"tool": "x", "call_id": "c" * 1001}, "call_id", "at most 1000 characters"),
        ("before", {"tool": "x", "call_id": "c", "turnId": "t"}, "turnId", "did you mean `turn_id`?"),
        ("before", {"tool": "x", "call_id": "c", "mode": "off"}, "mode", "'enforce' or 'observe'"),
        ("before", {"tool": "x", "call_id": "c", "at": "now"}, "at", "must be a number, not a string"),
        ("before", {"tool": "x", "call_id": "c", "at": True}, "at", "must be a number, not a boolean"),
        ("after", {"call_id": "c", "result": 1, "error": "e"}, "", "must give `result` or `error`, not both"),
        ("after", {"call_id": "c", "error": 1}, "error", "must be a string, not a number"),
        ("after", {"call_id": "c", "timed_out": 1}, "timed_out", "must be a boolean, not a number"),
        ("retract", {}, "call_ids", "is missing"),
        ("retract", {"call_ids": "c"}, "call_ids", "must be an array, not a string"),
        ("compacted", {"continues": 1}, "continues", "must be a string, not a number"),
        ("user-message", [], "", "must be an object, not an array"),
    ],
)
def test_fault_names_field_and_what_is_allowed(
    client: httpx2.Client, kind: str, body: Any, field: str, words: str
) -> None:
    found = problem(client.post(f"/v1/runs/faults/{kind}", json=body), 422)
    assert found["errors"][0]["field"] == field
    assert words in found["errors"][0]["message"]
    assert words in found["detail"]


def test_run_needs_a_name_of_some_length(client: httpx2.Client) -> None:
    assert problem(client.post("/v1/runs//compacted"), 422)["errors"][0]["field"] == "run"
    assert problem(client.post(f"/v1/runs/{'r' * 1001}/compacted"), 422)["errors"][0]["field"] == "run"
    said(client.post(f"/v1/runs/{'r' * 1000}/compacted"))
