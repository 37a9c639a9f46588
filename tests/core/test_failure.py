"""Which text names a tool that does not exist, and which failures are the same."""

from __future__ import annotations

import pytest

from loopwarden.core.failure import MASKED, mask, unknown_tool

MISSING: dict[str, str] = {
    # the three forms of SPEC section 4
    "Unknown tool: search_web": "search_web",
    "unknown tool search_web": "search_web",
    "Tool search_web not found": "search_web",
    "tool search_web is not available": "search_web",
    # names
    "Unknown tool: mcp__files/read": "mcp__files/read",
    "Unknown tool: functions.exec_command": "functions.exec_command",
    "Unknown tool: server:read": "server:read",
    "Unknown tool: search-web.": "search-web",
    "Tool a.b/c:d-e not found": "a.b/c:d-e",
    "Unknown tool: s\u00f6k": "s\u00f6k",
    # quotes
    "Unknown tool: 'search_web'": "search_web",
    'Tool "search_web" not found in registry': "search_web",
    "Tool `search_web` is not available": "search_web",
    # well-known hosts
    "Error: No such tool available: search_web": "search_web",
    "No such tool: search_web": "search_web",
    "Unknown tool name: 'search_web'. Available tools: read, write": "search_web",
    "search_web is not a valid tool, try one of [read].": "search_web",
    "Tool named search_web does not exist": "search_web",
    "There is no tool named search_web": "search_web",
    "Tool search_web doesn't exist": "search_web",
    "Tool search_web was not registered": "search_web",
    "unsupported tool: search_web": "search_web",
    "<error>\nUnknown tool: search_web\n</error>": "search_web",
    "TOOL SEARCH_WEB NOT FOUND": "SEARCH_WEB",
}

NOT_MISSING = [
    "",
    "file notes.md not found",
    "notes.md: not found",
    "Error: /srv/tool/notes.md not found",
    "search_web not found",
    "search_web is not available",
    "backend not available",
    "Command not found: search_web",
    "bash: search_web: command not found",
    "the browser backend is not available, start it first",
    "unknown option --tool",
    "Unknown command: search_web",
    "unknown toolbar item: bold",
    "No toolchain found",
    "404 Not Found",
    "toolbox search_web not found",
    "Module 'tool' has no attribute search",
    "Unknown tools are refused by policy",
    "x" * 3000 + " Unknown tool: search_web",
]


@pytest.mark.parametrize("text", MISSING)
def test_a_missing_tool_is_named(text: str) -> None:
    assert unknown_tool(text) == MISSING[text]


@pytest.mark.parametrize("text", NOT_MISSING)
def test_other_failures_name_none(text: str) -> None:
    assert unknown_tool(text) is None


ALIKE: list[tuple[str, str]] = [
    ("at 2026-07-01T10:00:00Z", "at 2026-07-02T23:59:59.123+02:00"),
    ("at 2026-07-01 10:00:00", "at 2026-07-01 10:00:01"),
    ("on 2026-07-01", "on 2025-12-31"),
    ("on 01/02/2026", "on 3/4/2026"),
    ("on 01.02.2026", "on 31.12.2026"),
    ("at 10:00:00", "at 23:59:01"),
    ("at 10:00", "at 9:59 pm"),
    ("[12:00:01.123] no", "[12:00:02,456] no"),
    ("on Mon, 01 Jan 2026", "on Tue, 02 Feb 2026"),
    ("on Mon Jan  1", "on Tue Feb 12"),
    ("took 5 ms", "took 123ms"),
    ("took 1.5s", "took 0.25s"),
    ("after 30 seconds", "after 31 seconds"),
    ("in 2 min", "in 12 minutes"),
    ("retry in 1 hour", "retry in 3 hours"),
    ("id 0f8fad5b-d9cb-469f-a165-70867728950e", "id 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
    ("at 0x7f8a2c001230", "at 0x55d0"),
    ("commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit d670460b4b4aece5915caf5c68d12f560a9fe3e4"),
    ("commit 9fceb02", "commit d670460"),
    ("request req_011CSHoEeqs5C35K2UUqR7Fy", "request req_011CT3aBcdEf9g8h7i6j5k4l"),
    ("pid 7", "pid 1234"),
    ("process 12 ended", "process 13 ended"),
    ("PID: 12".lower(), "pid: 13"),
    ("in thread 4", "in thread 5"),
    ("offset 12345", "offset 99999999"),
    ("no such file '/tmp/a/b.txt'", "no such file '/var/c'"),
    ('no such file "./a.txt"', 'no such file "../b.txt"'),
    ("no such file `~/a`", "no such file `/b`"),
    (r"no such file 'C:\a\b.txt'", r"no such file 'D:\c'"),
]

UNLIKE: list[tuple[str, str]] = [
    ("HTTP 401", "HTTP 403"),
    ("status 500", "status 503"),
    ("[Errno 2] gone", "[Errno 13] gone"),
    ("exit code 1", "exit code 2"),
    ("3 tests failed", "4 tests failed"),
    ("line 12: bad", "line 13: bad"),
    ("1234 rows", "1235 rows"),
    ("tests/test_login.py::test_a FAILED", "tests/test_login.py::test_b FAILED"),
    ("permission denied", "disk full"),
    ("column 'age' is missing", "column 'name' is missing"),
    ("host db-1 is down", "host db-2 is down"),
    ("no module named abcdef", "no module named fedcba"),
    ("version 1.2.3", "version 1.2.4"),
    ("x" * MASKED + " 12345", "x" * MASKED + " 54321"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_changes_from_time_to_time_is_masked(one: str, other: str) -> None:
    assert mask(one) == mask(other) != one


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_what_tells_causes_apart_is_kept(one: str, other: str) -> None:
    assert mask(one) != mask(other)


def test_what_was_masked_is_told_apart() -> None:
    assert mask("took 5 ms") != mask("took 12345")
    assert mask("a 12345 b") == "a <digits> b"


TRICKY = [
    "0", "1 ", "0a", "a0", "12:", "1:1", "2026-", "2026-07-01 ", "f", "0x", "deadbeef-", "A1b", "ab_1",
    "-", "_", "'", '"', "`/", "'/", "'C:\\", "~/", "./", "pid ", "pid:", "process=", "Mon ", "Mon, 1 ",
    "tool ", "tool a ", "unknown tool ", "no such tool\t", "no tool named ", "tool named tool called ",
    "is not a ", "a is not a ", "a./:@-", " ", "\n", "\t", "\u0660", "\u00b5s", "1,1", "1.5", "5 s",
    "\u00e9", "\ud800", "\x00", "((((", "<b>",
]  # fmt: skip


@pytest.mark.parametrize("piece", TRICKY)
def test_no_text_takes_long(piece: str) -> None:
    """If either were quadratic in the length of the text, this would go on for minutes."""
    text = piece * (200_000 // len(piece))
    for hostile in (text, text + "!", "x" + text, "tool " + text):
        unknown_tool(hostile)
        assert mask(hostile)[-1] in (hostile[-1], ">")
