"""Where each coding agent keeps its hooks and how an entry looks there: one table.

Names of files, keys and variables are those of the hosts' own documentation and programs. A host whose hooks
are no entries of a settings file gets a form of its own in `forms`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from loopwarden.hooks.hosts import HOSTS

if TYPE_CHECKING:
    from collections.abc import Mapping

Scope: TypeAlias = Literal["user", "project"]

Form: TypeAlias = Literal["groups", "list", "toml", "yaml", "file"]
"""How a settings file has its hooks.

`groups`: JSON, event, list of groups, each with a list of hooks. `list`: JSON, event, list of hooks. `toml`:
tables `[[hooks]]` that name their event. `yaml`: event, list of hooks. `file`: the file is the hook.
"""

SECONDS: Final = 10
"""How long a host waits for a hook, which gives up by itself after half of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The hooks of one coding agent.

    Attributes:
        host: Its name, as in `HOSTS`.
        form: How the file has its hooks.
        folder: The user's folder, below the home.
        file: The file in it.
        project: The file in a project; `None`: the host has none.
        variable: Names another folder; with `variable_is_home` it names another home.
        variable_is_home: See `variable`.
        events: Events that are registered.
        entry: What a hook has besides its command.
        command: The key of its command.
        time: The key of its timeout.
        top: What a file needs besides hooks.
        says_event: Whether the event has to stand in the command, because the host does not send its name.
        comments: Whether the host reads a file with comments.
        switches: Keys of its settings, and the value by which they switch hooks off.
        switch_file: Where these are, if in another file of the same folder.
        also: Further files with such keys: of the project, or of the whole machine.
        programs: What people start it by.
        next: What is left to do after an installation.
    """

    host: str
    form: Form
    folder: str
    file: str
    project: str | None
    programs: tuple[str, ...]
    variable: str | None = None
    variable_is_home: bool = False
    events: tuple[str, ...] = ()
    entry: Mapping[str, Any] = field(default_factory=lambda: {"type": "command"})
    command: str = "command"
    time: str = "timeout"
    top: Mapping[str, Any] = field(default_factory=dict)
    says_event: bool = False
    comments: bool = False
    switches: tuple[tuple[tuple[str, ...], bool], ...] = ()
    switch_file: str | None = None
    also: tuple[str, ...] = ()
    next: str = ""

    def user_folder(self, environment: Mapping[str, str]) -> Path:
        """The user's folder of this host."""
        named = environment.get(self.variable or "")
        if named:
            base = Path(named).expanduser()
            return base / self.folder if self.variable_is_home else base
        return Path(environment.get("HOME") or Path.home()) / self.folder

    def path(self, scope: Scope, environment: Mapping[str, str], project: Path) -> Path | None:
        """The file of a scope; `None`: there is none.

        Args:
            scope: Of the user or of a project.
            environment: Variables.
            project: The project's folder.
        """
        if scope == "user":
            return self.user_folder(environment) / self.file
        return None if self.project is None else project / self.project

    def registered(self) -> tuple[str, ...]:
        """The events that are registered."""
        return self.events or tuple(HOSTS[self.host].events)

    def hook(self, event: str, program: str) -> dict[str, Any]:
        """An entry for an event.

        Args:
            event: Its name.
            program: The hook command, quoted for a shell.
        """
        words = f"{program} {self.host} {event}" if self.says_event else f"{program} {self.host}"
        unit = 1000 if HOSTS[self.host].timeout_unit == "ms" else 1
        return {**self.entry, self.command: words, self.time: SECONDS * unit}


_OFF: Final = ((("disableAllHooks",), True),)

_ROWS: Final = (
    Settings(
        host="claude-code",
        form="groups",
        folder=".claude",
        file="settings.json",
        project=".claude/settings.json",
        variable="CLAUDE_CONFIG_DIR",
        switches=(*_OFF, (("allowManagedHooksOnly",), True)),
        also=(
            ".claude/settings.local.json",
            "/etc/claude-code/managed-settings.json",
            "/Library/Application Support/ClaudeCode/managed-settings.json",
        ),
        programs=("claude",),
        next="Sessions that are open take it up when they are started again.",
    ),
    Settings(
        host="codex",
        form="groups",
        folder=".codex",
        file="hooks.json",
        project=".codex/hooks.json",
        variable="CODEX_HOME",
        switches=((("features", "hooks"), False), (("features", "codex_hooks"), False)),
        switch_file="config.toml",
        programs=("codex",),
        next="Codex runs a hook only when you trust it: start codex, give /hooks, and trust the entries.",
    ),
    Settings(
        host="gemini",
        form="groups",
        folder=".gemini",
        file="settings.json",
        project=".gemini/settings.json",
        variable="GEMINI_CLI_HOME",
        variable_is_home=True,
        entry={"name": "loopwarden", "type": "command"},
        comments=True,
        switches=((("hooksConfig", "enabled"), False),),
        also=("/etc/gemini-cli/settings.json",),
        programs=("gemini",),
        next="Sessions that are open take it up when they are started again.",
    ),
    Settings(
        host="qwen",
        form="groups",
        folder=".qwen",
        file="settings.json",
        project=".qwen/settings.json",
        variable="QWEN_HOME",
        entry={"name": "loopwarden", "type": "command"},
        comments=True,
        switches=_OFF,
        also=("/etc/qwen-code/settings.json",),
        programs=("qwen",),
        next="Sessions that are open take it up when they are started again.",
    ),
    Settings(
        host="kimi",
        form="toml",
        folder=".kimi-code",
        file="config.toml",
        project=None,
        variable="KIMI_CODE_HOME",
        entry={},
        comments=True,
        programs=("kimi",),
        next="Sessions that are open take it up when they are started again.",
    ),
    Settings(
        host="copilot",
        form="list",
        folder=".copilot",
        file="hooks/loopwarden.json",
        project=".github/hooks/loopwarden.json",
        variable="COPILOT_HOME",
        events=("preToolUse", "postToolUse", "postToolUseFailure", "userPromptSubmitted", "preCompact"),
        command="bash",
        time="timeoutSec",
        top={"version": 1},
        says_event=True,
        switches=_OFF,
        switch_file="settings.json",
        programs=("copilot",),
        next="Sessions that are open take it up when they are started again.",
    ),
    Settings(
        host="cursor",
        form="list",
        folder=".cursor",
        file="hooks.json",
        project=".cursor/hooks.json",
        entry={},
        top={"version": 1},
        comments=True,
        programs=("cursor", "cursor-agent"),
        next="Cursor reads the file again by itself.",
    ),
    Settings(
        host="hermes",
        form="yaml",
        folder=".hermes",
        file="config.yaml",
        project=None,
        variable="HERMES_HOME",
        entry={},
        comments=True,
        programs=("hermes",),
        next="Hermes asks once whether the command may run; say yes.",
    ),
    Settings(
        host="opencode",
        form="file",
        folder=".config/opencode",
        file="plugins/loopwarden.js",
        project=".opencode/plugins/loopwarden.js",
        comments=True,
        programs=("opencode",),
        next="opencode takes it up when it is started again.",
    ),
)

SETTINGS: Final[Mapping[str, Settings]] = {row.host: row for row in _ROWS}
"""All hosts whose hooks are entries of a settings file, by name."""


def project_folder(start: Path) -> Path:
    """The project that a folder is in: the nearest one above with a `.git`, else the folder itself."""
    start = Path(os.path.abspath(start))  # noqa: PTH100 - links stay as they are
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
