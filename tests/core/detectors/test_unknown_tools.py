"""`unknown_tool_repeat` and `unknown_tool_churn`: tools that do not exist."""

from __future__ import annotations

from typing import Final

import pytest

from loopwarden.guard import LoopGuard
from tests.core.scene import LEGEND, SMALL, act, alone

CHURN = alone("unknownToolChurn")

STAGE: Final = [
    *LEGEND,
    ("m", "made_up_{n}", {"query": "{n}"}, "!Unknown tool: made_up_{n}"),
    ("r", "call_tool", {"tool": "made_up_{n}"}, "!Tool made_up_{n} not found"),
    ("o", "call_tool", {"tool": "made_up"}, "!Tool made_up not found"),
    ("k", "exec", {"command": "work {n}"}, "done {n}"),
    ("f", "read", {"path": "f{n}"}, "!file notes.md not found"),
]

REPEAT: dict[str, tuple[str, str]] = {
    "one tool": ("uuuuuu", "...BBB"),
    "through one gateway, one name": ("oooooo", "...BBB"),
    "through one gateway, other names": ("rrrrrr", "......"),
    "another call between": ("uuauuau", "......."),
    "another unknown tool between": ("uuvuuvu", "......."),
    "waiting between": ("uuzuu", "....B"),
    "another failure": ("ffffff", "......"),
    "an edit between ends the row": ("uueuuu", "......"),
    "an edit half-opens, the probe closes": ("uuuuxeuuu", "...B...BB"),
    "another tool is not concerned": ("uuuuvav", "...B..."),
    "failures of one turn count once": ("(uuuu)(uu)uu", "(....)(..).B"),
    "one still runs": ("uu?uuuu", "..?...B"),
    "a late outcome": ("uu?uu;uu", "..?..;BB"),
}

ROW: dict[str, tuple[str, str]] = {
    "names in turn": ("mmmmmmmmm", "...wwwBwB"),
    "one below": ("mmm", "..."),
    "two names": ("uvuvuvuv", "...wwwBw"),
    "one name only": ("uuu", "..."),
    "through a gateway": ("rrrrrrrr", "...wwwBw"),
    "through a gateway that has worked": ("rkrrrr", ".....w"),
    "a tool that has worked is not judged": ("kmmmk", "....."),
    "another tool may be held up once": ("mmmmmmkk", "...wwwBw"),
    "a success ends the row": ("mmmammm", "...w..."),
    "a failure of another kind ends it": ("mmmfmm", "...w.."),
    "waiting does not": ("mmzmm", "....w"),
    "an edit does not clear it, but its success does": ("mmmem", "...w."),
    "failures of one turn count once": ("(mmmm)(mm)mm", "(....)(..).w"),
    "one still runs": ("mmm?mmmm", "...?...w"),
    "a late outcome": ("mm?mmmm;m", "..?...w;B"),
}


@pytest.mark.parametrize("name", REPEAT)
def test_one_tool(name: str) -> None:
    strip, expected = REPEAT[name]
    assert act(strip, alone(), legend=STAGE).strip == expected


@pytest.mark.parametrize("name", ROW)
def test_one_tool_after_the_other(name: str) -> None:
    strip, expected = ROW[name]
    assert act(strip, CHURN, legend=STAGE).strip == expected


def test_at_the_defaults() -> None:
    assert act("u" * 13, {"enabled": True}).strip == "." * 10 + "BBB"
    assert act("uv" * 12, {"enabled": True}).strip == "." * 10 + "w" * 10 + "BwBw"


def test_the_window_must_hold_the_row() -> None:
    assert act("uuuuuu", {**alone(), "historySize": 2}).strip == "......"
    assert act("uuuuuu", {**alone(), "historySize": 3}).strip == "...BBB"


def test_only_churn_has_a_switch() -> None:
    assert act("uuuu", alone()).strip == "...B"
    assert set(act("m" * 9, alone(), legend=STAGE).strip) == {"."}


def test_the_verdict_on_one_tool() -> None:
    verdict = act("uuuuu", SMALL).verdicts[-1]
    assert (verdict.detector, verdict.level, verdict.tool) == (
        "unknown_tool_repeat",
        "critical",
        "search_web",
    )
    assert (verdict.count, verdict.threshold) == (4, 3)
    assert "The tool search_web does not exist" in (verdict.message or "")


def test_the_verdicts_on_a_row() -> None:
    played = act("mmmmmmm", CHURN, legend=STAGE)
    warning, block = played.verdicts[3], played.verdicts[6]
    assert (warning.detector, warning.level, warning.count, warning.threshold) == (
        "unknown_tool_churn",
        "warning",
        3,
        3,
    )
    assert (block.level, block.count, block.threshold, block.tool) == ("critical", 6, 6, "made_up_7")
    assert warning.key == block.key
    assert "6 calls in a row asked for tools that do not exist." in (block.message or "")


def test_a_hosts_own_signal_goes_before_the_text() -> None:
    guard = LoopGuard(alone(), on_error="raise")
    for number in range(3):
        assert guard.before("lookup", {"n": number}, call_id="c").action == "allow"
        guard.after("c", error="what is that?", unknown_tool="lookup")
    assert guard.before("lookup", {"n": 3}, call_id="c").detector == "unknown_tool_repeat"


def test_a_result_that_speaks_of_unknown_tools_is_no_failure() -> None:
    legend = [("u", "search_web", {"query": "{n}"}, "Unknown tool: search_web")]
    assert act("uuuuuu", alone("unknownToolChurn"), legend=legend).strip == "......"
