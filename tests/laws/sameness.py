"""What the model compares: calls, results and failures as plain values.

After sections 3 and 8 of the specification.

Nothing here is a digest, bounded, or safe for hostile input; it is meant to be read.
"""

from __future__ import annotations

import fnmatch
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.core.settings import Settings
    from loopwarden.events import Outcome

SEND_VOLATILE = {
    "message",
    "messageId",
    "fileId",
    "pollId",
    "receipt",
    "idempotencyKey",
    "runId",
    "ts",
    "timestamp",
}

MASKED = re.compile(
    r"'[^']*[/\\][^']*'|\"[^\"]*[/\\][^\"]*\"|\d{4}-\d\d-\d\d[T ]?[\d:.Z]*|\d+:\d\d(:\d\d)?"
    r"|\b\d+(\.\d+)?\s?(ms|s|sec|seconds|minutes)\b|\bpid\s*=?\s*\d+|\b(?=\w*\d)[\w-]*[0-9a-f]{6,}[\w-]*\b|\d{5,}",
    re.IGNORECASE,
)
UNKNOWN_TOOL = re.compile(
    r"unknown tool:?\s+[\"'`]?([\w./:-]+?)[\"'`]?(?:[\s,;]|\.?$)"
    r"|\btool:?\s+[\"'`]?([\w./:-]+?)[\"'`]?\s+(?:is\s+)?(?:not found|not available)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Manner:
    """How the calls of a tool are compared: the profile that applies to one call."""

    kind: str
    exempt: bool
    warning: int
    critical: int
    ignore_arguments: tuple[str, ...]
    ignore_result: tuple[str, ...]
    ignore_text: tuple[str, ...]
    identity: tuple[str, ...] | None


@dataclass(frozen=True)
class Ending:
    """How a call ended.

    Attributes:
        value: What is compared to say "the same outcome"; `None` while the call runs.
        failed: Whether it is a failure.
        cause: What is compared to say "the same failure"; `None` without a failure.
        missing: The name of the tool that does not exist, if that was the failure.
        timed_out: Whether it was a timeout.
        text: Text of the result, for the least length that stagnation asks for.
    """

    value: str | None
    failed: bool
    cause: str | None
    missing: str | None
    timed_out: bool
    text: str


RUNNING = Ending(value=None, failed=False, cause=None, missing=None, timed_out=False, text="")
"""The ending of a call that has none yet."""


def manner(settings: Settings, tool: str, arguments: Any) -> Manner:
    """The most specific matching profile says each field; of equal ones the later."""
    matching = [p for p in settings.profiles if p.pattern == tool or fnmatch.fnmatchcase(tool, p.pattern)]
    matching.sort(key=lambda p: (p.pattern == tool, sum(letter not in "*?[]" for letter in p.pattern)))

    def said(field: str) -> Any:
        return next((v for p in reversed(matching) if (v := getattr(p, field)) is not None), None)

    kind = said("kind") or "other"
    rule = said("kind_rule")
    if rule is not None and isinstance(arguments, dict):
        kind = dict(rule.kinds).get(arguments.get(rule.argument), kind)
    return Manner(
        kind=kind,
        exempt=bool(said("exempt")),
        warning=said("warning_threshold") or settings.warning_threshold,
        critical=said("critical_threshold") or settings.critical_threshold,
        ignore_arguments=said("ignore_arguments") or (),
        ignore_result=said("ignore_result") or (),
        ignore_text=said("ignore_text") or (),
        identity=said("identity"),
    )


def plain(value: Any) -> str:
    """Equal texts for equal JSON values: key order and `1` or `1.0` make no difference."""
    return json.dumps(_numbers(value), sort_keys=True)


def _numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value


def without(value: Any, names: Iterable[str], path: str = "") -> Any:
    """Leaves out fields by their name at any depth, or by their JSON pointer."""
    names = set(names)
    if isinstance(value, dict):
        return {
            key: without(item, names, f"{path}/{key}")
            for key, item in value.items()
            if key not in names and f"{path}/{key}" not in names
        }
    if isinstance(value, list):
        return [without(item, names, f"{path}/{place}") for place, item in enumerate(value)]
    return value


def signature(tool: str, arguments: Any, how: Manner) -> tuple[str, str]:
    """Tool and arguments, as far as they count."""
    if how.identity is not None and isinstance(arguments, dict):
        arguments = {name: arguments[name] for name in how.identity if name in arguments}
    return tool, plain(without(arguments, how.ignore_arguments))


def ending(how: Manner, outcome: Outcome) -> Ending:
    """What an outcome is, for a call that is compared in this manner."""
    if outcome.error is not None:
        text, value, failed = outcome.error, plain(["error", outcome.error]), True
        timed_out = outcome.timed_out
        return Ending(
            value=value,
            failed=failed,
            cause=MASKED.sub("#", text),
            missing=outcome.unknown_tool or unknown_tool(text),
            timed_out=timed_out,
            text=text,
        )
    result = without(outcome.result, how.ignore_result)
    record = result if isinstance(result, dict) else {}
    found = record.get("details")
    details: dict[str, Any] = found if isinstance(found, dict) else {}
    text = _text(record)
    for pattern in how.ignore_text:
        text = re.sub(pattern, "", text)
    flagged = record.get("isError") is True
    timed_out = outcome.timed_out or details.get("timedOut") is True
    output = details.get("aggregated", text)
    status = details.get("status")
    if not {"content", "details"} & record.keys():
        compared: Any = ["whole", result]
    elif how.kind == "exec" and status == "running":
        compared = ["running", details.get("tail", text)]
    elif how.kind == "exec" and status is not None and status.startswith("approval"):
        compared = [details.get(name) for name in ("status", "reason", "host", "command", "warning")]
    elif how.kind == "exec" and details:
        compared = ["exec", status, details.get("exitCode"), details.get("timedOut"), output]
    elif how.kind == "poll" and details:
        names = ("status", "exitCode", "exitSignal", "aggregated", "totalLines", "totalChars", "truncated")
        compared = ["poll", [details.get(name) for name in names], text]
    else:
        sent = how.kind == "send"
        parts = [
            part
            for part in record.get("content", [])
            if isinstance(part, dict) and part.get("type") != "text"
        ]
        kept = without(record.get("details"), SEND_VOLATILE if sent else ())
        compared = ["other", flagged, kept, "" if sent else text, parts]
    code = details.get("exitCode") if how.kind == "exec" else None
    failed = flagged or timed_out or (code not in (None, 0) and not (code == 1 and output == ""))
    return Ending(
        value=plain(compared),
        failed=failed,
        cause=(MASKED.sub("#", output if code is not None else text) + f" {status} {code}")
        if failed
        else None,
        missing=(outcome.unknown_tool or unknown_tool(text)) if flagged else outcome.unknown_tool,
        timed_out=timed_out,
        text=output if how.kind == "exec" else text,
    )


def unknown_tool(text: str) -> str | None:
    """The name in a message that says there is no such tool."""
    match = UNKNOWN_TOOL.search(text)
    return (match[1] or match[2]) if match else None


def _text(record: dict[str, Any]) -> str:
    content = record.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        part.get("text", "") for part in parts if isinstance(part, dict) and part.get("type") == "text"
    )
