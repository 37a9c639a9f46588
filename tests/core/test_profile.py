"""Which tool profile counts for a call."""

from __future__ import annotations

from typing import Any

import pytest

from loopwarden.config import load_config
from loopwarden.core.profile import MAX_TOOL_NAME, ToolUses, bounded_name, matches
from loopwarden.core.settings import KindRule, Settings, ToolProfile

MATCHES: list[tuple[str, str, bool]] = [
    ("read", "read", True),
    ("read", "Read", False),
    ("read", "read_file", False),
    ("read*", "read_file", True),
    ("*", "anything", True),
    ("mcp__*__read", "mcp__files__read", True),
    ("mcp__*__read", "mcp__files__reads", False),
    ("rea?", "read", True),
    ("[rw]ead", "wead", True),
    ("[rw]ead", "[rw]ead", True),
    ("a.b", "axb", False),
    ("", "", True),
]


@pytest.mark.parametrize(("pattern", "tool", "expected"), MATCHES)
def test_patterns(pattern: str, tool: str, expected: bool) -> None:
    assert matches(pattern, tool) is expected


def uses(*profiles: ToolProfile, **settings: Any) -> ToolUses:
    return ToolUses(Settings(profiles=profiles, **settings))


def test_a_tool_without_a_profile() -> None:
    use = uses(warning_threshold=3, critical_threshold=5, global_circuit_breaker_threshold=9).find("x", {})
    assert (use.tool, use.kind, use.poll, use.waits, use.exempt) == ("x", "other", False, False, False)
    assert (use.warning, use.critical, use.breaker) == (3, 5, 9)
    assert use.plain_arguments
    assert use.plain_result


def test_the_most_specific_pattern_wins_field_by_field() -> None:
    found = uses(
        ToolProfile(pattern="read_file", kind="read"),
        ToolProfile(pattern="read_*", kind="exec", warning_threshold=7, ignore_result=("a",)),
        ToolProfile(pattern="*", kind="send", warning_threshold=2, exempt=True, identity=("id",)),
    ).find("read_file", {})
    assert (found.kind, found.warning, found.exempt) == ("read", 7, True)
    assert (found.ignore_result, found.identity) == (("a",), ("id",))


def test_of_equally_specific_patterns_the_later_wins() -> None:
    profiles = [ToolProfile(pattern="read_?", kind="exec"), ToolProfile(pattern="read_*", kind="poll")]
    assert uses(*profiles).find("read_a", {}).kind == "poll"
    assert uses(*reversed(profiles)).find("read_a", {}).kind == "exec"


def test_a_set_of_letters_weighs_nothing() -> None:
    profiles = [
        ToolProfile(pattern="read_[abcdef]", kind="exec"),
        ToolProfile(pattern="read_a?", kind="poll"),
    ]
    assert uses(*profiles).find("read_ab", {}).kind == "poll"


def test_what_is_said_to_be_empty_goes_over_what_is_said_below() -> None:
    found = uses(
        ToolProfile(pattern="*", ignore_result=("a",), exempt=True),
        ToolProfile(pattern="read", ignore_result=(), exempt=False),
    ).find("read", {})
    assert (found.ignore_result, found.exempt, found.plain_result) == ((), False, True)


RULE = KindRule(argument="action", kinds=(("poll", "poll"), ("send", "send")))


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"action": "poll"}, "poll"),
        ({"action": "send"}, "send"),
        ({"action": "list"}, "exec"),
        ({"action": ["poll"]}, "exec"),
        ({}, "exec"),
        ("poll", "exec"),
        (None, "exec"),
    ],
)
def test_the_kind_may_depend_on_an_argument(arguments: Any, kind: str) -> None:
    found = uses(ToolProfile(pattern="process", kind="exec", kind_rule=RULE, warning_threshold=4))
    assert (found.find("process", arguments).kind, found.find("process", arguments).warning) == (kind, 4)


def test_a_kind_that_is_said_more_specifically_ends_the_rule_below() -> None:
    below = ToolProfile(pattern="proc*", kind="other", kind_rule=RULE)
    assert (
        uses(below, ToolProfile(pattern="process", kind="exec")).find("process", {"action": "poll"}).kind
        == "exec"
    )
    assert (
        uses(below, ToolProfile(pattern="process", exempt=False)).find("process", {"action": "poll"}).kind
        == "poll"
    )


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ((None, None), (3, 5, 9)),
        ((2, None), (2, 5, 9)),
        ((7, None), (7, 8, 9)),
        ((None, 4), (3, 4, 9)),
        ((None, 2), (3, 4, 9)),
        ((None, 20), (3, 20, 21)),
        ((30, 10), (30, 31, 32)),
    ],
)
def test_own_thresholds_keep_their_order(
    own: tuple[int | None, int | None], expected: tuple[int, int, int]
) -> None:
    profile = ToolProfile(pattern="x", warning_threshold=own[0], critical_threshold=own[1])
    numbers = {"warning_threshold": 3, "critical_threshold": 5, "global_circuit_breaker_threshold": 9}
    use = uses(profile, **numbers).find("x", None)
    assert (use.warning, use.critical, use.breaker) == expected


def test_long_names_are_cut_and_told_apart() -> None:
    names = ["x" * MAX_TOOL_NAME, "x" * (MAX_TOOL_NAME + 1), "x" * 500 + "a", "x" * 500 + "b"]
    made = [bounded_name(name) for name in names]
    assert made[0] == names[0]
    assert len(set(made)) == len(names)
    assert max(map(len, made)) < MAX_TOOL_NAME + 30
    assert bounded_name("\ud800" * 300) != bounded_name("\ud801" * 300)


def test_tools_that_were_seen_are_remembered_in_a_bounded_number() -> None:
    found = uses(ToolProfile(pattern="t1", kind="read"))
    first = found.find("t1", {})
    assert found.find("t1", {"a": 1}) is first
    for number in range(5000):
        found.find(f"t{number}", {})
    assert found.find("t1", {}).kind == "read"
    assert len(found._cache) <= 4096


KINDS: list[tuple[str, Any, str]] = [
    ("exec", {"command": "ls"}, "exec"),
    ("bash", {"command": "ls"}, "exec"),
    ("Bash", {"command": "ls"}, "exec"),
    ("run_shell_command", {"command": "ls"}, "exec"),
    ("process", {"action": "poll"}, "poll"),
    ("process", {"action": "log"}, "poll"),
    ("process", {"action": "kill"}, "other"),
    ("command_status", {}, "poll"),
    ("BashOutput", {}, "poll"),
    ("message", {"action": "send"}, "send"),
    ("message", {"action": "read"}, "other"),
    ("sessions_send", {}, "send"),
    ("sleep", {}, "wait"),
    ("Sleep", {}, "wait"),
    ("edit", {}, "write"),
    ("apply_patch", {}, "write"),
    ("Write", {}, "write"),
    ("MultiEdit", {}, "write"),
    ("str_replace_editor", {"command": "view"}, "read"),
    ("str_replace_editor", {"command": "str_replace"}, "write"),
    ("mcp__files__write_file", {}, "write"),
    ("read", {}, "read"),
    ("Read", {}, "read"),
    ("made_up", {}, "other"),
]


@pytest.mark.parametrize(("tool", "arguments", "kind"), KINDS)
def test_the_shipped_profiles_know_the_tools_of_hosts(tool: str, arguments: Any, kind: str) -> None:
    assert ToolUses(load_config({}).settings()).find(tool, arguments).kind == kind
