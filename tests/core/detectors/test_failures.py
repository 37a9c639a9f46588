"""`repeated_failure` and `failure_streak`: calls that fail."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.core.scene import LEGEND, SMALL, act, alone


def ended(**details: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": ""}], "details": details}


STAGE: Final = [
    *LEGEND,
    ("h", "exec", {"command": "deploy"}, "!permission denied"),
    ("k", "exec", {"command": "look {n}"}, "all is well"),
    ("d", "exec", {"command": "other {n}"}, "!disk full"),
    ("y", "exec", {"command": "deploy"}, "!12:00:0{n}: failed in {n} ms"),
    ("t", "exec", {"command": "slow {n}"}, ended(status="failed", timedOut=True, aggregated="")),
    ("n", "exec", {"command": "grep {n}"}, ended(status="completed", exitCode=1, aggregated="")),
    ("j", "exec", {"command": "check {n}"}, ended(status="completed", exitCode=2, aggregated="bad flag")),
    ("l", "list", {"path": "{n}"}, "!login has expired"),
]

REPEATED: dict[str, tuple[str, str]] = {
    "other arguments": ("ffffffffff", "...wwBwBwB"),
    "one call with one text": ("hhhhhhhhh", "........."),
    "one call whose text differs in time only": ("yyyyyyy", "...wwBw"),
    "a variant among many of the same": ("fhhhhh", "...wwB"),
    "an exit code with the same output": ("jjjjjj", "...wwB"),
    "exit code 1 with no output is none": ("nnnnnn", "......"),
    "a success of the tool ends it": ("ffkfff", "......"),
    "a success after a refusal ends it": ("fffffkkf", "...wwBw."),
    "other tools do not end it": ("fafafafafafa", "......w.w.B."),
    "failures of other tools do not count": ("flflflflflf", "......wwwwB"),
    "another failure starts anew": ("ffdffff", "......w"),
    "texts whose numbers differ": ("gggggg", "......"),
    "a timeout neither counts nor ends": ("fftff", "....w"),
    "timeouts alone": ("tttttt", "......"),
    "waiting": ("ffzff", "....w"),
    "a new write": ("fffeffff", ".......w"),
    "a new write frees": ("ffffffef", "...wwB.."),
    "failures of one turn count once": ("(ffff)(ff)(ff)f", "(....)(..)(..)w"),
    "one still runs": ("ff?fff", "..?..w"),
    "a late success": ("ffk?ff;f", "...?.w;."),
}

STREAK: dict[str, tuple[str, str]] = {
    "two tools": ("fgfgfg", "...www"),
    "one tool": ("ffffff", "......"),
    "one tool and a single other": ("gfffff", "...www"),
    "a success": ("fgkfgf", "......"),
    "the call that is judged may be any": ("fgfk", "...w"),
    "a timeout counts": ("fgtf", "...w"),
    "waiting": ("fgzfg", "....w"),
    "a new write": ("fgefgf", "......"),
    "a new write after the streak": ("fgfefgfg", "...w...w"),
    "unknown tools are failures too": ("fgmfg", "...ww"),
    "failures of one turn count once": ("(fg)(fg)(fg)f", "(..)(..)(..)w"),
    "the tools of one turn all count": ("(fl)ff", "(..).."),
    "one still runs": ("fg?fgf", "..?..."),
    "never more than a warning": ("fg" * 10, "..." + "w" * 17),
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_failure(name: str) -> None:
    strip, expected = REPEATED[name]
    assert act(strip, alone("repeatedFailure"), legend=STAGE).strip == expected


@pytest.mark.parametrize("name", STREAK)
def test_failure_streak(name: str) -> None:
    strip, expected = STREAK[name]
    legend = [*STAGE, ("m", "made_up_{n}", {}, "!Unknown tool: made_up_{n}")]
    assert act(strip, alone("failureStreak"), legend=legend).strip == expected


def test_the_tools_of_one_turn_are_several() -> None:
    assert act("(fl)fff", alone("failureStreak"), legend=STAGE).strip == "(..)..w"


def test_at_the_defaults() -> None:
    assert act("f" * 25, {"enabled": True}).strip == "." * 10 + "w" * 10 + "BwBwB"
    assert act("fg" * 12, {"enabled": True}).strip == "." * 10 + "w" * 14


def test_they_can_be_switched_off() -> None:
    assert set(act("f" * 9 + "g" * 3, alone(), legend=STAGE).strip) == {"."}


def test_without_reset_on_write_the_rows_go_on() -> None:
    assert act("ffeff", alone("repeatedFailure", resetOnWrite=False)).strip == "....w"


def test_a_tool_may_have_its_own_thresholds() -> None:
    config = alone("repeatedFailure", toolProfiles={"exec": {"warningThreshold": 2, "criticalThreshold": 3}})
    assert act("fffff", config).strip == "..wBw"


def test_a_row_has_a_memory_of_twice_the_critical_threshold() -> None:
    config = alone("repeatedFailure", globalCircuitBreakerThreshold=50)
    played = act("f" + "h" * 13, config, legend=STAGE, mode="observe")
    assert played.strip == "...wwBBBBBB..."
    assert max(verdict.count for verdict in played.verdicts) == 10


def test_the_verdict_on_one_tool() -> None:
    played = act("ffffff", SMALL)
    warning, block = played.verdicts[3], played.verdicts[5]
    assert (warning.detector, warning.level, warning.count, warning.threshold) == (
        "repeated_failure",
        "warning",
        3,
        3,
    )
    assert (block.level, block.count, block.threshold, block.tool) == ("critical", 5, 5, "exec")
    assert warning.key == block.key
    assert "exec failed 5 times in a row in the same way" in (block.message or "")


SAID = "what it said differed at most in times, ids and the like"
TRIED = "although other arguments were tried"


@pytest.mark.parametrize(
    ("strip", "said"),
    [
        ("ffff", f", {TRIED}."),
        ("fhhhh", f", {TRIED}."),
        ("(ffff)(f)(f)h", f", {TRIED}."),
        ("yyyyyy", f", always with the same arguments: {SAID}."),
        ("(yy)(yy)(yy)y", f", always with the same arguments: {SAID}."),
        ("vvvvvv", f", {TRIED}: {SAID}."),
        ("yyyv", f", always with the same arguments: {SAID}."),
        ("yyyvv", f", {TRIED}: {SAID}."),
    ],
)
def test_what_varied_is_said_as_it_was(strip: str, said: str) -> None:
    legend = [*STAGE, ("v", "exec", {"command": "deploy {n}"}, "!12:00:0{n}: failed in {n} ms")]
    played = act(strip, alone("repeatedFailure"), legend=legend)
    assert f"exec failed {played.verdicts[-1].count} times in a row in the same way{said}" in (
        played.verdicts[-1].message or ""
    )


def test_the_verdict_on_all_tools() -> None:
    verdict = act("fgfgf", alone("failureStreak")).verdicts[-1]
    assert (verdict.detector, verdict.level, verdict.count, verdict.threshold) == (
        "failure_streak",
        "warning",
        4,
        3,
    )
    assert "The last 4 calls all failed" in (verdict.message or "")
