from __future__ import annotations

from typing import Any

import pytest

from loopwarden.events import Outcome, ToolCall, UserMessage
from loopwarden.transcripts import react_text
from loopwarden.transcripts.model import ReadNotes, StreamStart
from loopwarden.transcripts.react_text import READER
from tests.transcripts.facts import Facts, events, facts, items_of, result_text, streams
from tests.transcripts.written import read_all, written

GEMMA = "react-text/alfworld_slurm-8459821.out.gz"
PHI = "react-text/alfworld_slurm-8522213.out.gz"


@pytest.mark.parametrize(
    ("sample", "episode", "expected"),
    [
        (
            GEMMA,
            "pick_heat_then_place_in_recep-Egg-None-GarbageCan-10/trial_T20190908_113523_123938",
            Facts(calls=49, win=5, winres=5, streak=1, cycle=40, period=6),
        ),
        (
            GEMMA,
            "pick_clean_then_place_in_recep-Mug-None-CoffeeMachine-10/trial_T20190907_221355_558505",
            Facts(calls=49, win=30, winres=30, streak=30),
        ),
        (
            PHI,
            "pick_cool_then_place_in_recep-Lettuce-None-CounterTop-10/trial_T20190909_123133_763972",
            Facts(calls=49, win=15, winres=15, streak=1, alt=45),
        ),
        (
            PHI,
            "pick_heat_then_place_in_recep-Egg-None-GarbageCan-10/trial_T20190908_113523_123938",
            Facts(calls=49, win=10, winres=10, streak=1, cycle=38, period=3),
        ),
        (
            PHI,
            "look_at_obj_in_light-CD-None-DeskLamp-308/trial_T20190908_141958_463362",
            Facts(calls=49, win=10, winres=10, streak=1, alt=19),
        ),
        (
            PHI,
            "pick_and_place_simple-Mug-None-Desk-308/trial_T20190909_210238_431966",
            Facts(calls=49, win=29, winres=29, streak=29),
        ),
        (
            PHI,
            "pick_heat_then_place_in_recep-Cup-None-Cabinet-10/trial_T20190907_083429_887065",
            Facts(calls=30, win=1, winres=1, streak=1),
        ),
    ],
)
def test_episodes(sample: str, episode: str, expected: Facts) -> None:
    assert facts(item for item in items_of(READER, sample) if item.stream == episode) == expected


@pytest.mark.parametrize(("sample", "episodes"), [(GEMMA, 7), (PHI, 30)])
def test_samples(sample: str, episodes: int) -> None:
    notes = ReadNotes()
    items = items_of(READER, sample, notes)
    assert len(streams(items)) == episodes
    assert notes.counts == {}
    # the prompts with their worked examples are in the log too, as text of the model
    assert len(events(items, UserMessage)) == episodes
    assert len(events(items, ToolCall)) == len(events(items, Outcome))


def test_what_the_program_prints_after_an_observation_is_no_part_of_it() -> None:
    last = events(items_of(READER, GEMMA), Outcome)[-1]
    assert result_text(last) == "OK."


def test_thinking_is_a_tool() -> None:
    first = events(items_of(READER, GEMMA), ToolCall)[0]
    assert first.tool == "think"
    assert str(first.arguments["input"]).startswith("To solve the task")


def told(text: str) -> tuple[list[tuple[str, Any]], list[str], dict[str, int]]:
    items, notes = read_all(READER, text)
    return (
        [(call.tool, call.arguments) for call in events(items, ToolCall)],
        [result_text(outcome) for outcome in events(items, Outcome)],
        notes,
    )


CHAIN = """
> Entering new AgentExecutor chain...
\x1b[32;1m\x1b[1;3mThought: I should search
Action: search
Action Input: {"query": "loops",
 "limit": 3}\x1b[0m
Observation: \x1b[36;1mfirst line
second line\x1b[0m
Thought: again
Action: calculator
Action Input: 2 + 2
Observation: 4
Thought: I know
Final Answer: 4
> Finished chain.
Action: noise after the end
"""

PAPER = """Question: who?
Thought 1: look it up
Action 1: Search[a [b] c]
Observation 1: found
Question: where?
Thought 1: hm
Action 1: Finish[there]
"""

PROMPTS = """You are in the middle of a room. You see a desk 1.
Your task is to: examine the desk.
> go to desk 1
On the desk 1, you see a pen 1.
It is dark.
>think: aha
OK.
> look
You are in the middle of a room. Looking around you, you see nothing.
> go to desk 1
Nothing happens.
You are in the middle of a room. You see a bed 1.
Your task is to: find the bed.
> go to bed 1
Hi.
"""


def test_langchain_shape() -> None:
    calls, results, notes = told(CHAIN)
    assert calls == [
        ("search", {"query": "loops", "limit": 3}),
        ("calculator", {"input": "2 + 2"}),
        ("noise", {"input": "after the end"}),
    ]
    assert results == ["first line\nsecond line", "4"]
    assert notes == {"call_without_result": 1}


def test_paper_shape() -> None:
    items, notes = read_all(READER, PAPER)
    assert streams(items) == ["episode 1", "episode 2"]
    assert [item.title for item in items if isinstance(item, StreamStart)] == ["who?", "where?"]
    assert [call.tool for call in events(items, ToolCall)] == ["Search", "Finish"]
    assert events(items, ToolCall)[0].arguments == {"input": "a [b] c"}
    assert notes == {"call_without_result": 1}


def test_prompt_shape() -> None:
    items, notes = read_all(READER, PROMPTS)
    assert streams(items) == ["episode 1", "episode 2"]
    assert [call.tool for call in events(items, ToolCall)] == ["go", "think", "look", "go", "go"]
    assert [result_text(outcome) for outcome in events(items, Outcome)] == [
        "On the desk 1, you see a pen 1.\nIt is dark.",
        "OK.",
        "You are in the middle of a room. Looking around you, you see nothing.",
        "Nothing happens.",
        "Hi.",
    ]
    assert notes == {}


@pytest.mark.parametrize(
    ("text", "calls", "noted"),
    [
        ("Act 1: a\nAct 2: b\nObs 2: x", 2, {"call_without_result": 1}),
        ("Act 1: a\nObs 1: x\nObs 2: y", 1, {"result_without_call": 1}),
        ("Obs 1: x\nAct 1: ", 1, {"result_without_call": 1, "call_without_result": 1}),
        ("Action Input: 3\nAction: f\nAction Input:\nObservation:", 1, {}),
        ("Act 1: a\nObs 1: \udcff", 1, {"not_utf8": 1}),
    ],
)
def test_damaged_logs(text: str, calls: int, noted: dict[str, int]) -> None:
    items, notes = read_all(READER, text.encode(errors="surrogateescape"))
    assert len(events(items, ToolCall)) == calls
    assert all(call.tool for call in events(items, ToolCall))
    assert notes == noted


def test_an_endless_observation_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(react_text, "TEXT_LENGTH", 20)
    _, results, notes = told("Action: f\nObservation: 123456789\n" + "123456789\n" * 5)
    assert results == ["123456789\n123456789"]
    assert notes == {"long_line": 4}


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (CHAIN, True),
        (PAPER, True),
        (PROMPTS, True),
        ("[12:00] start\nAct 1: a\nObs 1: b\n", True),
        ("> a quote\n> another\n", False),
        ('{"Act 1: ": 1}\nAct 1: a\nObs 1: b\n', False),
        ("Action: only\n", False),
        ("", False),
    ],
)
def test_sniff(text: str, known: bool) -> None:
    assert READER.sniff(written(text)) is known
