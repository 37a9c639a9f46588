"""Hook entries in a TOML settings file: tables `[[hooks]]`, put at its end."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from loopwarden.hooks.entries import Hook, SettingsError, complete, ours
from loopwarden.hooks.json_edit import line_end

if TYPE_CHECKING:
    from loopwarden.hooks.settings import Settings

_HOOKS: Final = "hooks"
_HEADER: Final = re.compile(r"(?m)^[ \t]*\[")
_OURS: Final = re.compile(r"(?m)^[ \t]*\[\[[ \t]*hooks[ \t]*\]\]")


def find(settings: Settings, text: str) -> list[Hook]:
    """Our entries.

    Raises:
        SettingsError: The text can't be read.
    """
    return [
        Hook(event=str(entry.get("event", "")), command=entry[settings.command], entry=entry)
        for entry in _listed(_read(text))
        if _is_ours(settings, entry)
    ]


def put(settings: Settings, text: str, hooks: list[Hook]) -> str:
    """The text with these entries of ours, and no others of ours.

    Raises:
        SettingsError: The text can't be read, or has something else where hooks belong.
    """
    if complete(settings, find(settings, text), hooks):
        return text
    before = drop(settings, text)
    value = _read(before)
    newline = line_end(before)
    tables = [{"event": hook.event, **hook.entry} for hook in hooks]
    lines = [
        newline.join([f"[[{_HOOKS}]]", *(f"{key} = {_written(table[key])}" for key in table)])
        for table in tables
    ]
    start = before if not before or before.endswith("\n") else before + newline
    after = start + (newline if before.strip() else "") + (newline * 2).join(lines)
    after += newline if start == before else ""  # a file without a last newline has none afterwards
    expected = {**value, _HOOKS: [*_listed(value), *tables]}
    try:
        fine = tomllib.loads(after) == expected
    except ValueError:
        fine = False
    if not fine:
        raise SettingsError(
            f"has its hooks in another form than [[{_HOOKS}]] tables, so nothing can be added"
        )
    return after


def drop(settings: Settings, text: str, base: str | None = None) -> str:  # noqa: ARG001 - as in the other forms
    """The text without our entries.

    Raises:
        SettingsError: The text can't be read, or our entries can't be told from the rest.
    """
    if not find(settings, text):
        return text
    value = _read(text)
    heads = [match.start() for match in _HEADER.finditer(text)]
    after, at = "", 0
    for start, end in zip(heads, [*heads[1:], len(text)], strict=True):
        if not _OURS.match(text, start):
            continue
        try:
            tables = _listed(tomllib.loads(text[start:end]))
        except ValueError:
            continue  # a line of a long text that looks like the head of a table
        if len(tables) == 1 and _is_ours(settings, tables[0]):
            begin = _blank_line(text, start)
            after += text[at:begin]
            at = begin + len(text[begin:start]) + _table(text[start:end])
    after += text[at:]
    if not text.endswith("\n"):  # it had none before; the one that is there was put before ours
        after = after.removesuffix("\n").removesuffix("\r")
    rest = [entry for entry in _listed(value) if not _is_ours(settings, entry)]
    expected = {key: one for key, one in value.items() if key != _HOOKS} | ({_HOOKS: rest} if rest else {})
    if _read(after) != expected:
        raise SettingsError("has entries of loopwarden that can't be taken out without touching the rest")
    return after


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"is no TOML: {error}") from None


def _listed(value: dict[str, Any]) -> list[dict[str, Any]]:
    hooks = value.get(_HOOKS)
    return [hook for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []


def _is_ours(settings: Settings, entry: dict[str, Any]) -> bool:
    return ours(settings, entry.get(settings.command))


def _blank_line(text: str, start: int) -> int:
    """Where the blank line before a table begins, if there is one; one is put before ours."""
    for newline in ("\r\n", "\n"):
        if text.endswith(newline * 2, 0, start) or text[:start] == newline:
            return start - len(newline)
    return start


def _table(part: str) -> int:
    """How much of a stretch of text is the table, and not blank lines and comments before the next one."""
    lines = part.splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return sum(len(line) for line in lines)


def _written(value: Any) -> str:
    """As in JSON, but for one character that TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
