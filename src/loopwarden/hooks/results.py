"""What the model reads of a result that an event has as an object, and what else it says.

Hosts hand over their own records of a call: a shell's output between flags, a file between its line numbers.
The size of such a record says nothing about the text in it. So the text goes where the core looks for one
(`content`), and all the rest beside it (`details`): whatever differs in the record, differs still.
"""

from __future__ import annotations

from typing import Any, Final

_OUTPUT: Final = "stdout"
_ERRORS: Final = "stderr"
_BETWEEN: Final = "\0"
"""Between the two outputs of a command."""

_TEXTS: Final = ("textResultForLlm", "content", "result", "output")
"""Where else a record has its text: Copilot CLI's tools; Grep; WebFetch; other shells."""

_INNER: Final = "file"
"""Read has its text one level deeper, in an object of this name."""

_MEANT: Final = frozenset({"details", "isError", "is_error", "status", "exitCode", "aggregated", "tail"})
"""What the core reads itself; a record with one of these is left as it is, but for that of a command."""

_ENDED: Final = ("status", "exitCode")
"""What the core reads of a command's record."""


def readable(result: object) -> object:
    """A result in the shape that the core knows, if there is one text in it; else what was given."""
    if isinstance(result, list):
        return {"content": result} if len(result) == 1 and _is_text(result[0]) else result
    if not isinstance(result, dict) or result.keys() == {"content"}:
        return result
    if isinstance(result.get(_OUTPUT), str) and isinstance(result.get(_ERRORS, ""), str):
        return _command(result)
    return result if not _MEANT.isdisjoint(result) else _record(result)


def _is_text(part: object) -> bool:
    if not isinstance(part, dict) or not part.keys() <= {"type", "text"}:
        return False
    return isinstance(part.get("text"), str) and part.get("type", "text") == "text"


def _command(result: dict[str, Any]) -> dict[str, Any]:
    """Both outputs are one text, and it is kept where the second one begins."""
    text, errors = result[_OUTPUT], result.get(_ERRORS)
    rest = {**result, _OUTPUT: None}
    if errors:
        rest[_ERRORS] = text.count(_BETWEEN)
        text += _BETWEEN + errors
    if _MEANT.isdisjoint(result):
        return _shaped(text, rest)
    ended = {name: rest.pop(name) for name in _ENDED if name in rest}
    return {"content": [{"type": "text", "text": text}, rest], "details": ended}


def _record(result: dict[str, Any]) -> dict[str, Any]:
    found = [name for name in _TEXTS if isinstance(result.get(name), str)]
    if len(found) == 1:
        return _shaped(result[found[0]], {**result, found[0]: None})
    inner = result.get(_INNER)
    if not found and isinstance(inner, dict) and isinstance(inner.get("content"), str):
        return _shaped(inner["content"], {**result, _INNER: {**inner, "content": None}})
    return result


def _shaped(text: str, rest: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "details": rest}
