"""Hook entries in a YAML settings file: below `hooks:` a key for each event, with a list.

There is no reader of YAML here: the file is read line by line, and one whose hooks are written in another way
than as blocks, one entry a line, is left alone.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from loopwarden.hooks.entries import Hook, SettingsError, complete, words
from loopwarden.hooks.json_edit import line_end

if TYPE_CHECKING:
    from loopwarden.hooks.settings import Settings

_TOP: Final = re.compile(r"hooks[ \t]*:[ \t]*(?P<rest>.*)$")
_KEY: Final = re.compile(r"(?P<indent> +)(?P<key>[\w-]+)[ \t]*:[ \t]*(?P<rest>.*)$")
_ENTRY: Final = re.compile(r"(?P<indent> *)-[ \t]+(?P<rest>\S.*)$")
_FIELD: Final = re.compile(r"(?P<key>[\w-]+)[ \t]*:[ \t]+(?P<value>.*?)[ \t]*$")
_SAID: Final = re.compile(r"^[ \t]*(?:#.*)?$")
_EMPTY: Final = re.compile(r"\{[ \t]*\}")

_OTHER_FORM: Final = 'has its "hooks" in a form that can\'t be changed line by line'


class _Block:
    """The lines of `hooks:`.

    Attributes:
        lines: All lines of the text, with their ends.
        head: The number of the line `hooks:`; `None` where there is none.
        end: The number of the line after the block.
        events: The number of the line of each event.
        closed: Keys with a value on their line.
        entries: Event, first line, line after the last, of each entry.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.head: int | None = None
        self.end = 0
        self.events: dict[str, int] = {}
        self.closed: set[str] = set()
        self.entries: list[tuple[str, int, int]] = []
        for number, line in enumerate(self.lines):
            match = _TOP.match(line.rstrip("\r\n"))
            if match is None:
                continue
            if self.head is not None or not _SAID.match(_EMPTY.sub("", match["rest"], count=1)):
                raise SettingsError(_OTHER_FORM)
            self.head = number
            self.end = self._read(number + 1)

    def _read(self, number: int) -> int:
        """Reads the block from its first line; the answer is the line after its last."""
        level: int | None = None
        event, end = "", number
        opened: int | None = None
        item = -1
        for at in range(number, len(self.lines)):
            line = self.lines[at].rstrip("\r\n")
            bare = line.strip()
            if not bare or bare.startswith("#"):
                continue
            indent = len(line) - len(line.lstrip(" "))
            if indent == 0 or "\t" in line[:indent]:
                break
            key = _KEY.match(line)
            entry = _ENTRY.match(line)
            if key is not None and (level is None or indent == level):
                level, item = indent, -1
                event = key["key"]
                if _SAID.match(key["rest"]):
                    self.events[event] = at
                else:  # another kind of setting, or a list on one line
                    self.closed.add(event)
                    event = ""
            elif entry is not None and event and (item < 0 or indent == item) and indent >= (level or 0):
                item = indent
                if opened is not None:
                    self._close(opened, end)
                opened = len(self.entries)
                self.entries.append((event, at, at + 1))
                end = at + 1
                continue
            if opened is not None and key is not None and indent == level:
                self._close(opened, end)
                opened = None
            end = at + 1
        if opened is not None:
            self._close(opened, end)
        return end

    def _close(self, opened: int, end: int) -> None:
        event, start, _ = self.entries[opened]
        self.entries[opened] = (event, start, end)

    def fields(self, start: int, end: int) -> dict[str, str]:
        """The fields of an entry, as far as they stand on lines of their own."""
        found: dict[str, str] = {}
        for number in range(start, end):
            line = self.lines[number].strip()
            match = _FIELD.match(line.removeprefix("-").lstrip() if number == start else line)
            if match is not None:
                found.setdefault(match["key"], _plain(match["value"]))
        return found


