"""Log lines to a stream that takes them, takes them late, or never."""

from __future__ import annotations

import json
import logging
import os
import threading
from typing import TYPE_CHECKING

import pytest

from loopwarden.telemetry import unblocked
from loopwarden.telemetry.json_log import JsonFormatter
from loopwarden.telemetry.unblocked import UnblockedHandler

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0
MORE_THAN_A_PIPE_HOLDS = 5_000


class Handled:
    """A logger with our handler on the writing end of a pipe."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        self.stream = os.fdopen(writing, "w")
        self.handler = UnblockedHandler(self.stream)
        self.logger = logging.Logger("pipe")  # noqa: LOG001 - nobody else shall find it
        self.logger.addHandler(self.handler)

    def fill(self) -> None:
        for number in range(MORE_THAN_A_PIPE_HOLDS):
            self.logger.warning("line %d %s", number, "x" * 100)

    def read_to_end(self) -> list[str]:
        """All that was written, and is being written while it is read."""
        found: list[str] = []

        def read() -> None:
            with os.fdopen(self.reading) as stream:
                found.extend(line.rstrip("\n") for line in stream)

        reader = threading.Thread(target=read)
        reader.start()
        self.handler.close()
        self.stream.close()
        reader.join(PATIENCE)
        return found


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handled]:
    monkeypatch.setattr(unblocked, "_LAST_SECONDS", PATIENCE)  # a slow machine is no fault
    handled = Handled()
    yield handled
    handled.handler.close()


def test_every_line_comes_in_order_where_somebody_reads(handled: Handled) -> None:
    for number in range(500):
        handled.logger.warning("line %d", number)
    assert handled.read_to_end() == [f"line {number}" for number in range(500)]


def test_a_full_pipe_holds_up_nobody_and_what_is_missing_is_told(handled: Handled) -> None:
    writing = threading.Thread(target=handled.fill, daemon=True)
    writing.start()
    writing.join(PATIENCE)
    assert not writing.is_alive()
    lines = handled.read_to_end()
    last = lines.pop()
    assert last.endswith(" log lines were left out here: nobody read them in time")
    assert len(lines) + int(last.split()[0]) == MORE_THAN_A_PIPE_HOLDS
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == sorted(set(numbers))


def test_the_line_of_what_is_missing_has_the_form_of_the_others(handled: Handled) -> None:
    handled.handler.setFormatter(JsonFormatter())
    handled.fill()
    last = json.loads(handled.read_to_end()[-1])
    assert last["severity"].lower() == "warning"
    assert "were left out" in last["message"]


def test_a_reader_that_has_gone_is_no_fault(handled: Handled, capfd: pytest.CaptureFixture[str]) -> None:
    os.close(handled.reading)
    for number in range(10):
        handled.logger.warning("line %d", number)
    handled.handler.close()
    with pytest.raises(BrokenPipeError):
        handled.stream.close()
    assert capfd.readouterr().err == ""


def test_a_line_that_cannot_be_written_out_is_told_as_by_every_handler(
    handled: Handled, capfd: pytest.CaptureFixture[str]
) -> None:
    handled.logger.warning("%d", "no number")
    assert "no number" in capfd.readouterr().err
    assert handled.read_to_end() == []
