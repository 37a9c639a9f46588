"""Where each coding agent keeps its hooks and how an entry looks there: one table.

Names of files, keys and variables are those of the hosts' own documentation and programs. A host whose hooks
are no entries of a settings file gets a form of its own in `forms`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from loopwarden.errors import LoopwardenError
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.plugins import PLUGINS
from loopwarden.state_folder import home_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

Scope: TypeAlias = Literal["user", "project"]

SCOPES: Final[tuple[Scope, ...]] = ("user", "project")

Form: TypeAlias = Literal["groups", "list", "toml", "yaml", "file", "asset", "plugin"]
"""How a settings file has its hooks.

`groups`: JSON, event, list of groups, each with a list of hooks. `list`: JSON, event, list of hooks. `toml`:
tables `[[hooks]]` that name their event. `yaml`: event, list of hooks. `file`: the file is the hook. `asset`:
a file beside such a one. `plugin`: JSON5, an entry that switches a plug-in on.
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
        variables: Each names another folder, in which the user's is what stands here; `..` for one that
            names a file in the user's folder. The first that is set counts.
        file_variable: Names another file.
        events: Events that are registered.
        entry: What a hook has besides its command.
        command: The key of its command.
        time: The key of its timeout.
        top: What a file needs besides hooks.
        says_event: Whether the event has to stand in the command, because the host does not send its name.
        comments: Whether the host reads a file with comments.
        commas: Whether the host reads a JSON file with a comma after a last entry.
        switches: Keys of its settings, and the value by which they switch hooks off.
        disabled: Keys of lists with the names, or else commands, of hooks that it does not run.
        switch_file: Where these are, if in another file of the same folder.
        also: Further files with such keys: of the project, or of the whole machine.
        programs: What people start it by.
        next: What is left to do after an installation.
        parts: Further files of the user that belong to it.
    """

    host: str
    form: Form
    folder: str
    file: str
    project: str | None
    programs: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    file_variable: str | None = None
    events: tuple[str, ...] = ()
    entry: Mapping[str, Any] = field(default_factory=lambda: {"type": "command"})
    command: str = "command"
    time: str = "timeout"
    top: Mapping[str, Any] = field(default_factory=dict)
    says_event: bool = False
    comments: bool = False
    commas: bool = False
    switches: tuple[tuple[tuple[str, ...], bool], ...] = ()
    disabled: tuple[tuple[str, ...], ...] = ()
    switch_file: str | None = None
    also: tuple[str, ...] = ()
    next: str = ""
    parts: tuple[Settings, ...] = ()

    def user_folder(self, environment: Mapping[str, str]) -> Path:
        """The user's folder of this host.

        Raises:
            LoopwardenError: The user has no home that can be used; so for `path`.
        """
        for variable, inside in self.variables.items():
            if named := environment.get(variable):
                base = self._path(named, environment)
                return base.parent if inside == _ABOVE else base / inside
        return self._path(f"~/{self.folder}", environment)

    def path(self, scope: Scope, environment: Mapping[str, str], project: Path) -> Path | None:
        """The file of a scope; `None`: there is none.

        Args:
            scope: Of the user or of a project.
            environment: Variables.
            project: The project's folder.
        """
        if scope == "user":
            named = environment.get(self.file_variable or "")
            if named:
                return self._path(named, environment)
            return self.user_folder(environment) / self.file
        return None if self.project is None else project / self.project

    def _path(self, text: str, environment: Mapping[str, str]) -> Path:
        """A path that may begin with a home."""
        try:
            path = Path(text)
            return (
                home_folder(environment).joinpath(*path.parts[1:])
                if path.parts[:1] == ("~",)
                else path.expanduser()
            )
        except RuntimeError as error:
            title = HOSTS[self.host].title
            raise LoopwardenError(
                f"no folder for the settings of {title}: {error}; set HOME to one"
            ) from None

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


_ABOVE: Final = ".."

_DISABLED: Final = (("hooksConfig", "disabled"), ("hooks", "disabled"))
"""The second of the two is that of earlier versions."""

_OFF: Final = ((("disableAllHooks",), True),)

_OPENCLAW_FOLDER: Final = ".openclaw"
_OPENCLAW_FILE: Final = "OPENCLAW_CONFIG_PATH"
_OPENCLAW: Final = {"OPENCLAW_STATE_DIR": "", _OPENCLAW_FILE: _ABOVE, "OPENCLAW_HOME": _OPENCLAW_FOLDER}


def _openclaw_part(form: Form, file: str, file_variable: str | None = None) -> Settings:
    return Settings(
        host="openclaw",
        form=form,
        folder=_OPENCLAW_FOLDER,
        file=file,
        project=None,
        variables=_OPENCLAW,
        file_variable=file_variable,
        programs=(),
    )


_ROWS: Final = (
    Settings(
        host="claude-code",
        form="groups",
        folder=".claude",
        file="settings.json",
        project=".claude/settings.json",
        variables={"CLAUDE_CONFIG_DIR": ""},
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
        variables={"CODEX_HOME": ""},
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
        variables={"GEMINI_CLI_HOME": ".gemini"},
        entry={"name": "loopwarden", "type": "command"},
        comments=True,
        switches=((("hooksConfig", "enabled"), False),),
        disabled=_DISABLED,
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
        variables={"QWEN_HOME": ""},
        entry={"name": "loopwarden", "type": "command"},
        comments=True,
        switches=_OFF,
        disabled=_DISABLED,
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
        variables={"KIMI_CODE_HOME": ""},
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
        variables={"COPILOT_HOME": ""},
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
        commas=True,
        programs=("cursor", "cursor-agent"),
        next="Cursor reads the file again by itself.",
    ),
    Settings(
        host="hermes",
        form="yaml",
        folder=".hermes",
        file="config.yaml",
        project=None,
        variables={"HERMES_HOME": ""},
        entry={},
        comments=True,
        programs=("hermes",),
        next="Hermes asks once whether the command may run; say yes.",
    ),
    Settings(
        host="opencode",
        form="file",
        folder=".config/opencode",
        file=PLUGINS["opencode"].target,
        project=f".opencode/{PLUGINS['opencode'].target}",
        variables={"XDG_CONFIG_HOME": "opencode"},
        comments=True,
        programs=("opencode",),
        next="opencode takes it up when it is started again.",
    ),
    Settings(
        host="openclaw",
        form="file",
        folder=_OPENCLAW_FOLDER,
        file=PLUGINS["openclaw"].target,
        project=None,
        variables=_OPENCLAW,
        comments=True,
        switches=((("plugins", "enabled"), False),),
        programs=("openclaw",),
        next="OpenClaw takes it up when its gateway is started again: openclaw gateway restart",
        parts=(
            *(_openclaw_part("asset", target) for target in PLUGINS["openclaw"].others.values()),
            _openclaw_part("plugin", "openclaw.json", _OPENCLAW_FILE),
        ),
    ),
)

SETTINGS: Final[Mapping[str, Settings]] = {row.host: row for row in _ROWS}
"""By the name of the host."""


def project_folder(start: Path) -> Path:
    """The project that a folder is in: the nearest one above with a `.git`, else the folder itself."""
    start = Path(os.path.abspath(start))  # noqa: PTH100 - links stay as they are
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
