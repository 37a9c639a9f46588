"""The guard as hooks of the Claude Agent SDK, against its own command line tool."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="needs claude-agent-sdk; see scripts/check-hosts")

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, PermissionResultAllow, PermissionResultDeny

from loopwarden import LoopAborted
from loopwarden.adapters.claude_agent_sdk import LoopGuardHooks
from tests.adapters.anthropic_server import calling
from tests.adapters.claude_agent_sdk_scripts import ABORTING, LADDER, Claude, actions, look, looks, talk
from tests.adapters.contract import Contract
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from pathlib import Path


class TestClaude(Contract):
    @pytest.fixture(params=["query", "client"])
    def host(self, request: pytest.FixtureRequest) -> Claude:
        return Claude(request.param)


# --- options and other hooks


def test_the_options_are_copied_and_the_users_hooks_stay() -> None:
    async def mine(event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        return {}

    matcher = HookMatcher(matcher="look", hooks=[mine], timeout=5)
    theirs: dict[Any, list[HookMatcher]] = {"PreToolUse": [matcher], "Notification": [matcher]}
    options = ClaudeAgentOptions(hooks=theirs, max_turns=7)
    hooks = LoopGuardHooks(WritingGuard())
    once = hooks.added_to(options)
    assert theirs == {"PreToolUse": [matcher], "Notification": [matcher]}
    assert options.hooks is theirs
    assert once.max_turns == 7
    assert once.hooks is not None
    assert once.hooks["PreToolUse"][1] is matcher
    assert once.hooks["Notification"] == [matcher]
    assert hooks.added_to(once) == once
    other = LoopGuardHooks(WritingGuard()).added_to(once).hooks or {}
    assert [len(found) for found in other.values()] == [3, 1, *[2] * 7]
    assert hooks.added_to().hooks


def test_the_users_hooks_are_called_too() -> None:
    seen: list[str] = []

    async def mine(event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        seen.append(event["hook_event_name"])
        text = {"hookEventName": event["hook_event_name"], "additionalContext": "mine"}
        return {"hookSpecificOutput": text} if event["hook_event_name"] == "PostToolUse" else {}

    guard = WritingGuard()
    events: list[Any] = ["PreToolUse", "PostToolUse", "Notification", "Stop"]
    said = talk(
        LoopGuardHooks(guard),
        looks(6),
        tools=[look],
        hooks={event: [HookMatcher(hooks=[mine])] for event in events},
    )
    assert actions(guard) == LADDER
    assert seen == [*["PreToolUse", "PostToolUse"] * 5, "PreToolUse", "Stop"]
    message = guard.of("before")[3].verdict.message or "?"
    assert "mine" in said.answers["c4"]
    assert message in said.answers["c4"]
    assert "mine" in said.answers["c5"]
    assert message not in said.answers["c5"]


def test_a_call_that_another_hook_refuses_is_a_failure() -> None:
    async def deny(event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        reason = {"permissionDecision": "deny", "permissionDecisionReason": "not allowed"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **reason}}

    guard = WritingGuard()
    said = talk(
        LoopGuardHooks(guard),
        looks(6),
        tools=[look],
        hooks={"PreToolUse": [HookMatcher(hooks=[deny])]},
    )
    assert actions(guard) == LADDER
    assert {told.error for told in guard.of("after")} == {said.answers["c1"]}
    assert len(guard.of("after")) == 5
    assert (guard.of("before")[3].verdict.message or "?") in said.answers["c4"]


@pytest.mark.parametrize("kind", ["deny", "interrupt", "allow"])
def test_what_a_person_does_not_permit_is_a_failure(kind: str) -> None:
    asked: list[str] = []

    async def permit(name: str, arguments: Any, context: Any) -> Any:
        asked.append(name)
        if kind == "allow":
            return PermissionResultAllow()
        return PermissionResultDeny(message="the person says no", interrupt=kind == "interrupt")

    guard = WritingGuard()
    said = talk(
        LoopGuardHooks(guard), looks(6), "go", "again", tools=[look], allowed_tools=[], can_use_tool=permit
    )
    if kind == "interrupt":
        assert [told.call_id for told in guard.of("before")] == ["c1", "c2"]
        assert len({told.run_id for told in guard.of("before")}) == 2
        assert guard.of("after") == []
        return
    assert actions(guard) == LADDER
    assert len(asked) == 5
    errors = {told.error for told in guard.of("after")}
    assert errors == ({None} if kind == "allow" else {"the person says no"})
    assert (guard.of("before")[3].verdict.message or "?") in said.answers["c4"]
    assert (guard.of("before")[5].verdict.message or "?") in said.answers["c6"]


def test_a_guard_that_raises_is_logged_in_hooks_and_raises_in_the_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran: list[str] = []

    def look(query: str) -> str:
        """Look something up."""
        ran.append(query)
        return f"nothing about {query}"

    guard = WritingGuard(on_error="raise")
    del guard._runs
    with caplog.at_level(logging.ERROR, logger="loopwarden"), pytest.raises(AttributeError):
        talk(LoopGuardHooks(guard), looks(2), tools=[look])
    assert ran == ["a", "a"]
    assert {record.getMessage().split(":")[0] for record in caplog.records} == {
        "fault in a hook of the guard"
    }


# --- tools


def test_built_in_tools_are_seen(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here\n", encoding="utf-8")
    guard = WritingGuard()
    reads = [[calling("Read", {"file_path": str(tmp_path / "notes.txt")}, f"r{at}")] for at in range(9)]
    said = talk(LoopGuardHooks(guard), reads, folder=tmp_path, allowed_tools=["Read"])
    assert "block" in actions(guard)
    assert {told.tool for told in guard.of("before")} == {"Read"}
    refused = next(told for told in guard.of("before") if told.verdict.action == "block")
    assert (refused.verdict.message or "?") in said.answers[refused.call_id or ""]


def test_what_is_new_in_each_result_is_no_progress() -> None:
    """The host keeps a long output in a file with a name that is new each time."""
    guard = WritingGuard()
    script = [[calling("Bash", {"command": "seq 1 30000"}, f"b{at}")] for at in range(6)]
    talk(LoopGuardHooks(guard), script, allowed_tools=["Bash"])
    assert actions(guard) == LADDER


def test_a_command_that_fails_is_a_failure() -> None:
    guard = WritingGuard()
    script = [[calling("Bash", {"command": "echo no; exit 3"}, f"b{at}")] for at in range(6)]
    talk(LoopGuardHooks(guard), script, allowed_tools=["Bash"])
    assert actions(guard) == LADDER
    assert {told.error for told in guard.of("after")} == {"Exit code 3\nno"}


def test_arguments_that_a_built_in_tool_does_not_take_are_seen() -> None:
    guard = WritingGuard()
    script = [
        [calling("Read", {"path": "a"}, f"r{at}"), calling("look", {"query": str(at)}, f"c{at}")]
        for at in range(6)
    ]
    said = talk(LoopGuardHooks(guard), script, tools=[look])
    reads = [told for told in guard.of("before") if told.tool == "Read"]
    assert [told.verdict.action for told in reads] == LADDER
    errors = [str(told.error) for told in guard.of("after") if (told.call_id or "").startswith("r")]
    assert len(errors) == 5
    assert all("file_path" in error for error in errors)
    assert all(told.unknown_tool is None for told in guard.of("after"))
    assert (reads[5].verdict.message or "?") in said.answers["r5"]
    turns = [told.turn_id for told in guard.of("before")]
    assert len(set(turns)) == 6


def test_unknown_tools_end_the_run() -> None:
    guard = WritingGuard(ABORTING)
    said = talk(LoopGuardHooks(guard), [[calling("nope", {"x": 1}, f"u{at}")] for at in range(6)])
    assert isinstance(said.aborted[0], LoopAborted)
    assert said.aborted[0].verdict.detector == "unknown_tool_repeat"
    assert len(said.requests) < 6
