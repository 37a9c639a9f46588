"""The forms of settings files by name: each finds our entries in a text, puts them in, and takes them out.

Plug-ins have forms too: their files, and the entry that switches one on.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from loopwarden.hooks import asset_form, file_form, json_form, plugin_form, toml_form, yaml_form
from loopwarden.hooks.entries import PROGRAM, SettingsError, words
from loopwarden.hooks.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.hooks.entries import Hook
    from loopwarden.hooks.settings import Form, Settings


class SettingsForm(Protocol):
    """What a form can do; all of it raises `SettingsError` for a text that it can't read or change."""

    def find(self, settings: Settings, text: str) -> list[Hook]:
        """Our entries."""
        ...

    def put(self, settings: Settings, text: str, hooks: list[Hook]) -> str:
        """The text with these entries of ours, and no others of ours."""
        ...

    def drop(self, settings: Settings, text: str, base: str | None = None) -> str:
        """The text without our entries; what was there, if empty, in an earlier text `base` stays."""
        ...


FORMS: Final[Mapping[Form, SettingsForm]] = {
    "asset": asset_form,
    "file": file_form,
    "groups": json_form,
    "list": json_form,
    "plugin": plugin_form,
    "toml": toml_form,
    "yaml": yaml_form,
}

_SHARED: Final = frozenset({"groups", "list", "toml", "yaml"})
"""Forms of files that have other things besides our entries."""


def others(settings: Settings, text: str) -> list[str]:
    """Other hosts that entries of ours name in the file of a host, which may be the file of both."""
    found = []
    for other in SETTINGS.values() if PROGRAM in text and settings.form in _SHARED else ():
        if other.host != settings.host and other.form in _SHARED:
            with suppress(SettingsError):  # the file has another form
                hooks = FORMS[other.form].find(other, text)
                if any(words(hook.command)[1:2] == [other.host] for hook in hooks):
                    found.append(other.host)
    return found
