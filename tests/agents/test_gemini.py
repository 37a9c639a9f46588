"""The real Gemini CLI with the hook and a scripted model: `scripts/check-agents gemini`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.agents.gemini_program import run, settings, shell
from tests.agents.model_server import DONE, Call, Reply, asks
from tests.agents.place import LOOK, LOOSE, program
from tests.agents.recordings import compare
from tests.agents.telling import AFTER_COMPACTION, REFUSED, RUN_ENDS, WARNED, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agents.model_server import Request
    from tests.agents.place import Ended, Place

GEMINI = program("gemini")

COMPACTING = {"disableLoopDetection": True, "compressionThreshold": 0.001}
"""Compaction above about 1,000 tokens; the program counts about four characters for one."""

LONG = Reply("So much is known by now. " * 400)


def looping(times: int) -> list[Reply]:
    return [asks(shell(LOOK)) for _ in range(times)]


def last_line(ended: Ended) -> str:
    return ended.err.strip().splitlines()[-1]


def test_a_looping_model_is_warned_refused_and_ended(place: Place) -> None:
    ended, server = run(place, GEMINI, looping(8))
    requests = server.requests
    assert len(requests) == 5  # nothing is asked after the end
    assert WARNED not in requests[2].text
    output, note = said(requests[3], "call_3_1").split("<hook_context>")
    assert "Output: the same" in output
    assert WARNED in note
    assert REFUSED in said(requests[4], "call_4_1")
    assert "loopwarden allow" not in requests[4].text
    assert place.ran == 3
    assert (ended.code, ended.out.strip()) == (0, "")
    assert last_line(ended).startswith("Agent execution stopped: ")
    assert RUN_ENDS in last_line(ended)
    assert "loopwarden refused a call: run_shell_command, 3 times" in ended.err  # for the person
    assert "loopwarden ended the run: run_shell_command, 4 times" in ended.err


def test_a_good_session_is_untouched(place: Place) -> None:
    script = [asks(shell(f"echo {number}")) for number in range(3)]
    script += [asks(shell("echo a"), shell("echo b"), text="Two."), asks(shell("exit 3"))]
    script += [asks(Call("read_file", {"file_path": "none"})), asks(Call("no_such_tool", {}))]
    alone = run(place, GEMINI, script, guarded=False)
    guarded = run(place, GEMINI, script)
    assert guarded[0].out == alone[0].out
    assert [_plain(r) for r in guarded[1].requests] == [_plain(r) for r in alone[1].requests]
    assert len(place.events("AfterTool")) == 7


def _plain(request: Request) -> Any:
    """A request without what is another one in each run."""
    return json.loads(re.sub(r"Process Group PGID: \d+", "-", request.text))


def test_a_loop_after_a_compaction_is_ended(place: Place) -> None:
    place.configure(LOOSE)
    run(place, GEMINI, [*looping(1), LONG], model=COMPACTING)
    ended, server = run(place, GEMINI, looping(6), "--resume", "latest", model=COMPACTING)
    assert [request.asks_for_summary for request in server.requests] == [True, True, False, False, False]
    assert place.ran == 4  # one before the compaction, and three after it
    assert last_line(ended).startswith(f"Agent execution stopped: {AFTER_COMPACTION}")
    assert (ended.code, ended.out.strip()) == (0, "")


def test_without_a_compaction_nothing_is_armed(place: Place) -> None:
    place.configure(LOOSE)
    ended, _ = run(place, GEMINI, looping(5))
    assert place.ran == 5
    assert (ended.code, ended.out.strip()) == (0, DONE)
    assert "loopwarden" not in ended.err
    assert len(place.events("PreCompress")) == 6  # one before each request, whatever happens


def test_calls_of_one_reply_count_once(place: Place) -> None:
    _, server = run(place, GEMINI, [asks(*[shell(LOOK)] * 3), asks(*[shell(LOOK)] * 3)])
    assert place.ran == 6
    assert all("the same" in said(server.requests[-1], f"call_2_{number}") for number in (1, 2, 3))
    assert WARNED not in server.requests[-1].text


def test_a_tool_that_does_not_exist_reaches_no_hook(place: Place) -> None:
    script = [asks(Call("no_such_tool", {"a": number})) for number in range(3)]
    ended, server = run(place, GEMINI, [*script, asks(Call("read_file", {}))])
    assert 'Tool \\"no_such_tool\\" not found' in said(server.requests[-1], "call_3_1")
    assert "must have required property" in said(server.requests[-1], "call_4_1")
    assert place.events("BeforeTool") == []
    assert (ended.code, ended.out.strip()) == (0, DONE)


def delegating(calls: int) -> Callable[[Request], Reply]:
    """A model whose sub-agent looks at the same again and again, and who then does so itself."""
    asked = {True: 0, False: 0}

    def script(request: Request) -> Reply:
        main = '"invoke_agent"' in json.dumps(request.body.get("tools"))
        asked[main] += 1
        if main and asked[main] == 1:
            return asks(Call("invoke_agent", {"agent_name": "generalist", "prompt": "LOOK DEEPER"}))
        if main:
            return asks(shell(LOOK)) if asked[main] < 4 else Reply(DONE)
        found = {"result": {"response": "Found."}}
        return asks(shell(LOOK)) if asked[main] <= calls else asks(Call("complete_task", found))

    return script


def test_a_sub_agent_is_of_the_same_run_and_is_not_ended(place: Place) -> None:
    ended, server = run(place, GEMINI, delegating(5))
    texts = [request.text for request in server.requests]
    assert any(REFUSED in text for text in texts)
    assert any("Found." in text for text in texts)  # its run goes on, and every call of it is refused
    assert place.ran == 3
    assert {event["session_id"] for event in place.events("BeforeTool")} == {
        place.events("SessionStart")[0]["session_id"]
    }
    assert "Agent execution stopped by hook" in ended.err  # the main agent is ended at its next call


def test_what_is_installed_guards_and_is_removed_without_a_trace(place: Place) -> None:
    path = place.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    before = json.dumps(settings(place, guarded=False), indent=3)
    path.write_text(before, encoding="utf-8")
    place.loopwarden("install", "gemini")
    ended, server = run(place, GEMINI, looping(6), guarded=False)
    assert (ended.code, place.ran, place.lines) == (0, 3, [])
    assert len(server.requests) == 5
    place.loopwarden("uninstall", "gemini")
    assert path.read_text(encoding="utf-8") == before


def test_the_program_sends_what_was_recorded(place: Place) -> None:
    missing = Call("read_file", {"file_path": "none"})
    run(place, GEMINI, [asks(shell("ls"), shell("exit 3")), asks(missing), LONG], model=COMPACTING)
    run(place, GEMINI, looping(4), "--resume", "latest", model=COMPACTING)
    run(place, GEMINI, delegating(1), "--resume", "latest")
    compare("gemini", place)
