"""Results in the one shape that the core reads, whatever format they came from.

A reader that puts a command's output, exit code and flags where the core looks for them gets all
detectors for free; text that is only volatile (durations, process ids) is left out here, once.
"""

from __future__ import annotations

from typing import Any

import orjson


def tool_result(
    content: object,
    *,
    is_error: bool = False,
    details: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A result of any tool.

    Args:
        content: Text, or a list of content parts as the format has them.
        is_error: Whether the format flags it as a failure (never guessed from prose).
        details: Structured part that is compared besides the text.
    """
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    result: dict[str, Any] = {"content": parts if isinstance(parts, list) else [parts]}
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
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value
