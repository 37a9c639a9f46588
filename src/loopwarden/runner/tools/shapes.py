"""What a tool gives back: the text that the model reads, and beside it what the guard compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

from pydantic_ai import ToolReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT: Final = 30_000
"""Characters of one result that the model reads at most, about."""


class Shaped(TypedDict):
    """An outcome for the guard; stands in `ToolReturn.metadata`, where the model doesn't see it.

    A plain `dict` at run time, as the guard wants it.
    """

    content: list[dict[str, Any]]
    details: dict[str, Any]
    isError: bool


def shaped(
    text: str,
    details: dict[str, Any],
    *,
    failed: bool = False,
    parts: Sequence[dict[str, Any]] = (),
    compared: str | None = None,
) -> ToolReturn[str]:
    """The result of a tool.

    Args:
        text: For the model.
        details: For the guard; the field names of SPEC section 3 where they have a meaning there.
        failed: Whether the tool could not do what it was asked.
        parts: More content that is compared, as the digest of an image.
        compared: Text to compare instead of `text`, where that has something in it that always changes.
    """
    content = [{"type": "text", "text": text if compared is None else compared}, *parts]
    return ToolReturn(return_value=text, metadata=Shaped(content=content, details=details, isError=failed))


def refused(reason: str, **details: Any) -> ToolReturn[str]:
    """A result that says why nothing was done."""
    return shaped(reason, {"status": "error", "error": reason, **details}, failed=True)


def ended(outcome: object) -> str | None:
    """How a command ended, in two words; `None`: well, or the outcome tells of no command that is over."""
    details = outcome.get("details") if isinstance(outcome, dict) else None
    if not isinstance(details, dict):
        return None
    if details.get("timedOut") is True:
        return "timed out"
    if isinstance(signal := details.get("exitSignal"), str):
        return signal
    code = details.get("exitCode")
    return f"exit code {code}" if isinstance(code, int) and code else None
