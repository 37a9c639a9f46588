"""What ships: the presets, and the tools of well-known hosts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loopwarden.config import load_config
from loopwarden.config.builtin import preset, tool_profiles
from loopwarden.config.schema import LoopDetection
from loopwarden.core.profile import ToolUses
from loopwarden.core.settings import Settings

USES = ToolUses(load_config({}).settings())

KINDS = {
    "write": "write edit apply_patch Write Edit MultiEdit NotebookEdit write_file replace multiedit patch "
    "create StrReplaceFile WriteFile edit_file search_replace file_write mcp__filesystem__write_file",
    "exec": "exec bash Bash shell local_shell container.exec exec_command run_shell_command terminal "
    "execute_bash Shell run_terminal_cmd python python_repl execute_code bash_command powershell",
    "poll": "command_status BashOutput TaskOutput read_bash wait",
    "wait": "sleep Sleep mcp__playwright__browser_wait_for",
    "send": "sessions_send",
    "read": "read Read Glob Grep read_file list_directory search_files view grep WebFetch",
    "other": "TodoWrite todowrite update_plan Task sessions_spawn think unheard_of write_stdin process "
    "message",
}

BY_ARGUMENT = [
    ("process", {"action": "poll"}, "poll"),
    ("process", {"action": "log"}, "poll"),
    ("process", {"action": "write"}, "other"),
    ("message", {"action": "send"}, "send"),
    ("message", {"action": "react"}, "other"),
    ("write_stdin", {"chars": ""}, "poll"),
    ("write_stdin", {"chars": "y"}, "other"),
    ("str_replace_editor", {"command": "view"}, "read"),
    ("str_replace_editor", {"command": "str_replace"}, "write"),
    ("file_editor", {"command": "create"}, "write"),
    ("execute_bash", {"command": ""}, "poll"),
    ("execute_bash", {"command": "ls"}, "exec"),
    ("computer", {"action": "wait"}, "wait"),
]


def test_the_reference_preset_is_what_the_core_has_as_defaults() -> None:
    assert replace(load_config({}).settings(), profiles=()) == Settings()
    fields = {str(one.alias) for one in LoopDetection.model_fields.values()} - {"preset", "toolProfiles"}
    assert preset("reference").keys() == fields


@pytest.mark.parametrize(
    ("tool", "kind"), [(tool, kind) for kind, tools in KINDS.items() for tool in tools.split()]
)
def test_kinds_of_known_tools(tool: str, kind: str) -> None:
    assert USES.find(tool, {}).kind == kind


@pytest.mark.parametrize(("tool", "arguments", "kind"), BY_ARGUMENT)
def test_kinds_by_argument(tool: str, arguments: dict[str, str], kind: str) -> None:
    assert USES.find(tool, arguments).kind == kind


@pytest.mark.parametrize(
    ("tool", "text", "left"),
    [
        ("run_shell_command", "Output: x\nProcess Group PGID: 10427", "Output: x\n"),
        ("exec_command", "Chunk ID: 5b2f\nWall time: 0.0512 seconds\nok", "\n\nok"),
        ("BashOutput", "<timestamp>2026-01-02T03:04:05Z</timestamp>a", "a"),
    ],
)
def test_volatile_text_is_blanked(tool: str, text: str, left: str) -> None:
    for pattern in tool_profiles()[tool]["ignoreText"]:
        text = re.sub(pattern, "", text)
    assert text == left


def test_a_persons_kind_counts_over_the_shipped_rule() -> None:
    uses = ToolUses(
        load_config({"toolProfiles": {"terminal": {"kind": "poll"}, "proc*": {"kind": "exec"}}}).settings()
    )
    assert uses.find("terminal", {"command": "ls"}).kind == "poll"
    assert uses.find("process", {"action": "poll"}).kind == "poll"  # the name is more specific than the glob


@pytest.mark.parametrize("name", ["reference", "sensitive", "unattended", "tool-profiles"])
def test_what_ships_is_what_the_models_make_of_it(name: str) -> None:
    shipped = {"toolProfiles": tool_profiles()} if name == "tool-profiles" else preset(name)
    assert LoopDetection.model_validate(shipped).written() == shipped
