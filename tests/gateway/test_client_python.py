"""`LoopGuard(store="http://...")` against a real gateway: the verdicts are those of a guard in process."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

from loopwarden import Compaction, LoopAborted, LoopGuard, Verdict
from loopwarden.remote import service
from tests.gateway.processes import PATIENCE, SMALL, GatewayProcess, wait_until
from tests.guards import actions, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK: dict[str, Any] = SMALL["tools"]["loopDetection"]


def at(gateway: GatewayProcess, **options: Any) -> LoopGuard:
    return LoopGuard(
        store=f"http://:{gateway.token}@127.0.0.1:{gateway.port}", **{"on_error": "raise", **options}
    )


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be slow; what happens then is tested in tests/remote."""
    monkeypatch.setattr(service, "CONNECT_SECONDS", PATIENCE)
    monkeypatch.setattr(service, "ANSWER_SECONDS", PATIENCE)


@pytest.fixture
def guard(gateway: GatewayProcess) -> Iterator[LoopGuard]:
    found = at(gateway)
    yield found
    found.close()


def scene(guard: LoopGuard, run: str | None) -> list[Verdict]:
    """A bit of everything."""
    session = guard.session("scene")
    found = calls(session, 8, run_id=run)
    session.user_message(run_id=run)
    for number in range(4):
        found.append(session.before("exec", {"command": "make"}, call_id=f"e{number}", run_id=run))
        result = {
            "content": [],
            "details": {"exitCode": 2, "aggregated": f"at {number}", "status": "completed"},
        }
        found.append(session.after(f"e{number}", result=result, run_id=run))
    session.retract(["e3"], run_id=run)
    for number in range(6):
        found.append(session.before("nope", {"n": number}, call_id=f"n{number}", run_id=run))
        found.append(session.after(f"n{number}", error="unknown tool: nope", run_id=run))
    found.append(session.compacted(run_id=run))
    for number in range(4):
        found.append(session.before("read", {"b": b"bytes"}, call_id=f"b{number}", run_id=run))
        found.append(session.after(f"b{number}", result={"n": float("nan")}, run_id=run))
    session.forget(run_id=run)
    return [replace(verdict, key=None) for verdict in found]  # it is made of the digests of what is sent


@pytest.mark.parametrize("run", ["scene", None, "", "with/slash ?#\N{SNOWMAN}"])
def test_verdicts_are_those_of_a_guard_in_process(guard: LoopGuard, run: str | None) -> None:
    here = LoopGuard(BLOCK, on_error="raise")
    expected = scene(here, run)
    assert {"allow", "warn", "block", "abort"} <= {verdict.action for verdict in expected}
    assert scene(guard, run) == expected


def test_unlike_values_that_are_no_json_stay_unlike(guard: LoopGuard) -> None:
    for number in range(12):
        assert (
            guard.before("look", {"b": b"%d" % number}, call_id=f"c{number}", run_id="bytes").action
            == "allow"
        )
        guard.after(f"c{number}", result={number}, run_id="bytes")
    guard.forget(run_id="bytes")


def test_a_run_goes_on_under_another_name(guard: LoopGuard) -> None:
    calls(guard, 4, run_id="old")
    guard.compacted(run_id="new", continues="old")
    assert actions(calls(guard, 2, run_id="new"))[-1] == "block"
    guard.forget(run_id="new")


def test_sessions_are_apart(guard: LoopGuard) -> None:
    for name in ("one", "two"):
        assert actions(calls(guard.session(name), 5, run_id="same"))[-1] == "warn"
        guard.session(name).forget(run_id="same")


def test_a_call_id_may_be_used_again_after_its_outcome(guard: LoopGuard) -> None:
    found = []
    for _ in range(6):
        found.append(guard.before("read", {}, call_id="c", run_id="again").action)
        guard.after("c", result="same", run_id="again")
    assert found == ["allow"] * 3 + ["warn"] * 2 + ["block"]
    assert guard.before("read", {}, call_id="c", run_id="again").count == 6
    guard.forget(run_id="again")


