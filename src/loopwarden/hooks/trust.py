"""Hooks that a coding agent runs only when a person has agreed: what it has noted about ours.

The agents' own files are read, never written: to agree is for the person.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from loopwarden.hooks.entries import SettingsError
from loopwarden.hooks.installing import read_settings
from loopwarden.hooks.yaml_form import said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from loopwarden.hooks.entries import Hook
    from loopwarden.hooks.settings import Settings

_CODEX_DEFAULT: Final = 600


def distrusted(settings: Settings, folder: Path, path: Path, hooks: list[Hook]) -> list[str]:
    """Why the agent does not run some of our hooks; empty if it runs them all, as far as can be told.

    Args:
        settings: Of the host.
        folder: The user's folder of the host.
        path: The file with the hooks.
        hooks: Our hooks in it.
    """
    look = _LOOKS.get(settings.host)
    return sorted(set(look(folder, path, hooks))) if look is not None else []


def _codex(folder: Path, path: Path, hooks: list[Hook]) -> Iterator[str]:
    """Codex notes a hash of each hook, by file, event and place."""
    state = _toml(folder / "config.toml").get("hooks", {})
    state = state.get("state", {}) if isinstance(state, dict) else {}
    names = (str(path), os.path.realpath(path))
    for event, group, place, hook, matcher in _codex_hooks(path, {hook.command for hook in hooks}):
        label = re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
        keys = (f"{name}:{label}:{group}:{place}" for name in names)
        noted: dict[str, Any] = next((state[key] for key in keys if isinstance(state.get(key), dict)), {})
        if noted.get("enabled") is False:
            yield "it was switched off in Codex (/hooks)"
        elif "trusted_hash" not in noted:
            yield "Codex has not been told to trust it"
        elif noted["trusted_hash"] != codex_hash(label, hook, matcher):
            yield "it has changed since Codex was told to trust it"


def codex_hash(label: str, hook: Mapping[str, Any], matcher: str | None = None) -> str:
    """What Codex remembers a hook by, as in Codex 0.171.

    Args:
        label: The event, as `pre_tool_use`.
        hook: The entry.
        matcher: That of its group.
    """
    handler = {
        "type": "command",
        "command": hook.get("command"),
        "timeout": max(int(hook.get("timeout", _CODEX_DEFAULT)), 1),
        "async": bool(hook.get("async", False)),
    }
    if "statusMessage" in hook:
        handler["statusMessage"] = hook["statusMessage"]
    value = {"event_name": label, "hooks": [handler], **({} if matcher is None else {"matcher": matcher})}
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _codex_hooks(
    path: Path, commands: set[str]
) -> Iterator[tuple[str, int, int, dict[str, Any], str | None]]:
    events = _json(path).get("hooks", {})
    for event, groups in events.items() if isinstance(events, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            entries = group.get("hooks") if isinstance(group, dict) else None
            for place, hook in enumerate(entries if isinstance(entries, list) else ()):
                if isinstance(hook, dict) and hook.get("command") in commands:
                    yield event, number, place, hook, group.get("matcher")


def _hermes(folder: Path, path: Path, hooks: list[Hook]) -> Iterator[str]:
    """Hermes notes each event with its command."""
    if (said(_text(path), "hooks_auto_accept") or "").lower() in {"true", "yes", "on"}:
        return
    noted = _json(folder / "shell-hooks-allowlist.json").get("approvals")
    agreed = (
        {(one.get("event"), one.get("command")) for one in noted or () if isinstance(one, dict)}
        if isinstance(noted, list)
        else set()
    )
    if any((hook.event, hook.command) not in agreed for hook in hooks):
        yield "Hermes has not been told that it may run"


_LOOKS: Final[Mapping[str, Callable[[Path, Path, list[Hook]], Iterator[str]]]] = {
    "codex": _codex,
    "hermes": _hermes,
}


def _text(path: Path) -> str:
    try:
        return read_settings(path) or ""
    except (OSError, SettingsError):
        return ""


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except (ValueError, RecursionError):
        return {}
