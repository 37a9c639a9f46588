"""What the guard finds in the recorded runs, read as a scan reads them: the loops, and nothing else."""

from __future__ import annotations

import pytest

from loopwarden.guard import LoopGuard
from loopwarden.transcripts.model import Recorded
from loopwarden.transcripts.registry import read
from tests.transcripts.facts import SAMPLES
from tests.transcripts.test_registry import RECORDED

STREAK = {"generic_repeat": "block"}
COMPACTED_STREAK = {"generic_repeat": "block", "post_compaction": "abort"}
PING_PONG = {"ping_pong": "block"}
SHORT_PING_PONG = {"ping_pong": "warn"}
CYCLE = {"cycle": "block"}
SHORT_CYCLE = {"cycle": "warn"}

CONVERTED: dict[str, dict[str, str]] = {
    "anthropic-messages/sql_same_result.json": {},  # ten equal calls: the eleventh would be warned of
    "atif/period6_cycle.trajectory.json": CYCLE,
    "claude-code/streak_with_compaction.jsonl": COMPACTED_STREAK,
    "codex/rollout-2025-06-01T09-00-00-pingpong.jsonl": PING_PONG,
    "gemini-cli/checkpoint-before-fix.json": {},  # ten
    "gemini-cli/session-2025-06-01T09-00-1a2b3c4d.json": PING_PONG,
    "gemini-cli/session-2025-06-01T09-10-5e6f7a8b.jsonl": CYCLE,
    "hermes/sessions_export.jsonl": PING_PONG,  # the first of two streams
    "inspect/period3_cycle.eval": CYCLE,
    "langfuse/trace.json": {},  # ten
    "langsmith/runs.jsonl": CYCLE,
    "openai-responses/pingpong_items.json": SHORT_PING_PONG,
    "openclaw/v3_streak_with_branch_and_compaction.jsonl": COMPACTED_STREAK,
    "opencode/export.json": COMPACTED_STREAK,
    "opencode/run_format_json.jsonl": SHORT_PING_PONG,
    "openhands/v0_events.json": {},  # ten
    "openhands/v1_events.jsonl": COMPACTED_STREAK,
    "otel-genai/otlp.json": STREAK,
    "tau2-bench/results.json": {},
}
"""The runs that loop, by file."""

LOGS: dict[str, dict[str, dict[str, str]]] = {
    "react-text/alfworld_slurm-8459821.out.gz": {
        "look_at_obj_in_light-CD-None-DeskLamp-308/trial_T20190908_141958_463362": STREAK,
        "pick_clean_then_place_in_recep-Mug-None-CoffeeMachine-10/trial_T20190907_221355_558505": STREAK,
        "pick_heat_then_place_in_recep-Egg-None-GarbageCan-10/trial_T20190908_113523_123938": CYCLE,
    },
    "react-text/alfworld_slurm-8522213.out.gz": {
        "look_at_obj_in_light-AlarmClock-None-DeskLamp-308/trial_T20190908_222951_616606": SHORT_CYCLE,
        "look_at_obj_in_light-Book-None-DeskLamp-308/trial_T20190908_020048_814402": PING_PONG,
        "look_at_obj_in_light-CD-None-DeskLamp-308/trial_T20190908_141942_810052": SHORT_CYCLE,
        "look_at_obj_in_light-CD-None-DeskLamp-308/trial_T20190908_141958_463362": SHORT_PING_PONG,
        "pick_and_place_simple-Mug-None-Desk-308/trial_T20190909_210238_431966": STREAK,
        "pick_and_place_simple-Watch-None-Safe-219/trial_T20190907_074524_006355": SHORT_PING_PONG,
        "pick_clean_then_place_in_recep-Cloth-None-CounterTop-424/trial_T20190908_100632_546757": SHORT_CYCLE,
        "pick_cool_then_place_in_recep-Lettuce-None-CounterTop-10/trial_T20190909_123133_763972": PING_PONG,
        "pick_cool_then_place_in_recep-Lettuce-None-CounterTop-10/trial_T20190909_174840_771703": PING_PONG,
        "pick_cool_then_place_in_recep-Tomato-None-Microwave-10/trial_T20190909_102608_318800": (
            SHORT_PING_PONG
        ),
        "pick_heat_then_place_in_recep-Apple-None-GarbageCan-10/trial_T20190908_145356_918528": PING_PONG,
        "pick_heat_then_place_in_recep-Egg-None-GarbageCan-10/trial_T20190908_113523_123938": CYCLE,
        "pick_two_obj_and_place-PepperShaker-None-Drawer-10/trial_T20190912_221141_608117": SHORT_CYCLE,
    },
}
"""The episodes of console logs that loop, by file and stream; all their other episodes don't."""

RANKS = {"warn": 1, "block": 2, "abort": 3}

BENIGN = [name for name in RECORDED if name.removeprefix("converted/") not in CONVERTED and name not in LOGS]


def found(sample: str) -> dict[str, dict[str, str]]:
    """The strictest action of each detector that spoke, by stream."""
    guard = LoopGuard({"enabled": True}, mode="observe", on_error="raise")
    seen: dict[str, dict[str, str]] = {}
    for item in read(SAMPLES / sample).items:
        if not isinstance(item, Recorded):
            continue
        verdict = guard.session(item.stream).feed(item.event)
        assert verdict.action == "allow"
        if verdict.detector is None or verdict.would is None:
            continue
        actions = seen.setdefault(item.stream, {})
        actions[verdict.detector] = max(
            actions.get(verdict.detector, "warn"), verdict.would, key=RANKS.__getitem__
        )
    return seen


@pytest.mark.parametrize("sample", CONVERTED)
def test_loops_that_were_converted(sample: str) -> None:
    assert list(found(f"converted/{sample}").values()) == [CONVERTED[sample]] * bool(CONVERTED[sample])


@pytest.mark.parametrize("sample", LOGS)
def test_loops_in_console_logs(sample: str) -> None:
    assert found(sample) == LOGS[sample]


@pytest.mark.parametrize("sample", BENIGN)
def test_nothing_in_runs_that_went_well(sample: str) -> None:
    assert found(sample) == {}
