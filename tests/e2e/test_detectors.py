"""Each detector at its defaults: an agent with real tools that repeats itself and never stops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("starlette")

from tests.e2e.stage import Stage, Told, forever
from tests.runner.model_server import Call, Reply, Request, asks

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CALLS = 24
"""As many as show a warning and a refusal; how a run is ended is tested elsewhere."""


def read(name: str) -> Call:
    return Call("read", {"path": name})


def command(text: str) -> Call:
    return Call("exec", {"command": text})


def each(make: Callable[[int], Call]) -> Callable[[Request, int], Reply]:
    """Asks for another call each time."""
    return lambda _, number: asks(make(number))


def until(most: int, lines: Callable[[Request, int], Reply]) -> Callable[[Request, int], Reply]:
    """The same, for so many requests."""
    return lambda request, number: lines(request, number) if number <= most else Reply("Enough.")


def first(played: Any, action: str) -> Told | None:
    return next(iter(played.of(action)), None)


def polls(tool: str, **arguments: str) -> Callable[[Request, int], Reply]:
    """Begins a command that never says a word, and asks for ever how it goes."""

    def lines(request: Request, number: int) -> Reply:
        if number == 1:
            return asks(Call("exec", {"command": "sleep 600", "background": True}))
        session = re.search(r"session (\S+?)\.", next(iter(request.results.values())))
        assert session
        return asks(Call(tool, {**arguments, "sessionId": session[1]}))

    return lines


SENDS = forever(Call("message", {"action": "send", "channel": "notes", "message": "Done?"}))
WRITES = forever(Call("write", {"path": "written.txt", "content": "the same"}))
AGAIN = forever(read("a.txt"))
CYCLE = forever(read("a.txt"), read("b.txt"), read("c.txt"))
CHURN = each(lambda number: Call(f"no_tool_{number % 3}", {"x": number}))
FAILS = each(lambda number: command(f"echo cannot open the database >&2; exit 3 # {number}"))
STREAK = each(
    lambda number: (
        command(f"echo {'abcdefghij'[number % 10] * 9} {number} >&2; exit {number}")
        if number % 2
        else read(f"missing-{number}.txt")
    )
)
STAGNANT = each(lambda number: command(f"cat same-{number % 40}.txt"))


@pytest.mark.parametrize(
    ("agent", "lines", "detector", "warned", "refused"),
    [
        ("on", AGAIN, "generic_repeat", (11, 10), (21, 20)),
        ("on", forever(read("a.txt"), read("b.txt")), "ping_pong", (10, 10), (20, 20)),
        ("on", polls("process", action="poll"), "known_poll_no_progress", (12, 10), (22, 20)),
        ("on", polls("process", action="log"), "known_poll_no_progress", (12, 10), (22, 20)),
        ("on", polls("command_status"), "known_poll_no_progress", (12, 10), (22, 20)),
        ("on", CYCLE, "cycle", (10, 10), (20, 20)),
        ("on", forever(Call("no_such_tool", {"x": 1})), "unknown_tool_repeat", None, (11, 10)),
        ("on", CHURN, "unknown_tool_churn", (11, 10), (21, 20)),
        ("on", FAILS, "repeated_failure", (11, 10), (21, 20)),
        ("on", STREAK, "failure_streak", (11, 10), None),
        ("on", STAGNANT, "stagnation", (11, 10), None),
        ("on", SENDS, "generic_repeat", (11, 10), (21, 20)),
        ("on", WRITES, "generic_repeat", (11, 10), (21, 20)),
        ("asking", forever(command("make")), "generic_repeat", (11, 10), (21, 20)),
        ("strict", AGAIN, "generic_repeat", (9, 8), (17, 16)),
    ],
    ids=[
        "generic",
        "pair",
        "poll",
        "log",
        "status",
        "cycle",
        "unknown",
        "churn",
        "failure",
        "streak",
        "stagnation",
        "send",
        "write",
        "approval",
        "strict",
    ],
)
def test_detectors(
    stage: Stage,
    agent: str,
    lines: Callable[[Request, int], Reply],
    detector: str,
    warned: tuple[int, int] | None,
    refused: tuple[int, int] | None,
) -> None:
    play, played = stage.play(agent, until(MOST_CALLS, lines))
    warning, refusal = first(played, "warn"), first(played, "block")
    assert warning == (warned and Told(warned[0], "warn", detector, warned[1]))
    assert refusal == (refused and Told(refused[0], "block", detector, refused[1]))
    said = [verdict["message"] for verdict in played.kinds("verdict")]
    told = [any(message in text for message in said) for text in play.requests[-1].results.values()]
    begins = (warned or refused or (0, 0))[0]
    assert told[:begins] == [False] * (begins - 1) + [True]
    assert refused is None or told[refused[0] - 1]
