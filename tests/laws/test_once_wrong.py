"""Streams on which the engine and the model once differed, too rare to be drawn again by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.core.settings import Detectors, Settings
from tests.laws.streams import PROFILES, RESULTS, TOOLS, Host, Step
from tests.laws.test_engine_equals_model import compare

if TYPE_CHECKING:
    from collections.abc import Mapping

SAME, OTHER, DENIED = 0, 1, 3
NEWS = len(RESULTS)
ROUNDS = "1011011101101110110110"
HOLDS_A_ROUND = "1000" + "110" * 4
HOLDS_NONE = "1000" + "110" * 2


def step(tool: str, result: int = SAME, argument: int = 0, **more: Any) -> Step:
    return Step(tool=TOOLS.index(tool), result=result, argument=argument, run=1, **more)


LOOK, RUN, SAVE, WAIT, POLL = step("look"), step("run"), step("save"), step("wait"), step("poll")
FAIL = step("save", DENIED)
TOGETHER = step("look", together=True)

ALONE = Detectors(generic_repeat=False, ping_pong=False, repeated_failure=False, unknown_tool_churn=False)

STREAMS: dict[str, tuple[Mapping[str, Any], list[Step]]] = {
    "a call that came once after a new write counts": (
        {"warning_threshold": 4, "critical_threshold": 5},
        [RUN, SAVE, *[LOOK] * 6],
    ),
    "a repeat after exactly the window": ({"history_size": 12}, [LOOK, *[WAIT] * 11, LOOK, LOOK, LOOK]),
    "a cycle with a call twice has one name": ({"history_size": 3}, [LOOK, LOOK, RUN, SAVE] * 8),
    "waits in an alternation and an answer that changed": (
        {"history_size": 4},
        [LOOK, WAIT, RUN, WAIT, step("look", NEWS), WAIT, RUN, WAIT, LOOK, RUN, LOOK, RUN],
    ),
    "a cycle in which only waits part two calls": ({"detectors": ALONE}, [LOOK, WAIT, RUN] * 7),
    "a wait that runs while two calls alternate": (
        {},
        [LOOK, step("wait", what="open"), RUN, LOOK, RUN, LOOK],
    ),
    "news of a probe after too many calls of one reply": (
        {},
        [*[TOGETHER] * 4, RUN, step("run", argument=1), step("look", OTHER), *[LOOK] * 3],
    ),
    "a new write while an earlier call runs": (
        {"warning_threshold": 5, "critical_threshold": 6},
        [step("look", what="open", argument=2), *(step("send", DENIED, n % 2) for n in range(3)), SAVE]
        + [step("send", DENIED, n % 2) for n in range(6)],
    ),
    "three waits after a compaction": ({}, [Step(what="compact", run=1), *[WAIT] * 4, *[POLL] * 4]),
    "a failing row longer than the window": (
        {"history_size": 4, "detectors": ALONE},
        [step(("look", "run")[n % 2], DENIED, n % 3) for n in range(12)],
    ),
    "a write that failed before, succeeded, and was rolled back": (
        {"warning_threshold": 1, "critical_threshold": 2},
        [*[FAIL] * 3, SAVE, Step(what="retract", run=1), *[FAIL] * 4, SAVE, *[FAIL] * 4],
    ),
    "a longer round that ends in a shorter one": (
        {"warning_threshold": 4, "critical_threshold": 5, "detectors": ALONE},
        [step("look", (SAME, DENIED)[n > 12], int(letter)) for n, letter in enumerate(ROUNDS)],
    ),
    "a round that holds a shorter one": (
        {"detectors": ALONE},
        [step("look", argument=int(letter)) for letter in HOLDS_A_ROUND * 6],
    ),
    "a round that holds two laps of a shorter one": (
        {"detectors": ALONE},
        [step("look", argument=int(letter)) for letter in HOLDS_NONE * 6],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("mode", ["enforce", "observe"])
@pytest.mark.parametrize("reset", [True, False])
def test_engine_equals_model(name: str, mode: Any, reset: bool) -> None:
    given, steps = STREAMS[name]
    rules: dict[str, Any] = {"warning_threshold": 2, "critical_threshold": 3, **given}
    settings = Settings(enabled=True, profiles=PROFILES, mode=mode, reset_on_write=reset, **rules)
    compare(settings, steps, Host())
