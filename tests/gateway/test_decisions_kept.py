"""What a person decides on the page holds: over a restart, and at all gateways on one store."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

from loopwarden.gateway.names import run_name
from tests.gateway.processes import PATIENCE, SMALL, GatewayProcess, entered, loop, wait_until
from tests.stores.servers import Server, need_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


ENDS = [
    pytest.param(signal.SIGTERM, id="terminate"),
    pytest.param(
        getattr(signal, "SIGKILL", signal.SIGTERM),
        id="kill",
        marks=pytest.mark.skipif(sys.platform == "win32", reason="signals"),
    ),
]


def named(run: str) -> str:
    return run_name(None, "enforce", None, run)


def where(run: str) -> str:
    return f"/page/run/{named(run)}"


def decide(process: GatewayProcess, run: str, deed: str) -> None:
    """Press a button on the page of a run; for the first loop that has one, where it is about a loop."""
    place = where(run)
    with entered(process) as visitor:
        page = visitor.get(place)
        assert page.status_code == 200, page.text
        form = re.search(
            rf'action="{place}/{deed}".*?name="csrf" value="([0-9a-f]+)">'
            r'(?:<input type="hidden" name="loop" value="([0-9a-f]+)">)?',
            page.text,
        )
        assert form, f"no button for {deed}"
        fields = {"csrf": form[1], **({"loop": form[2]} if form[2] else {})}
        assert visitor.post(f"{place}/{deed}", data=fields).status_code == 303


def shown(process: GatewayProcess, run: str) -> str:
    """What the page says of a run now, without what happened before."""
    with entered(process) as visitor:
        return visitor.get(where(run)).text.partition("What happened")[0]


def is_paused(process: GatewayProcess, run: str) -> bool:
    return "The guard is paused" in shown(process, run)


def is_released(process: GatewayProcess, run: str) -> bool:
    return "let through by a person" in shown(process, run)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    need_server()
    server = Server(tmp_path, keeps=True)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("end", ENDS)
def test_decisions_are_kept_over_a_restart(tmp_path: Path, end: int) -> None:
    folder = tmp_path / "state"
    with GatewayProcess(folder, SMALL) as process, process.client() as client:
        for run in ("paused", "released", "both"):
            assert loop(client, range(6), run) == "...wwB"
        decide(process, "paused", "pause")
        decide(process, "released", "release")
        decide(process, "both", "pause")
        decide(process, "both", "release")
        process.stop(end)
    with GatewayProcess(folder, SMALL) as process, process.client() as client:
        assert loop(client, range(10, 25), "paused") == "." * 15
        assert is_paused(process, "paused")
        assert loop(client, range(10, 20), "released")[:4] == "...w"
        assert loop(client, range(6), "undecided") == "...wwB"  # nobody decided about this one
        assert loop(client, range(10, 20), "both") == "." * 10
        decide(process, "paused", "resume")
        decide(process, "both", "resume")
        process.stop(end)
    with GatewayProcess(folder, SMALL) as process, process.client() as client:
        assert "B" in loop(client, range(30, 36), "paused")
        assert "B" not in loop(client, range(30, 40), "released")
        assert "B" not in loop(client, range(30, 40), "both")
        assert process.stop() == 0
        assert "Traceback" not in "".join(process.logged)


def test_a_loop_from_before_the_restart_can_be_guarded_again(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with GatewayProcess(folder, SMALL) as process, process.client() as client:
        assert loop(client, range(6)) == "...wwB"
        decide(process, "r", "release")
        process.stop()
    with GatewayProcess(folder, SMALL) as process, process.client() as client:
        assert loop(client, range(10, 11)) == "."
        assert is_released(process, "r")
        decide(process, "r", "hold")
        assert not is_released(process, "r")
        assert "B" in loop(client, range(20, 30))


@pytest.mark.parametrize("kind", ["redis", "sqlite"])
def test_what_is_decided_at_one_gateway_holds_at_the_other(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    address = request.getfixturevalue("redis").url if kind == "redis" else f"sqlite:{tmp_path / 'shared.db'}"
    with (
        GatewayProcess(tmp_path / "one", SMALL, "--store", address) as one,
        GatewayProcess(tmp_path / "two", SMALL, "--store", address) as two,
        one.client() as first,
        two.client() as second,
    ):
        for run in ("released", "paused", "undecided"):
            assert loop(first, range(6), run) == "...wwB"
            assert loop(second, range(6, 7), run) == "B"
        decide(one, "released", "release")
        decide(one, "paused", "pause")
        wait_until(lambda: is_released(two, "released"))
        wait_until(lambda: is_paused(two, "paused"))
        assert loop(second, range(20, 60), "paused") == "." * 40
        assert loop(second, range(20, 24), "released") == "...w"
        assert loop(second, range(7, 9), "undecided") == "BB"
        decide(two, "paused", "resume")
        decide(two, "released", "hold")
        wait_until(lambda: not is_paused(one, "paused"))
        wait_until(lambda: not is_released(one, "released"))
        assert loop(first, range(100, 101), "paused") == "B"
        assert "B" in loop(first, range(100, 106), "released")
        assert one.stop() == 0
        assert two.stop() == 0
        assert "Traceback" not in "".join(one.logged + two.logged)
    assert not (tmp_path / "one" / "decisions.db").exists()


def test_an_open_page_at_the_other_gateway_is_told(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path / 'shared.db'}"
    with (
        GatewayProcess(tmp_path / "one", SMALL, "--store", address) as one,
        GatewayProcess(tmp_path / "two", SMALL, "--store", address) as two,
        one.client() as first,
        two.client() as second,
    ):
        loop(first, range(1))
        loop(second, range(1, 2))
        with entered(two) as visitor:
            after = re.search(rf"/events\?run={named('r')}&amp;after=([\w-]+)", visitor.get(where("r")).text)
            assert after
            asked = {"run": named("r"), "after": after[1]}
            with visitor.stream("GET", "/events", params=asked) as events:
                lines = events.iter_lines()
                for deed in ("pause", "resume", "pause"):  # what its own calls changed is told twice at most
                    decide(one, "r", deed)
                    until = time.monotonic() + PATIENCE
                    while next(lines) != "event: run" or is_paused(two, "r") != (deed == "pause"):
                        assert time.monotonic() < until, "nobody told"  # there is a heartbeat now and then


def test_decisions_at_once_at_two_gateways_both_hold_also_for_a_third(redis: Server, tmp_path: Path) -> None:
    with (
        GatewayProcess(tmp_path / "one", SMALL, "--store", redis.url) as one,
        GatewayProcess(tmp_path / "two", SMALL, "--store", redis.url) as two,
        one.client() as first,
        two.client() as second,
    ):
        for run in ("a", "b"):
            assert loop(first, range(6), run) == "...wwB"
            assert loop(second, range(6, 7), run) == "B"
        threads = [
            threading.Thread(target=decide, args=words)
            for words in ((one, "a", "pause"), (two, "b", "pause"), (two, "a", "release"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        for process, run in ((one, "b"), (two, "a")):
            wait_until(lambda process=process, run=run: is_paused(process, run))
        with (
            GatewayProcess(tmp_path / "three", SMALL, "--store", redis.url) as three,
            three.client() as third,
        ):
            assert loop(third, range(50, 60), "a") == loop(third, range(50, 60), "b") == "." * 10
            decide(three, "a", "resume")
            decide(three, "b", "resume")
            assert "B" not in loop(third, range(60, 70), "a")  # its loop is let through
            assert loop(third, range(60, 61), "b") == "B"


@pytest.mark.parametrize("keeps", [True, False])
def test_decisions_outlive_a_restart_of_redis(tmp_path: Path, *, keeps: bool) -> None:
    """Also of one that keeps nothing: the gateways put back what they know."""
    need_server()
    server = Server(tmp_path, keeps=keeps)
    server.start()
    try:
        with (
            GatewayProcess(tmp_path / "one", SMALL, "--store", server.url) as one,
            GatewayProcess(tmp_path / "two", SMALL, "--store", server.url) as two,
            one.client() as first,
            two.client() as second,
        ):
            for client, run in ((first, "a"), (first, "b"), (second, "b")):
                loop(client, range(3), run)
            decide(one, "a", "pause")
            server.stop()
            wait_until(lambda: first.get("/healthz").status_code == 503)
            decide(one, "b", "pause")  # while it is gone
            wait_until(lambda: "can't be kept" in "".join(one.logged))
            server.start()
            wait_until(lambda: "kept again" in "".join(one.logged))
            wait_until(lambda: is_paused(two, "b"))
            assert "".join(one.logged).count("can't be kept") == 1
            one.stop(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
            with (
                GatewayProcess(tmp_path / "three", SMALL, "--store", server.url) as three,
                three.client() as third,
            ):
                wait_until(lambda: third.get("/healthz").status_code == 200)
                assert loop(third, range(10, 20), "a") == loop(third, range(10, 20), "b") == "." * 10
                assert loop(third, range(10, 16), "c") == "...wwB"
    finally:
        server.stop()


def test_damage_in_the_folder_does_not_keep_the_gateway_from_starting(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with GatewayProcess(folder, SMALL) as process:
        process.stop()
    (folder / "decisions.db").write_bytes(b"no database at all " * 100)
    with GatewayProcess(folder, SMALL) as process, process.client() as client:
        assert loop(client, range(6)) == "...wwB"
        decide(process, "r", "pause")
        assert loop(client, range(10, 20)) == "." * 10
        assert process.stop() == 0
        logged = "".join(process.logged)
        assert logged.count("can't be kept") == 1
        assert "decisions.db" in logged
        assert "Traceback" not in logged
