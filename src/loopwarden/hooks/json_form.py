"""Hook entries in a JSON settings file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from loopwarden.hooks.entries import Hook, SettingsError, complete, ours
from loopwarden.hooks.json_edit import added, edited, empty, removed
from loopwarden.hooks.json_tree import JsonTextError, read_tree, value_of

if TYPE_CHECKING:
    from loopwarden.hooks.json_edit import Edit
    from loopwarden.hooks.json_tree import Node
    from loopwarden.hooks.settings import Settings

_HOOKS: Final = "hooks"


def find(settings: Settings, text: str) -> list[Hook]:
    """Our entries.

    Raises:
        SettingsError: The text can't be read.
    """
    if empty(text):
        return []
    root = _root(text)
    events = root.get(_HOOKS)
    found = []
    for event in events.items if events is not None else ():
        for hook, group in _hooks(settings, event.node):
            if not _is_ours(settings, text, hook):
                continue
            entry = value_of(text, hook)
            around = {
                item.key: value_of(text, item.node)
                for item in (group.items if group is not None else ())
                if item.key != _HOOKS
            }
            command = entry[settings.command]
            found.append(Hook(event=event.key, command=command, entry=entry, group=around))
    return found


def check(settings: Settings, text: str) -> None:
    """Whether the host reads the text: one that is stricter than this reader reads nothing of it.

    Raises:
        SettingsError: It does not.
    """
    if empty(text) and (settings.comments or not text.strip()):
        return
    root = _root(text)
    if not settings.commas and (comma := _last_comma(root)) is not None:
        line = text.count("\n", 0, comma) + 1
        raise SettingsError(f"line {line}: a comma too many, so that the agent reads nothing of the file")
    if not settings.comments:
        try:
            json.loads(text, parse_int=str)  # whatever its size
        except json.JSONDecodeError as error:
            raise SettingsError(
                f"line {error.lineno}: a comment, so that the agent reads nothing of the file"
            ) from None


def _last_comma(node: Node) -> int | None:
    """Where a comma stands after which nothing comes."""
    if node.items and node.items[-1].comma is not None:
        return node.items[-1].comma
    return next((at for item in node.items if (at := _last_comma(item.node)) is not None), None)


def put(settings: Settings, text: str, hooks: list[Hook]) -> str:
    """The text with these entries of ours, and no others of ours.

    Raises:
        SettingsError: The text can't be read, or has something else where hooks belong.
    """
    check(settings, text)
    if complete(settings, find(settings, text), hooks):
        return text
    by_event = {hook.event: _value(settings, hook) for hook in hooks}
    if empty(text):
        fresh = json.dumps(
            {**settings.top, _HOOKS: {event: [by_event[event]] for event in by_event}}, indent=2
        )
        return (text.rstrip() + "\n" if text.strip() else "") + fresh + "\n"
    before = drop(settings, text)
    root = _root(before)
    edits: list[Edit] = []
    top = [(key, value) for key, value in settings.top.items() if root.get(key) is None]
    events = root.get(_HOOKS)
    if events is None:
        entries = [*top, (_HOOKS, {event: [value] for event, value in by_event.items()})]
        edits += added(before, root, root, entries)
    else:
        if events.kind != "object":
            raise SettingsError(f'"{_HOOKS}" is no object, so nothing can be added to it')
        edits += added(before, root, root, list(top)) if top else []
        new = [(event, [value]) for event, value in by_event.items() if events.get(event) is None]
        edits += added(before, root, events, new) if new else []
        for event, value in by_event.items():
            there = events.get(event)
            if there is None:
                continue
            if there.kind != "list":
                raise SettingsError(f'"{_HOOKS}.{event}" is no list, so nothing can be added to it')
            edits += added(before, root, there, [("", value)])
    after = edited(before, edits)
    _check(after, _with(settings, value_of(before, root), by_event))
    return after


def drop(settings: Settings, text: str, base: str | None = None) -> str:
    """The text without our entries, and without lists and objects that are empty then.

    Args:
        settings: Of the host.
        text: The text.
        base: An earlier text: what it has, if empty, stays.

    Raises:
        SettingsError: The text can't be read.
    """
    if not find(settings, text):
        return text
    root = _root(text)
    old = _root(base) if base is not None and not empty(base) else None
    after = edited(text, _cut_root(settings, text, root, old))
    if base is not None and old is not None and settings.top:
        bare = edited(text, _cut_root(settings, text, root, old, with_top=True))
        after = bare if value_of(bare, _root(bare)) == value_of(base, old) else after
    if find(settings, after):
        raise SettingsError("has entries of loopwarden in a place where they can't be taken out")
    return after


def _cut_root(
    settings: Settings, text: str, root: Node, old: Node | None, *, with_top: bool = False
) -> list[Edit]:
    """Edits that take our entries out of a file.

    Args:
        settings: Of the host.
        text: The text.
        root: Its tree.
        old: That of an earlier text: what it has stays, if empty.
        with_top: Whether what a file needs besides hooks goes too.
    """
    place = max(place for place, item in enumerate(root.items) if item.key == _HOOKS)
    events = root.items[place].node
    kept = old.get(_HOOKS) if old is not None else None
    edits: list[Edit] = []
    gone: set[int] = set()
    for number, event in enumerate(events.items):
        ours = _cut_event(settings, text, event.node, edits)
        if not ours:
            continue
        if len(ours) < len(event.node.items) or (kept is not None and kept.get(event.key) is not None):
            edits += removed(text, event.node, ours)
        else:
            gone.add(number)
    top = {
        number
        for number, item in enumerate(root.items)
        if item.key in settings.top and (old is None or old.get(item.key) is None)
    }
    all_gone = bool(gone) and len(gone) == len(events.items) and kept is None
    if gone and not all_gone:
        edits += removed(text, events, gone)
    if all_gone:
        alone = len(top) + 1 == len(root.items)
        edits += removed(text, root, {place} | (top if alone or old is not None else set()))
    elif with_top and top:
        edits += removed(text, root, top)
    return edits


def _cut_event(settings: Settings, text: str, groups: Node, edits: list[Edit]) -> set[int]:
    """Places in the list of an event that are all ours; of the others, ours are cut out."""
    gone: set[int] = set()
    for number, item in enumerate(groups.items if groups.kind == "list" else ()):
        if settings.form == "list":
            if _is_ours(settings, text, item.node):
                gone.add(number)
            continue
        hooks = item.node.get(_HOOKS) if item.node.kind == "object" else None
        if hooks is None or hooks.kind != "list":
            continue
        ours = {place for place, hook in enumerate(hooks.items) if _is_ours(settings, text, hook.node)}
        if ours and len(ours) == len(hooks.items):
            gone.add(number)
        elif ours:
            edits += removed(text, hooks, ours)
    return gone


def _hooks(settings: Settings, groups: Node) -> list[tuple[Node, Node | None]]:
    """All hooks of an event, each with its group."""
    if groups.kind != "list":
        return []
    if settings.form == "list":
        return [(item.node, None) for item in groups.items if item.node.kind == "object"]
    found: list[tuple[Node, Node | None]] = []
    for group in groups.items:
        hooks = group.node.get(_HOOKS) if group.node.kind == "object" else None
        if hooks is not None and hooks.kind == "list":
            found += [(item.node, group.node) for item in hooks.items if item.node.kind == "object"]
    return found


def _is_ours(settings: Settings, text: str, hook: Node) -> bool:
    command = hook.get(settings.command) if hook.kind == "object" else None
    return command is not None and ours(settings, value_of(text, command))


def _value(settings: Settings, hook: Hook) -> Any:
    """What stands in the list of an event."""
    return dict(hook.entry) if settings.form == "list" else {_HOOKS: [dict(hook.entry)]}


def _root(text: str) -> Node:
    try:
        root = read_tree(text)
    except JsonTextError as error:
        raise SettingsError(f"is no JSON: {error}") from None
    if root.kind != "object":
        raise SettingsError("is no JSON object")
    return root


def _with(settings: Settings, value: Any, by_event: dict[str, Any]) -> Any:
    """What a file says when these are put in."""
    events = dict(value.get(_HOOKS, {}))
    for event, entry in by_event.items():
        events[event] = [*events.get(event, []), _said(entry)]
    return {**_said(dict(settings.top)), **value, _HOOKS: events}


def _said(value: Any) -> Any:
    """As it is read from a file."""
    text = json.dumps(value)
    return value_of(text, read_tree(text))


def _check(after: str, expected: Any) -> None:
    """The file is better left alone than broken."""
    if value_of(after, read_tree(after)) != expected:
        raise SettingsError("could not be changed without touching something else in it")
