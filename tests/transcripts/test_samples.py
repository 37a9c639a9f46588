"""The table of `samples/SOURCES.md`: what a throwaway reader counted, against what ours give."""

from __future__ import annotations

import dataclasses
import re

import pytest

from loopwarden.transcripts.registry import read
from tests.transcripts.facts import SAMPLES, Facts, facts

ROW = re.compile(r"\| (?P<file>[\w./-]+) \| (?:real|fixture|converted) \| (?P<facts>calls [^|]+) \|")
FACTS = re.compile(
    r"calls (\d+), win (\d+)/(\d+), streak (\d+)(?:, alt (\d+))?(?:, cycle (\d+) \(period (\d+)\))?"
)

BETTER: dict[str, dict[str, int]] = {
    "converted/codex/rollout-2025-06-01T09-00-00-pingpong.jsonl": {"winres": 15},  # durations left out
    "converted/openclaw/v3_streak_with_branch_and_compaction.jsonl": {
        "calls": 49
    },  # abandoned branch left out
}
"""Where ours count otherwise, on purpose."""

ELSEWHERE = {"anthropic-messages/tool_search.json", "openai-chat/tool_search.json"}
"""Captures of several exchanges: the table counts the last one, ours give each as a stream."""

EVERY_STREAM = {"claude-code/real_records_one_of_each_tool.jsonl"}
"""Single records of many sessions, counted as one in the table."""


def rows() -> dict[str, Facts]:
    found = {}
    for line in (SAMPLES / "SOURCES.md").read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            counted = FACTS.fullmatch(row["facts"].strip())
            assert counted is not None, line
            found[row["file"]] = Facts(*(int(number or 0) for number in counted.groups()))
    return found


TABLE = rows()


def test_the_table_is_understood() -> None:
    assert len(TABLE) == 49
    assert {*BETTER, *ELSEWHERE, *EVERY_STREAM} <= TABLE.keys()


@pytest.mark.parametrize("sample", sorted(TABLE.keys() - ELSEWHERE))
def test_facts(sample: str) -> None:
    expected = dataclasses.replace(TABLE[sample], **BETTER.get(sample, {}))
    items = read(SAMPLES / sample).items
    assert facts(items, every_stream=sample in EVERY_STREAM) == expected
