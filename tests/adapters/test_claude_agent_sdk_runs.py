"""Claude Agent SDK: where runs begin, go on and end."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="needs claude-agent-sdk; see scripts/check-hosts")

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    ResultMessage,
    query,
)

from loopwarden.adapters import claude_agent_sdk
from loopwarden.adapters.claude_agent_sdk import LoopGuardHooks
from tests.adapters.anthropic_server import AnthropicServer, Reply, calling, saying
from tests.adapters.claude_agent_sdk_scripts import (
    ABORTING,
    FULL,
    LADDER,
    actions,
    look,
    looks,
    options_of,
    read,
    signal_of,
    talk,
    with_client,
)
from tests.adapters.writing_guard import WritingGuard

if TYPE_CHECKING:
    from pathlib import Path

    from claude_agent_sdk import ClaudeSDKClient

    from loopwarden import LoopAborted
    from tests.adapters.anthropic_server import Request

# --- the end


def test_the_last_message_comes_before_the_signal(tmp_path: Path) -> None:
    guard = WritingGuard(ABORTING)
    hooks = LoopGuardHooks(guard)
    results: list[ResultMessage] = []
    with AnthropicServer(looks(9)) as server:
        options = hooks.added_to(options_of(server, tmp_path, [look]))
        aborted = asyncio.run(signal_of(read(query(prompt="go", options=options), hooks, results)))
    assert aborted is not None
    assert [result.terminal_reason for result in results] == ["hook_stopped"]
    assert results[0].session_id == guard.of("before")[0].session_id
    assert len(guard._runs) == 0


def test_without_a_watch_the_run_ends_all_the_same(tmp_path: Path) -> None:
    guard = WritingGuard(ABORTING)
    results: list[ResultMessage] = []
    with AnthropicServer(looks(9)) as server:
        options = LoopGuardHooks(guard).added_to(options_of(server, tmp_path, [look]))
        asyncio.run(read(query(prompt="go", options=options), None, results))
    assert [result.terminal_reason for result in results] == ["hook_stopped"]
    assert len(guard.of("after")) == 5


def test_a_client_can_be_asked_again_after_the_end_of_a_run() -> None:
    guard = WritingGuard(ABORTING)
    said = talk(LoopGuardHooks(guard), [*looks(6), *looks(2, 7)], "go", "again", "and now?", tools=[look])
    assert [aborted is not None for aborted in said.aborted] == [True, False, False]
    assert [result.result for result in said.results] == ["", "done", "done"]
    assert actions(guard) == [*LADDER[:5], "abort", "allow", "allow"]
    assert len(guard._runs) == 0


def test_all_messages_of_a_client_can_be_watched(tmp_path: Path) -> None:
    guard = WritingGuard(ABORTING)
    hooks = LoopGuardHooks(guard)
    results: list[ResultMessage] = []
    aborted: list[LoopAborted | None] = []

    async def turns(client: ClaudeSDKClient) -> None:
        for prompt in ("go", "again"):
            await client.query(prompt)
            aborted.append(await signal_of(read(client.receive_messages(), hooks, results)))

    with AnthropicServer(looks(12)) as server:
        asyncio.run(with_client(hooks.added_to(options_of(server, tmp_path, [look])), turns))
    assert None not in aborted
    assert [result.terminal_reason for result in results] == ["hook_stopped"] * 2
    assert len(guard.of("before")) == 12


def test_after_an_interrupt_the_next_prompt_is_a_run_of_its_own(tmp_path: Path) -> None:
    asked = threading.Event()
    gone_on = threading.Event()

    def script(request: Request) -> list[dict[str, Any]]:
        number = len(server.requests)
        if number == 4:
            asked.set()
            gone_on.wait(30)
        return looks(1, number)[0] if number not in {4, 8} else [saying("done")]

    guard = WritingGuard()
    hooks = LoopGuardHooks(guard)
    results: list[ResultMessage] = []

    async def interrupt(client: ClaudeSDKClient) -> None:
        await asyncio.to_thread(asked.wait, 30)
        await client.interrupt()
        gone_on.set()

    async def turns(client: ClaudeSDKClient) -> None:
        await client.query("go")
        await asyncio.gather(interrupt(client), read(client.receive_response(), hooks, results))
        await client.query("again")
        await read(client.receive_response(), hooks, results)

    server = AnthropicServer(script)
    with server:
        asyncio.run(with_client(hooks.added_to(options_of(server, tmp_path, [look])), turns))
    assert [result.terminal_reason for result in results] == ["aborted_streaming", "completed"]
    assert actions(guard) == ["allow"] * 6
    runs = [told.run_id for told in guard.of("before")]
    assert runs[:3] == runs[:1] * 3
    assert runs[3:] == runs[-1:] * 3
    assert runs[0] != runs[-1]


def test_a_stop_by_another_hook_is_no_signal() -> None:
    async def stop(event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        return {"continue_": False, "stopReason": "enough"}

    guard = WritingGuard()
    said = talk(
        LoopGuardHooks(guard), looks(3), tools=[look], hooks={"PostToolUse": [HookMatcher(hooks=[stop])]}
    )
    assert [result.terminal_reason for result in said.results] == ["hook_stopped"]
    assert said.aborted == [None]


def test_a_failure_after_a_compaction_ends_the_run() -> None:
    """The host does not take an end of the run from the hook for failures."""

    def fails(query: str) -> str:
        """Fail."""
        raise RuntimeError("no")

    guard = WritingGuard()
    calls = [calling("fails", {"query": "a"}, f"f{number}") for number in range(8)]
    script = [Reply([call], FULL if number == 1 else 10) for number, call in enumerate(calls)]
    said = talk(LoopGuardHooks(guard), script, tools=[fails])
    assert said.aborted[0] is not None
    assert said.aborted[0].verdict.error == "compaction_loop_persisted"
    assert len(guard.of("after")) == 5


def test_the_loop_of_a_caller_that_breaks_off_is_closed(tmp_path: Path) -> None:
    hooks = LoopGuardHooks(WritingGuard())
    closed: list[bool] = []

    async def messages() -> Any:
        try:
            for _ in range(9):
                yield "message"
        finally:
            closed.append(True)

    async def some() -> None:
        watched = hooks.watch(messages())
        async for _ in watched:
            break
        await watched.aclose()

    asyncio.run(some())
    assert closed == [True]


# --- runs


def test_each_prompt_is_a_run() -> None:
    guard = WritingGuard()
    talk(LoopGuardHooks(guard), [*looks(2), [saying("x")], *looks(2, 3)], "go", "again", tools=[look])
    runs = [told.run_id for told in guard.of("before")]
    assert runs[0] == runs[1] != runs[2] == runs[3]
    assert len({told.session_id for told in guard.told}) == 1
    assert len(guard._runs) == 0


def test_a_hook_that_sends_the_agent_back_goes_on_with_the_run() -> None:
    async def back(event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        return {} if event["stop_hook_active"] else {"decision": "block", "reason": "the tests fail"}

    guard = WritingGuard()
    talk(
        LoopGuardHooks(guard),
        [*looks(3), [saying("x")], *looks(3, 4)],
        tools=[look],
        hooks={"Stop": [HookMatcher(hooks=[back])]},
    )
    assert actions(guard) == LADDER
    assert len({told.run_id for told in guard.told}) == 1


def test_a_message_during_a_run_lets_a_refused_call_try_again(tmp_path: Path) -> None:
    asked, written = threading.Event(), threading.Event()

    def script(request: Request) -> list[dict[str, Any]]:
        number = len(server.requests)
        if number == 7:
            asked.set()
            written.wait(30)
        return looks(1, number)[0] if number < 9 else [saying("done")]

    guard = WritingGuard()
    hooks = LoopGuardHooks(guard)
    results: list[ResultMessage] = []

    async def write(client: ClaudeSDKClient) -> None:
        await asyncio.to_thread(asked.wait, 30)
        await client.query("it is there now")
        written.set()

    async def turns(client: ClaudeSDKClient) -> None:
        await client.query("go")
        await asyncio.gather(write(client), read(client.receive_response(), hooks, results))

    server = AnthropicServer(script)
    with server:
        asyncio.run(with_client(hooks.added_to(options_of(server, tmp_path, [look])), turns))
    assert actions(guard) == [*LADDER, "block", "warn"]
    assert len({told.run_id for told in guard.told}) == 1
    assert [told.call_id for told in guard.of("after")][-1] == "c8"


def test_a_call_that_is_put_off_counts_once(tmp_path: Path) -> None:
    waits = [True]

    async def later(event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        answer = {"hookEventName": "PreToolUse", "permissionDecision": "defer"}
        return {"hookSpecificOutput": answer} if waits and tool_use_id == "c3" else {}

    guard = WritingGuard()
    hooks = LoopGuardHooks(guard)
    results: list[ResultMessage] = []
    with AnthropicServer(looks(6)) as server:
        options = options_of(server, tmp_path, [look], hooks={"PreToolUse": [HookMatcher(hooks=[later])]})
        options = hooks.added_to(options)
        asyncio.run(read(query(prompt="go", options=options), hooks, results))
        assert results[0].deferred_tool_use is not None
        waits.clear()
        options.resume = results[0].session_id

        async def goes_on(client: ClaudeSDKClient) -> None:
            await read(client.receive_response(), hooks, results)

        asyncio.run(with_client(options, goes_on))
    assert results[1].result == "done"
    assert [told.call_id for told in guard.of("after")] == ["c1", "c2", "c3", "c4", "c5"]
    assert [told.verdict.action for told in guard.of("before") if told.call_id == "c6"] == ["block"]
    assert len({told.run_id for told in guard.told}) == 1


def test_two_sessions_at_once(tmp_path: Path) -> None:
    guard = WritingGuard()
    hooks = LoopGuardHooks(guard)
    results: list[ResultMessage] = []

    async def both(one: ClaudeAgentOptions, two: ClaudeAgentOptions) -> None:
        await asyncio.gather(
            *(read(query(prompt="go", options=options), hooks, results) for options in (one, two))
        )

    with AnthropicServer(looks(4)) as one, AnthropicServer(looks(4)) as two:
        options = [hooks.added_to(options_of(server, tmp_path, [look])) for server in (one, two)]
        asyncio.run(both(*options))
    assert [result.result for result in results] == ["done"] * 2
    sessions: dict[str | None, list[str]] = {}
    for told in guard.of("before"):
        sessions.setdefault(told.session_id, []).append(told.verdict.action)
    assert list(sessions.values()) == [LADDER[:4]] * 2


def test_sessions_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_agent_sdk, "_SESSIONS", 3)
    guard = WritingGuard()
    hooks = LoopGuardHooks(guard)
    for number in range(9):
        event = {"session_id": f"s{number}", "prompt_id": "p", "hook_event_name": "PreToolUse"}
        call = {"tool_name": "look", "tool_input": {}, "tool_use_id": "c1"}
        assert asyncio.run(hooks._hook(event | call, "c1", {"signal": None})) == {}
    assert list(hooks._sessions) == ["s6", "s7", "s8"]
    assert len(guard._runs) == 3
