"""What the guard writes to the log: lines that are stable, and that no name can forge."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from loopwarden import LoopGuard
from tests.guards import SMALL, actions, calls, strict

if TYPE_CHECKING:
    import pytest


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.message}" for record in caplog.records]


def test_log_lines_are_stable(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="loopwarden")
    guard = strict()
    calls(guard, 7)
    calls(guard, 4)
    start, key = "WARNING loop tool=read level=", "run=r key=repeat:"
    found = lines(caplog)
    assert [line.split(key)[0].removeprefix(start) for line in found] == [
        "warning action=warn detector=generic_repeat count=3 threshold=3 ",
        "critical action=block detector=generic_repeat count=5 threshold=5 ",
        "critical action=block detector=generic_repeat count=6 threshold=5 ",
        "critical action=block detector=generic_repeat count=7 threshold=5 ",
        "critical action=block detector=generic_repeat count=8 threshold=5 ",
        "critical action=abort detector=global_circuit_breaker count=9 threshold=9 ",
    ]
    assert len({line.split(key)[1] for line in found}) == 1


def test_a_compaction_says_that_it_armed_the_guard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="loopwarden")
    strict({}).compacted(run_id="r")
    strict({"postCompactionGuard": {"windowSize": 5}}).compacted()
    strict({"enabled": False}).compacted(run_id="r")
    assert lines(caplog) == [f"INFO post-compaction guard armed for {count} attempts" for count in (3, 5)]


def test_names_cannot_forge_lines(caplog: pytest.LogCaptureFixture) -> None:
    guard = strict()
    tool = "read\nWARNING loop tool=\x1b[31mother\u202e level=critical"
    for number in range(5):
        guard.before(tool, {}, call_id=f"c{number}", run_id="r\x00 \r1")
    assert len(caplog.records) == 1
    line = caplog.records[0].getMessage()
    assert line.isprintable()
    assert line.startswith(
        "loop tool=read?WARNING?loop?tool=?[31mother??level=critical level=warning action=warn "
    )
    assert " run=r???1 " in line


def test_what_is_only_observed_is_said_so_once_in_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    guard = LoopGuard({**SMALL, "enabled": None}, on_error="raise")
    verdicts = calls(guard, 9) + calls(guard, 4, path="b")
    assert actions(verdicts) == ["allow"] * 13
    assert [line.rsplit(" ", 1)[1] for line in lines(caplog)] == ["observed"] * 2
    assert all("action=warn" in line for line in lines(caplog))


def test_nothing_is_logged_where_nothing_is_found_or_all_is_off(caplog: pytest.LogCaptureFixture) -> None:
    calls(strict(), 2)
    calls(LoopGuard({**SMALL, "enabled": False}), 20)
    assert caplog.records == []


def test_repairs_of_a_configuration_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    LoopGuard({"warningThreshold": 25})
    assert any("config: " in line and "26" in line for line in lines(caplog))