def find(settings: Settings, text: str) -> list[Hook]:
    """Our entries.

    Raises:
        SettingsError: The text can't be read.
    """
    return [hook for hook, _, _ in _found(settings, _Block(text))]


def put(settings: Settings, text: str, hooks: list[Hook]) -> str:
    """The text with these entries of ours, and no others of ours.

    Raises:
        SettingsError: The text has something else where hooks belong.
    """
    if complete(find(settings, text), hooks):
        return text
    before = drop(settings, text)
    block = _Block(before)
    newline = line_end(before)
    lines = block.lines
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += newline
    if block.head is None:
        lines += [f"hooks:{newline}"]
        block.head, block.end = len(lines) - 1, len(lines)
    lines[block.head] = _EMPTY.sub("", lines[block.head], count=1)
    level = _level(block)
    if block.closed & {hook.event for hook in hooks}:
        raise SettingsError(_OTHER_FORM)
    for hook in reversed(hooks):
        at = block.events.get(hook.event)
        if at is None:
            lines[block.end : block.end] = [
                f"{level}{hook.event}:{newline}",
                *_written(hook, level + "  ", newline),
            ]
        else:
            first = next((start for event, start, _ in block.entries if event == hook.event), None)
            indent = level + "  " if first is None else " " * lines[first].index("-")
            lines[at + 1 : at + 1] = _written(hook, indent, newline)
            block = _Block("".join(lines))
            lines = block.lines
    after = "".join(lines)
    if not complete(find(settings, after), hooks):
        raise SettingsError(_OTHER_FORM)
    return after


def drop(settings: Settings, text: str, base: str | None = None) -> str:
    """The text without our entries, and without events that are empty then.

    Args:
        settings: Of the host.
        text: The text.
        base: An earlier text: what it has, if empty, stays.

    Raises:
        SettingsError: The text can't be read.
    """
    block = _Block(text)
    ours = _found(settings, block)
    if not ours:
        return text
    old = _Block(base) if base is not None else None
    gone = {number for _, start, end in ours for number in range(start, end)}
    starts = {start for _, start, _ in ours}
    left = {event for event, start, _ in block.entries if start not in starts}
    for event in {hook.event for hook, _, _ in ours} - left:
        if old is None or event not in old.events:
            gone.add(block.events[event])
    head = block.head
    rest = (number for number in range((head or 0) + 1, block.end) if number not in gone)
    if head is not None and not any(block.lines[number].strip() for number in rest):
        if old is None or old.head is None:
            gone.add(head)
        else:
            block.lines[head] = old.lines[old.head]
    return "".join(line for number, line in enumerate(block.lines) if number not in gone)


def _found(settings: Settings, block: _Block) -> list[tuple[Hook, int, int]]:
    found = []
    for event, start, end in block.entries:
        fields = block.fields(start, end)
        command = fields.get(settings.command, "")
        if words(command):
            found.append((Hook(event=event, command=command, entry=fields), start, end))
    return found


def _level(block: _Block) -> str:
    """How deep events stand."""
    line = block.lines[min(block.events.values())] if block.events else "  "
    return line[: len(line) - len(line.lstrip(" "))]


def _written(hook: Hook, indent: str, newline: str) -> list[str]:
    fields = [f"{key}: {json.dumps(value, ensure_ascii=False)}{newline}" for key, value in hook.entry.items()]
    return [f"{indent}- {fields[0]}", *(f"{indent}  {field}" for field in fields[1:])]


def _plain(value: str) -> str:
    """A scalar without its quotes; a comment after it is no part of it."""
    if value[:1] == '"':
        try:
            return str(json.JSONDecoder().raw_decode(value)[0])
        except ValueError:
            return value
    if value[:1] == "'":
        match = re.match(r"'((?:[^']|'')*)'", value)
        return match[1].replace("''", "'") if match else value
    return re.split(r"[ \t]#", value, maxsplit=1)[0].rstrip()