def test_the_mode_goes_along_and_listeners_are_told(gateway: GatewayProcess) -> None:
    heard: list[tuple[str | None, str]] = []

    def listen(verdict: Verdict, event: Any) -> None:
        heard.append((verdict.would, event.tool))

    guard = at(gateway, mode="observe", on_verdict=[listen])
    assert set(actions(calls(guard, 7, run_id="observed"))) == {"allow"}
    assert [would for would, _ in heard] == ["warn", "warn", "block", "block"]
    assert {tool for _, tool in heard} == {"read"}
    guard.close()


def test_tools_are_guarded_sync_and_async(guard: LoopGuard) -> None:
    @guard.tool
    async def look(path: str) -> str:
        return f"nothing in {path}"

    async def agent() -> list[str]:
        return [await look("a") for _ in range(7)]

    with guard.run() as run:
        assert len(run) > 10
        said = asyncio.run(agent())
    assert said[0] == "nothing in a"
    assert "refused" in said[5]

    @guard.tool
    def stuck() -> str:
        return "same"

    with guard.run(), pytest.raises(LoopAborted):
        assert [stuck() for _ in range(40)] == []


def test_threads_share_the_connections(guard: LoopGuard) -> None:
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        found[number] = actions(calls(guard, 8, run_id=f"thread-{number}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(8), ["allow"] * 3 + ["warn"] * 2 + ["block"] * 3)


def test_threads_in_one_run_are_all_counted(gateway: GatewayProcess) -> None:
    guard = at(gateway, mode="observe")

    def work(number: int) -> None:
        for place in range(4):
            guard.before("read", {}, call_id=f"{number}-{place}", run_id="shared")
            guard.after(f"{number}-{place}", result=f"{number} {place}", run_id="shared")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert guard.before("read", {}, call_id="last", run_id="shared").count == 20
    guard.close()


class Seen:
    """Records what an observer of a guard is told."""

    def __init__(self) -> None:
        self.compared: list[bytes | None] = []

    def saw(self, *told: Any) -> None:
        self.compared.append(told[3])

    def forgot(self, *told: Any) -> None:
        pass


def test_a_record_can_be_kept_here(gateway: GatewayProcess, tmp_path: Path) -> None:
    from loopwarden.records import read

    guard = at(gateway, record=tmp_path / "record.jsonl")
    calls(guard, 12, run_id="recorded")
    guard.close()
    entries = list(read(tmp_path / "record.jsonl"))
    assert {entry.kind for entry in entries} >= {"begun", "detection", "refusal", "abort", "ended"}
    assert entries[-1].details["refusals"] == 4


def test_an_observer_is_told_what_is_alike(gateway: GatewayProcess) -> None:
    seen = Seen()
    guard = at(gateway, record=seen)
    for number, path in enumerate("aab"):
        guard.before("read", {"path": path}, call_id=str(number), run_id="seen")
    guard.feed(Compaction(run_id="seen"))
    one, two, three, none = seen.compared
    guard.close()
    assert one == two != three
    assert one is not None
    assert none is None


def test_a_gateway_that_is_killed_lets_calls_through_and_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with GatewayProcess(tmp_path / "state", SMALL) as first:
        port = first.port
        guard = at(first, on_error="allow")
        assert actions(calls(guard, 6, run_id="r"))[-1] == "block"
        first.process.kill()
        first.wait()
        assert actions(calls(guard, 3, run_id="down")) == ["allow"] * 3
    with GatewayProcess(tmp_path / "state", SMALL, "--port", str(port)):
        wait_until(lambda: calls(guard, 6, run_id="r")[-1].action == "block")
    guard.close()
    told = [record.message for record in caplog.records if "gateway" in record.message]
    assert [one.split(":")[0] for one in told] == ["gateway", "gateway is back"]


def test_a_wrong_token_is_told(gateway: GatewayProcess, caplog: pytest.LogCaptureFixture) -> None:
    guard = LoopGuard(store=f"http://:{'x' * 40}@127.0.0.1:{gateway.port}")
    assert guard.before("read", {}, call_id="c").action == "allow"
    guard.close()
    assert "does not take the token (401): set LOOPWARDEN_TOKEN" in caplog.text
