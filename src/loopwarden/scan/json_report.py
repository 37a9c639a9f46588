"""The report as one JSON document; `report.schema.json` beside this file describes it field by field."""

from __future__ import annotations

import math
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from loopwarden.scan.summary import CallRef, FileReport, Loop, Report, Run, Spend

VERSION: Final = 1
"""Grows when a field is renamed, removed or changes its meaning; new fields do not change it."""


def report_schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    text = resources.files("loopwarden.scan").joinpath("report.schema.json").read_bytes()
    schema: dict[str, Any] = orjson.loads(text)
    return schema


def report_json(report: Report) -> bytes:
    """The document, indented by two, with a line end."""
    return orjson.dumps(report_document(report), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def report_document(report: Report) -> dict[str, Any]:
    """The document as plain values."""
    totals = report.totals
    return {
        "version": VERSION,
        "config": report.config,
        "configWarnings": list(report.config_warnings),
        "switchedOff": report.switched_off,
        "since": report.since,
        "lookedIn": [
            {"product": product, "place": place, "files": count} for product, place, count in report.looked_in
        ],
        "totals": {
            "files": totals.files,
            "unreadable": totals.unreadable,
            "runs": totals.runs,
            "runsWithLoops": totals.runs_with_loops,
            "runsWithRepetitions": totals.runs_with_repetitions,
            "filesOnlyOlder": report.only_older,
            "loops": totals.loops,
            "repetitions": totals.repetitions,
            "repetitionsWithNews": totals.with_news,
            "callsInLoops": totals.calls_in_loops,
            "shareInLoops": round(totals.share_in_loops, 6),
            "callsInRepetitions": totals.calls_in_repetitions,
            "spent": _spend(totals.spent),
            "waste": _spend(totals.waste),
            "repeated": _spend(totals.repeated),
        },
        "runs": [_run(file, run) for file, run in report.runs],
        "files": [_file(file) for file in report.files],
    }


def _file(file: FileReport) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "format": file.format,
        "runs": len(file.runs),
        "notes": file.notes,
        "error": file.error,
        "why": file.why,
    }


def _run(file: FileReport, run: Run) -> dict[str, Any]:
    return {
        "file": file.path,
        "stream": run.stream,
        "title": run.title,
        "parent": run.parent,
        "agent": run.agent,
        "model": run.model,
        "calls": run.calls,
        "callsInLoops": run.calls_in_loops,
        "shareInLoops": round(run.calls_in_loops / run.calls, 6) if run.calls else 0.0,
        "callsInRepetitions": run.calls_in_repetitions,
        "firstAt": run.first_at,
        "lastAt": run.last_at,
        "compactions": len(run.timeline.compactions),
        "spent": _spend(run.spent),
        "waste": _spend(run.waste),
        "repeated": _spend(run.repeated),
        "loops": [_loop(loop) for loop in run.loops],
    }


def _loop(loop: Loop) -> dict[str, Any]:
    return {
        "key": loop.key,
        "detector": loop.detectors[0],
        "detectors": list(loop.detectors),
        "level": loop.level,
        "tool": loop.tool,
        "pairedTools": list(loop.paired_tools),
        "pattern": loop.pattern,
        "steps": [
            {"tool": step.tool, "arguments": step.arguments, "calls": step.calls} for step in loop.steps
        ],
        "moreSteps": loop.more_steps,
        "calls": loop.calls,
        "count": loop.count,
        "threshold": loop.threshold,
        "first": _ref(loop.first),
        "last": _ref(loop.last),
        "sameResults": loop.same_results,
        "compactions": loop.compactions,
        "warned": _ref(loop.warned),
        "blocked": _ref(loop.blocked),
        "aborted": _ref(loop.aborted),
        "abortedBy": loop.aborted_by,
        "endedBy": _ref(loop.ended_by),
        "afterWarning": _spend(loop.after_warning),
        "afterBlock": None if loop.after_block is None else _spend(loop.after_block),
        "message": loop.message,
    }


def _ref(ref: CallRef | None) -> dict[str, Any] | None:
    return None if ref is None else {"call": ref.number, "at": ref.at}


def _spend(spend: Spend) -> dict[str, Any]:
    return {
        "calls": spend.calls,
        "seconds": _rounded(spend.seconds, 3),
        "inputTokens": _rounded(spend.input_tokens, 1),
        "outputTokens": _rounded(spend.output_tokens, 1),
        "cachedInputTokens": _rounded(spend.cached_tokens, 1),
        "cost": _rounded(spend.cost, 6),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)
