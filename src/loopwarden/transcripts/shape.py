"""Results in the one shape that the core reads, whatever format they came from.

A reader that puts a command's output, exit code and flags where the core looks for them gets all
detectors for free; text that is only volatile (durations, process ids) is left out here, once.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from loopwarden.transcripts.parsing import exact


def tool_result(
    content: object,
    *,
    is_error: bool = False,
    details: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A result of any tool.

    Args:
        content: Text, or a list of content parts as the format has them; `None` for nothing.
        is_error: Whether the format flags it as a failure (never guessed from prose).
        details: Structured part that is compared besides the text.
    """
    parts = content if isinstance(content, list) else [] if content is None else [content]
    if isinstance(content, str):
        parts = [{"type": "text", "text": content}]
    result: dict[str, Any] = {"content": parts}
    if details:
        result["details"] = details
    if is_error:
        result["isError"] = True
    return result


def command_result(
    output: str,
    *,
    exit_code: int | None = None,
    timed_out: bool = False,
    running: bool = False,
    is_error: bool = False,
) -> dict[str, Any]:
    """The result of a shell command, for tools of kind `exec`.

    Args:
        output: What it printed (both streams), without decoration that changes from call to call.
        exit_code: Exit code where the format has one.
        timed_out: Whether a structured flag says that it ran out of time.
        running: Whether it goes on in the background; `output` is then its tail.
        is_error: Whether the format flags the result as a failure.
    """
    if running:
        details: dict[str, Any] = {"status": "running", "tail": output}
    else:
        details = {"status": "completed", "aggregated": output}
        if exit_code is not None:
            details["exitCode"] = exit_code
        if timed_out:
            details["timedOut"] = True
    return tool_result(output, is_error=is_error, details=details)


def arguments(value: object) -> object:
    """Arguments that a format keeps as JSON text, parsed; text that is no JSON stays text."""
    if isinstance(value, str | bytes):
        try:
            return exact(value)
        except ValueError:
            return value
    return value


_MILLISECONDS = 1e11  # as seconds this is the year 5138; as milliseconds 1973
_MICROSECONDS = 1e14
_NANOSECONDS = 1e17


def seconds(value: object) -> float | None:
    """A time of a recorded file in seconds since the epoch, or `None` if it is no time.

    Args:
        value: ISO 8601 text (taken as UTC if it names no zone), or a number in seconds, milliseconds,
            microseconds or nanoseconds, told apart by size; a number may stand in text.
    """
    if isinstance(value, str):
        if value.isascii() and value.replace(".", "", 1).isdigit():
            value = float(value)
        else:
            try:
                moment = datetime.fromisoformat(value)
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    for bound, unit in ((_NANOSECONDS, 1e9), (_MICROSECONDS, 1e6), (_MILLISECONDS, 1e3)):
        if abs(number) >= bound:
            return number / unit
    return number


_MOST_TOKENS = 10**12  # sums of such numbers still fit in the 64 bits of a report


def count(value: object) -> int:
    """A number of tokens; anything that is none, or is beyond what any model reads, is 0."""
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) else 0
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value <= _MOST_TOKENS else 0


def text_of(content: object) -> str:
    """The text of a result: a string, or a list of parts with `text`, joined by line ends; else empty."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    texts = (
        part if isinstance(part, str) else part.get("text")
        for part in content
        if isinstance(part, str | dict)
    )
    return "\n".join(text for text in texts if isinstance(text, str))
