"""A plug-in switched on in the settings of OpenClaw: its entry below `plugins`, and its name in `allow`.

The file is JSON5. A plug-in that changes results has to stand in it by name; where `plugins.allow` names any
plug-in, only those that it names are loaded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from loopwarden.hooks.entries import PROGRAM, Hook, SettingsError
from loopwarden.hooks.json_edit import added, edited, empty, removed
from loopwarden.hooks.json_tree import JsonTextError, read_tree, value_of

if TYPE_CHECKING:
    from loopwarden.hooks.json_edit import Edit
    from loopwarden.hooks.json_tree import Node
    from loopwarden.hooks.settings import Settings

_NAME: Final = "loopwarden"
_PLUGINS: Final = "plugins"
_ENTRIES: Final = "entries"
_ENABLED: Final = "enabled"
_PATH: Final = (_PLUGINS, _ENTRIES, _NAME, _ENABLED)


def find(settings: Settings, text: str) -> list[Hook]:
    """Our entry, if there is one.

    Raises:
        SettingsError: The text can't be read.
    """
    there = not empty(text) and _at(_root(text), *_PATH[:3]) is not None
    return [Hook(event="", command=f"{PROGRAM} {settings.host}")] if there else []


def put(settings: Settings, text: str, hooks: list[Hook]) -> str:  # noqa: ARG001 - as in the other forms
    """The text with our plug-in switched on.

    Raises:
        SettingsError: The text can't be read, has something else where plug-ins belong, or forbids ours.
    """
    if empty(text):
        fresh = json.dumps(_nested(_PATH), indent=2)
        return (text.rstrip() + "\n" if text.strip() else "") + fresh + "\n"
    root = _root(text)
    plugins = root.get(_PLUGINS)
    if _named(text, _list(plugins, "deny")):
        raise SettingsError(f'"{_PLUGINS}.deny" names {_NAME}; take it out of that list first')
    allow = _list(plugins, "allow")
    edits = _switched_on(text, root)
    if allow is not None and allow.items and not _named(text, allow):
        edits += added(text, root, allow, [("", _NAME)])
    after = edited(text, edits)
    _check(text, after)
    return after


def drop(settings: Settings, text: str, base: str | None = None) -> str:
    """The text without our plug-in, and without objects that are empty then.

    Args:
        settings: Of the host.
        text: The text.
        base: An earlier text: what it has stays, and what it says of our plug-in is said again.

    Raises:
        SettingsError: The text can't be read.
    """
    if not find(settings, text):
        return text
    root = _root(text)
    known = base if base is not None and not empty(base) else "{}"
    old = _root(known)
    edits = _switched_off(text, root, known, old)
    allow = _list(root.get(_PLUGINS), "allow")
    ours = _named(text, allow)
    kept = _named(known, _list(old.get(_PLUGINS), "allow"))
    if allow is not None and ours and not kept and len(ours) < len(allow.items):  # an empty one allows all
        edits += removed(text, allow, ours)
    return edited(text, edits)


def _switched_on(text: str, root: Node) -> list[Edit]:
    """Edits that put the first missing part of the path in, with all below it."""
    here = root
    for depth, key in enumerate(_PATH):
        if here.kind != "object":
            raise SettingsError(f'"{".".join(_PATH[:depth])}" is no object, so nothing can be added to it')
        inner = here.get(key)
        if inner is None:
            return added(text, root, here, [(key, _nested(_PATH[depth + 1 :]))])
        here = inner
    return [] if value_of(text, here) is True else [(here.start, here.end, "true")]


def _switched_off(text: str, root: Node, known: str, old: Node) -> list[Edit]:
    """Edits that take our entry out, or have it say what it said in the earlier text."""
    said = _at(old, *_PATH[:3])
    if said is not None:
        entry = _at(root, *_PATH[:3])
        now, then = _at(root, *_PATH), _at(old, *_PATH)
        if entry is None or now is None:
            return []
        if then is not None:
            return [(now.start, now.end, known[then.start : then.end])]
        return removed(text, entry, _places(entry, _ENABLED))
    for depth in (0, 1, 2):  # the outermost that would be left empty
        holder = _at(root, *_PATH[:depth])
        last = depth == len(_PATH) - 2
        alone = all(_alone(_at(root, *_PATH[:below])) for below in range(depth + 1, len(_PATH) - 1))
        if holder is not None and (last or (alone and _at(old, *_PATH[: depth + 1]) is None)):
            return removed(text, holder, _places(holder, _PATH[depth]))
    return []


def _alone(node: Node | None) -> bool:
    """Whether one thing is in it."""
    return node is not None and len({item.key for item in node.items}) == 1


def _places(node: Node, key: str) -> set[int]:
    return {place for place, item in enumerate(node.items) if item.key == key}


def _at(node: Node | None, *keys: str) -> Node | None:
    for key in keys:
        node = node.get(key) if node is not None and node.kind == "object" else None
    return node


def _list(plugins: Node | None, key: str) -> Node | None:
    found = _at(plugins, key)
    return found if found is not None and found.kind == "list" else None


def _named(text: str, names: Node | None) -> set[int]:
    """Where a list names our plug-in; blanks and the case of letters don't matter to OpenClaw."""
    said = [value_of(text, item.node) for item in names.items] if names is not None else []
    return {
        place for place, name in enumerate(said) if isinstance(name, str) and name.strip().lower() == _NAME
    }


def _nested(keys: tuple[str, ...]) -> Any:
    return {keys[0]: _nested(keys[1:])} if keys else True


def _root(text: str) -> Node:
    try:
        root = read_tree(text, json5=True)
    except JsonTextError as error:
        raise SettingsError(f"is no JSON5: {error}") from None
    if root.kind != "object":
        raise SettingsError("is no JSON5 object")
    return root


def _check(before: str, after: str) -> None:
    """The file is better left alone than broken."""
    said, says = (_without_ours(value_of(text, _root(text))) for text in (before, after))
    if said != says or value_of(after, _root(after))[_PLUGINS][_ENTRIES][_NAME][_ENABLED] is not True:
        raise SettingsError("could not be changed without touching something else in it")


def _without_ours(value: dict[str, Any]) -> dict[str, Any]:
    """What is left of a file if all that is ours, and all that may have been made for it, is out."""
    plugins = dict(value.get(_PLUGINS, {}))
    entries = dict(plugins.pop(_ENTRIES, {}))
    entry = dict(entries.pop(_NAME, {}))
    entry.pop(_ENABLED, None)
    allow = plugins.get("allow")
    if isinstance(allow, list):
        plugins["allow"] = [name for name in allow if name != _NAME]
    return {**value, _PLUGINS: [plugins, entries, entry]}
