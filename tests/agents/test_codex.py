"""The real Codex CLI with the hook and a scripted model: `scripts/check-agents codex`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.agents.codex_program import register, run, shell
from tests.agents.model_server import DONE, Call, Reply, asks
from tests.agents.place import LOOK, LOOSE, program
from tests.agents.recordings import compare
from tests.agents.telling import AFTER_COMPACTION, REFUSED, SOFTLY_ENDED, WARNED, said

if TYPE_CHECKING:
    from tests.agents.place import Place
    from tests.agents.responses_server import ResponsesRequest

CODEX = program("codex")

IDENTITIES = {"prompt_cache_key", "client_metadata"}
"""Fields of a request that name the session."""


def looping(times: int, **more: Any) -> list[Reply]:
    return [asks(shell(LOOK), **more) for _ in range(times)]


def test_a_looping_model_is_warned_refused_and_gets_nothing_more(place: Place) -> None:
    register(place)
    ended, server = run(place, CODEX, looping(7))
    requests = server.requests
    assert [len(request.notes) for request in requests] == [0, 0, 0, 1, 1, 1, 1, 1]
    assert WARNED in requests[3].notes[0]
    assert "the same" in said(requests[3], "call_3_1")
    assert REFUSED in said(requests[4], "call_4_1")
    assert all(SOFTLY_ENDED in said(requests[-1], f"call_{number}_1") for number in (5, 6, 7))
    assert "loopwarden allow" not in requests[-1].text  # only a person is told
    assert place.ran == 3
    assert (ended.code, ended.out.strip()) == (0, DONE)  # a hook can't end the run of this host
    assert "hook: PreToolUse Blocked" in ended.err


def test_the_next_message_of_the_user_is_another_run(place: Place) -> None:
    register(place)
    run(place, CODEX, looping(5))
    assert place.ran == 3
    ended, server = run(place, CODEX, looping(2), "resume", "--last")
    assert (ended.code, place.ran) == (0, 5)
    assert len(server.requests) == 3
    sent = place.events("PreToolUse")
    assert len({event["session_id"] for event in sent}) == 1
    assert len({event["turn_id"] for event in sent}) == 2


def test_a_good_session_is_untouched(place: Place) -> None:
    script = [asks(shell(f"echo {number}")) for number in range(4)]
    script += [asks(shell("echo a"), shell("echo b")), asks(shell("exit 3"), text="Hm.")]
    script += [asks(Call("no_such_tool", {}))]
    alone = run(place, CODEX, script)
    register(place)
    guarded = run(place, CODEX, script)
    assert guarded[0].out == alone[0].out
    assert [_plain(r) for r in guarded[1].requests] == [_plain(r) for r in alone[1].requests]
    assert len(place.events("PostToolUse")) == 7


def _plain(request: Any) -> Any:
    """A request without what is another one in each run."""
    body = {name: value for name, value in request.body.items() if name not in IDENTITIES}
    text = json.dumps({**body, "input": [{**item, "id": ""} for item in request.items]})
    return json.loads(re.sub(r"Chunk ID: \w+|Wall time: [\d.]+", "-", text))


def test_a_loop_after_a_compaction_is_ended(place: Place) -> None:
    place.configure(LOOSE)
    register(place)
    script = [asks(shell("ls")), *looping(1, tokens=9000), *looping(5)]
    ended, server = run(place, CODEX, script)
    assert [request.asks_for_summary for request in server.requests].index(True) == 2
    assert place.ran == 4  # one before the compaction, and three after it
    assert AFTER_COMPACTION in server.requests[-1].notes[0]
    assert all(SOFTLY_ENDED in said(server.requests[-1], f"call_{number}_1") for number in (7, 8))
    assert (ended.code, ended.out.strip()) == (0, DONE)
    assert [event["trigger"] for event in place.events("PostCompact")] == ["auto"]
    turns = {line["event"]["turn_id"] for line in place.lines if "turn_id" in line["event"]}
    assert len(turns) == 1  # it goes on within the answer to one message


def test_without_a_compaction_nothing_is_armed(place: Place) -> None:
    place.configure(LOOSE)
    register(place)
    _, server = run(place, CODEX, looping(6))
    assert place.ran == 6
    assert server.requests[-1].notes == []


def test_calls_of_one_reply_count_once(place: Place) -> None:
    register(place)
    _, server = run(place, CODEX, [asks(*[shell(LOOK)] * 3), asks(*[shell(LOOK)] * 3)])
    assert place.ran == 6
    assert server.requests[-1].notes == []
    assert all("the same" in said(server.requests[-1], f"call_2_{number}") for number in (1, 2, 3))


def test_a_tool_that_does_not_exist_reaches_no_hook(place: Place) -> None:
    register(place)
    ended, server = run(place, CODEX, [asks(Call("no_such_tool", {"a": 1})) for _ in range(6)])
    assert said(server.requests[-1], "call_6_1") == "unsupported call: no_such_tool"
    assert place.events("PreToolUse") == []
    assert ended.code == 0


def delegating(place_of_loop: list[str], calls: int) -> Any:
    """A model whose sub-agent, and then itself, looks at the same again and again."""

    def script(request: ResponsesRequest) -> Reply:
        users = [json.dumps(item) for item in request.items if item.get("role") == "user"]
        agent = "child" if any("LOOK DEEPER" in text for text in users) else "main"
        place_of_loop.append(agent)
        number = place_of_loop.count(agent)
        if agent == "main" and number == 1:
            return asks(Call("multi_agent_v1/spawn_agent", {"message": "LOOK DEEPER"}, "spawn"))
        if agent == "main" and number == 2:
            child = json.loads(request.answers["spawn"][0])["agent_id"]
            return asks(Call("multi_agent_v1/wait_agent", {"targets": [child], "timeout_ms": 30000}, "wait"))
        looked = number - (2 if agent == "main" else 0)
        return asks(shell(LOOK, f"{agent}{looked}")) if looked <= calls else Reply(DONE)

    return script


def test_a_hook_that_nobody_trusts_does_not_run(place: Place) -> None:
    register(place)
    ended, _ = run(place, CODEX, looping(5), trusted=False)
    assert (ended.code, place.ran, place.lines) == (0, 5, [])
    assert "trust" not in ended.err  # and nothing is said about it


def test_calls_that_can_not_be_read_reach_no_hook(place: Place) -> None:
    register(place)
    _, server = run(place, CODEX, [asks(Call("exec_command", {}))])
    assert "missing field `cmd`" in said(server.requests[-1], "call_1_1")
    assert place.events("PreToolUse") == []


def test_a_sub_agent_is_a_run_of_its_own(place: Place) -> None:
    register(place)
    _, server = run(place, CODEX, delegating([], 4))
    last = {key: request for request in server.requests for key in request.answers if key[-1] == "4"}
    assert sorted(last) == ["child4", "main4"]
    for agent in ("child", "main"):
        assert WARNED in last[f"{agent}4"].notes[0]
        assert REFUSED in said(last[f"{agent}4"], f"{agent}4")
    assert place.ran == 6
    assert {event.get("agent_id") is None for event in place.events("PostToolUse")} == {True, False}


def test_what_is_installed_guards_and_is_removed_without_a_trace(place: Place) -> None:
    place.loopwarden("install", "codex")
    ended, server = run(place, CODEX, looping(6))
    assert (ended.code, place.ran, place.lines) == (0, 3, [])
    assert SOFTLY_ENDED in said(server.requests[-1], "call_6_1")
    place.loopwarden("uninstall", "codex")
    assert not (place.home / ".codex" / "hooks.json").exists()


def test_the_program_sends_what_was_recorded(place: Place) -> None:
    register(place)
    run(place, CODEX, [asks(shell("ls"), shell("exit 3")), *looping(1, tokens=9000), *looping(4)])
    run(place, CODEX, delegating([], 1), "resume", "--last")
    compare("codex", place)
