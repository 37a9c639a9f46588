"""Heartbeats: when scheduled runs begin, and when they don't."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("cronsim")

from loopwarden import load_config
from loopwarden.config.runtime import runtime_of
from loopwarden.runner.heartbeats import Heartbeats

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo | None = None) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone or UTC).timestamp()


class Scene:
    """Agents with heartbeats, a clock that is set by hand, and what began."""

    def __init__(self, now: float, zone: ZoneInfo | None = None, **beats: dict[str, Any]) -> None:
        listed = [{"id": name, "heartbeat": beat} for name, beat in beats.items()]
        runtime = runtime_of(load_config({"agents": {"list": [*listed, {"id": "none"}]}}))
        self.now = now
        self.zone = zone
        self.began: list[str] = []
        self.said: list[str] = []
        self.over = asyncio.Event()
        self.beats = Heartbeats(
            runtime.agents,
            self.start,
            clock=lambda: self.now,
            wait=self.wait,
            zone=zone or UTC,
            said=self.said.append,
        )
        self.until = now

    async def start(self, agent: str, prompt: str) -> None:
        assert prompt
        self.began.append(f"{agent} {datetime.fromtimestamp(self.now, self.zone or UTC):%d %H:%M:%S}")
        if agent == "slow":
            await self.over.wait()
        if agent == "broken":
            raise RuntimeError("no model")

    async def wait(self, seconds: float) -> None:
        """The clock goes on; what has begun gets its turn."""
        assert 0 < seconds <= 20
        await asyncio.sleep(0)
        self.now += seconds
        if self.now > self.until:
            raise asyncio.CancelledError

    async def pass_until(self, moment: float) -> None:
        self.until = moment
        with pytest.raises(asyncio.CancelledError):
            await self.beats.run()


def played(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


def test_an_interval() -> None:
    async def scene() -> None:
        stage = Scene(at("2026-03-01T10:00"), a={"every": "30m"}, b={"every": "45m"})
        await stage.pass_until(at("2026-03-01T11:31"))
        assert stage.began == [
            "a 01 10:30:00",
            "b 01 10:45:00",
            "a 01 11:00:00",
            "a 01 11:30:00",
            "b 01 11:30:00",
        ]
        assert stage.said == []
        assert stage.beats.next["a"] == at("2026-03-01T12:00")

    played(scene)


def test_a_cron_expression() -> None:
    async def scene() -> None:
        stage = Scene(at("2026-03-06T08:00"), a={"cron": "0 9 * * 1-5"})  # a Friday
        await stage.pass_until(at("2026-03-10T10:00"))
        assert stage.began == ["a 06 09:00:00", "a 09 09:00:00", "a 10 09:00:00"]

    played(scene)


@pytest.mark.parametrize(
    ("cron", "night", "hours", "began"),
    [
        ("30 2 * * *", "2026-03-29T00:00", 24, ["29 03:00"]),  # 02:30 is left out
        ("30 2 * * *", "2026-10-25T00:00", 24, ["25 02:30"]),  # and comes twice here
        ("15 9 * * *", "2026-03-28T12:00", 24, ["29 09:15"]),
        ("*/30 * * * *", "2026-10-25T01:45", 2, ["25 02:00", "25 02:30", "25 02:00", "25 02:30"]),
        ("0 * * * *", "2026-03-29T00:30", 3, ["29 01:00", "29 03:00", "29 04:00"]),
    ],
)
def test_the_clocks_change(cron: str, night: str, hours: int, began: list[str]) -> None:
    async def scene() -> None:
        stage = Scene(at(night, BERLIN), BERLIN, a={"cron": cron})
        await stage.pass_until(stage.now + hours * 3600)
        assert [one.removeprefix("a ").removesuffix(":00") for one in stage.began] == began

    played(scene)


def test_what_was_slept_through_is_left_out_and_said() -> None:
    async def scene() -> None:
        stage = Scene(at("2026-03-01T10:00"), a={"every": "30m"})
        stage.now = at("2026-03-01T15:10")
        stage.beats.tick()
        await asyncio.sleep(0)
        assert stage.began == []
        assert stage.said == ["heartbeat of a: left out, as its moment was missed by 16800 seconds"]
        stage.now = at("2026-03-01T15:30") + 2
        stage.beats.tick()
        await asyncio.sleep(0)
        assert stage.began == ["a 01 15:30:02"]

    played(scene)


def test_several_moments_at_once_are_one() -> None:
    async def scene() -> None:
        stage = Scene(at("2026-03-01T10:00"), a={"every": "1s"})
        stage.now += 30
        stage.beats.tick()
        stage.beats.tick()
        await asyncio.sleep(0)
        assert stage.began == ["a 01 10:00:30"]

    played(scene)


def test_one_that_is_going_on_is_not_joined_by_another() -> None:
    async def scene() -> None:
        stage = Scene(at("2026-03-01T10:00"), slow={"every": "10m"}, a={"every": "10m"})
        await stage.pass_until(at("2026-03-01T10:21"))
        assert stage.began == ["slow 01 10:10:00", "a 01 10:10:00", "a 01 10:20:00"]
        assert stage.said == ["heartbeat of slow: left out, as the one before is still going on"]
        stage.over.set()
        await stage.pass_until(at("2026-03-01T10:31"))
        assert stage.began[3:] == ["slow 01 10:30:00", "a 01 10:30:00"]

    played(scene)


def test_a_fault_is_said_and_the_next_one_begins() -> None:
    async def scene() -> None:
        stage = Scene(at("2026-03-01T10:00"), broken={"every": "10m"})
        await stage.pass_until(at("2026-03-01T10:21"))
        assert len(stage.began) == 2
        assert stage.said == ["heartbeat of broken: no model"] * 2

    played(scene)


def test_a_clock_that_is_set_back_does_not_silence_it() -> None:
    async def scene() -> None:
        stage = Scene(at("2026-03-01T10:00"), a={"every": "30m"})
        stage.now = at("2026-02-01T10:10")
        assert stage.beats.tick() == at("2026-02-01T10:30")

    played(scene)


def test_closing_ends_what_goes_on() -> None:
    async def scene() -> None:
        stage = Scene(at("2026-03-01T10:00"), slow={"every": "10m"})
        await stage.pass_until(at("2026-03-01T10:11"))
        await stage.beats.close()
        await stage.beats.close()

    played(scene)


def test_no_heartbeat_is_no_work() -> None:
    asyncio.run(Scene(0.0).beats.run())
