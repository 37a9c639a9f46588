"""Hook entries in a YAML settings file: below `hooks:` a key for each event, with a list.

The text is read by `yaml_scan`, which says where everything stands; one that it does not understand, or whose
hooks are written in another way than as blocks, is left alone.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from loopwarden.hooks.entries import PROGRAM, Hook, NotUnderstoodError, complete, ours
from loopwarden.hooks.json_edit import line_end
from loopwarden.hooks.yaml_scalars import YamlTextError
from loopwarden.hooks.yaml_scan import read_yaml

if TYPE_CHECKING:
    from loopwarden.hooks.settings import Settings
    from loopwarden.hooks.yaml_scan import Node

_HOOKS: Final = "hooks"
_EMPTY: Final = re.compile(r"\{[ ]*\}")

_OTHER_FORM: Final = 'has its "hooks" in a form that can\'t be changed line by line'


class _Block:
    """The lines of `hooks:`.

    Attributes:
        root: All of the file; `None` where nothing but comments is in it.
        lines: All lines of the text, with their ends.
        head: The number of the line `hooks:`; `None` where there is none.
        end: The number of the line after the block.
        events: The number of the line of each event.
        closed: Events whose value is something else than a list of lines.
        entries: Event, first line, line after the last, and fields of each entry.

    Raises:
        NotUnderstoodError: The text is not understood.
    """

    def __init__(self, text: str) -> None:
        try:
            self.root = read_yaml(text)
        except YamlTextError as error:
            raise NotUnderstoodError(f"is no YAML that is understood here: {error}") from None
        self.lines = text.splitlines(keepends=True)
        self.head: int | None = None
        self.end = 0
        self.level = "  "
        self.events: dict[str, int] = {}
        self.closed: set[str] = set()
        self.entries: list[tuple[str, int, int, dict[str, str]]] = []
        self.hooks = self.root.get(_HOOKS) if self.root is not None else None
        if self.root is None or self.hooks is None:
            return
        self.head = next(row for key, row in self.root.keys if key == _HOOKS)
        self.end = self.hooks.end
        if self.hooks.kind != "mapping" or self.hooks.anchor:
            bare = self.hooks.kind == "nothing" or _EMPTY.fullmatch(self.hooks.raw)
            self._other(self.hooks, None if bare and not self.hooks.anchor else _HOOKS)
            return
        if self.hooks.get("<<") is not None:  # it could bring events
            raise NotUnderstoodError(_OTHER_FORM)
        self.level = " " * self.hooks.column
        for (event, row), node in zip(self.hooks.keys, self.hooks.items, strict=True):
            self.events[event] = row
            if node.kind == "list" and not node.anchor:
                for item in node.items:
                    self._entry(event, item)
            else:
                self._other(node, None if node.kind == "nothing" and not node.anchor else event)

    def _entry(self, event: str, item: Node) -> None:
        pairs = zip(item.keys, item.items, strict=False) if item.kind == "mapping" else ()
        fields = {key: node.text for (key, _), node in pairs if node.kind == "scalar"}
        self.entries.append((event, item.row, item.end, fields))
        if item.kind != "mapping":
            self._other(item, None)

    def _other(self, node: Node, name: str | None) -> None:
        """Something that nothing can be added to, if it has a name, nor taken out of."""
        if PROGRAM in node.raw:
            raise NotUnderstoodError(_OTHER_FORM)
        if name is not None:
            self.closed.add(name)


def find(settings: Settings, text: str) -> list[Hook]:
    """Our entries.

    Raises:
        NotUnderstoodError: The text is not understood.
    """
    return [hook for hook, _, _ in _found(settings, _Block(text))]


def said(text: str, key: str) -> str | None:
    """What a key at the top says, if it is a scalar on its line; also for a text that is not understood."""
    try:
        root = read_yaml(text)
    except YamlTextError:
        return None
    node = root.get(key) if root is not None else None
    return node.text if node is not None and node.kind == "scalar" else None


def put(settings: Settings, text: str, hooks: list[Hook]) -> str:
    """The text with these entries of ours, and no others of ours.

    Raises:
        NotUnderstoodError: The text is not understood, or has something else where hooks belong; the message
            says what to add by hand.
    """
    try:
        return _put(settings, text, hooks)
    except NotUnderstoodError as error:
        by_hand = json.dumps({hook.event: [dict(hook.entry)] for hook in hooks}, ensure_ascii=False)
        raise NotUnderstoodError(f"{error}; nothing was changed. Add by hand: hooks: {by_hand}") from None


def _put(settings: Settings, text: str, hooks: list[Hook]) -> str:
    if complete(settings, find(settings, text), hooks):
        return text
    before = drop(settings, text)
    block = _Block(before)
    old = block
    newline = line_end(before)
    lines = block.lines
    if block.closed & {_HOOKS, *(hook.event for hook in hooks)}:
        raise NotUnderstoodError(_OTHER_FORM)
    bare = bool(lines) and not lines[-1].endswith("\n")  # and so it stays
    if bare:
        lines[-1] += newline
    if block.head is None:
        lines += [f"{_HOOKS}:{newline}"]
        block.head, block.end = len(lines) - 1, len(lines)
    elif not block.events:
        lines[block.head] = _EMPTY.sub("", lines[block.head], count=1)
        block.end = block.head + 1
    for hook in reversed(hooks):
        at = block.events.get(hook.event)
        if at is None:
            lines[block.end : block.end] = [
                f"{block.level}{hook.event}:{newline}",
                *_written(hook, block.level + "  ", newline),
            ]
        else:
            first = next((start for event, start, *_ in block.entries if event == hook.event), None)
            indent = block.level + "  " if first is None else " " * lines[first].index("-")
            lines[at + 1 : at + 1] = _written(hook, indent, newline)
        block = _Block("".join(lines))
        lines = block.lines
    after = "".join(lines)
    if bare:
        after = after.removesuffix(newline)
        block = _Block(after)
    there = find(settings, after)
    if not complete(settings, there, hooks) or _rest(settings, block) != _rest(settings, old):
        raise NotUnderstoodError(_OTHER_FORM)
    return after


def _rest(settings: Settings, block: _Block) -> object:
    """What a file says besides our entries."""
    ours = {start for _, start, _ in _found(settings, block)}
    root = block.root
    pairs = zip(root.keys, root.items, strict=True) if root is not None else ()
    top = [(key, node.said()) for (key, _), node in pairs if key != _HOOKS]
    events = []
    if block.hooks is not None and block.hooks.kind == "mapping":
        for (event, _), node in zip(block.hooks.keys, block.hooks.items, strict=True):
            rest = [item.said() for item in node.items if item.row not in ours]
            events.append((event, rest if node.kind in {"list", "nothing"} else node.said()))
    return top, [event for event in events if event[1]]


def drop(settings: Settings, text: str, base: str | None = None) -> str:
    """The text without our entries, and without events that are empty then.

    Args:
        settings: Of the host.
        text: The text.
        base: An earlier text: what it has, if empty, stays.

    Raises:
        NotUnderstoodError: The text is not understood.
    """
    block = _Block(text)
    ours = _found(settings, block)
    if not ours:
        return text
    old = _Block(base) if base is not None else None
    gone = {number for _, start, end in ours for number in range(start, end)}
    starts = {start for _, start, _ in ours}
    left = {event for event, start, *_ in block.entries if start not in starts}
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
    after = "".join(line for number, line in enumerate(block.lines) if number not in gone)
    bare = _Block(after)
    if not text.endswith("\n") and after.endswith("\n"):  # it had no last newline before
        shorter = _Block(after.removesuffix("\n").removesuffix("\r"))
        if _rest(settings, shorter) == _rest(settings, bare):  # no newline that a text ends with
            after, bare = "".join(shorter.lines), shorter
    if _found(settings, bare) or _rest(settings, bare) != _rest(settings, block):
        raise NotUnderstoodError("has entries of loopwarden that can't be taken out without the rest")
    return after


def _found(settings: Settings, block: _Block) -> list[tuple[Hook, int, int]]:
    found = []
    for event, start, end, fields in block.entries:
        command = fields.get(settings.command, "")
        if ours(settings, command):
            found.append((Hook(event=event, command=command, entry=fields), start, end))
    return found


def _written(hook: Hook, indent: str, newline: str) -> list[str]:
    fields = [f"{key}: {json.dumps(value, ensure_ascii=False)}{newline}" for key, value in hook.entry.items()]
    return [f"{indent}- {fields[0]}", *(f"{indent}  {field}" for field in fields[1:])]
