"""The JSON document fits its published schema, whatever was found."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.scan.json_report import report_document, report_json, report_schema
from loopwarden.scan.summary import FileReport, Report
from tests.scan.strips import report_of, scan_strip

SCHEMA = report_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_field_is_described() -> None:
    def walk(schema: dict[str, Any], path: str) -> list[str]:
        missing = []
        for name, field in schema.get("properties", {}).items():
            if "description" not in field and "const" not in field:
                missing.append(f"{path}.{name}")
            missing += walk(field, f"{path}.{name}")
            missing += walk(field.get("items", {}), f"{path}.{name}[]")
        return missing

    found = walk(SCHEMA, "$")
    for name, definition in SCHEMA["$defs"].items():
        found += walk(definition, name)
    assert found == []


@pytest.mark.parametrize(
    "report",
    [
        Report(files=()),
        Report(files=(FileReport(path="x", error="no known format", why="unknown_format"),), since=1.5),
        report_of(scan_strip("abcdef"), looked_in=(("Codex CLI", "~/.codex", 3),)),
        report_of(scan_strip("a" * 12, seconds=2.0, tokens=100), scan_strip("abab|abababab")),
        report_of(scan_strip("|||", {"enabled": True}), config_warnings=("repaired",)),
    ],
)
def test_documents_fit(report: Report) -> None:
    VALIDATOR.validate(json.loads(report_json(report)))


@given(st.text(alphabet="abcAB|u", max_size=40), st.sampled_from([None, 3.0]), st.sampled_from([None, 50]))
def test_any_run_fits(strip: str, seconds: float | None, tokens: int | None) -> None:
    run = scan_strip(strip, seconds=seconds, tokens=tokens)
    document = report_document(report_of(run))
    VALIDATOR.validate(document)
    assert document["totals"]["callsInLoops"] <= document["totals"]["spent"]["calls"] == run.calls
    totals = document["totals"]
    assert totals["waste"]["calls"] <= totals["callsInLoops"]
    assert totals["repeated"]["calls"] <= totals["callsInRepetitions"]
    assert totals["callsInLoops"] + totals["callsInRepetitions"] <= run.calls
    assert totals["loops"] + totals["repetitions"] == len(run.loops)
    for loop in run.loops:
        assert loop.repetition is (loop.blocked is None and loop.aborted is None)
        assert loop.first.number <= loop.last.number <= run.calls
        assert loop.after_block is None or loop.after_block.calls <= loop.after_warning.calls


def test_the_worst_comes_first() -> None:
    report = report_of(scan_strip("abcd"), scan_strip("aaaa"), scan_strip("a" * 9))
    document = report_document(report)
    assert [run["callsInLoops"] for run in document["runs"]] == [9, 0, 0]
    assert [run["callsInRepetitions"] for run in document["runs"]] == [0, 4, 0]
    assert (document["totals"]["loops"], document["totals"]["repetitions"]) == (1, 1)
