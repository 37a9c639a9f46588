"""The real Qwen Code with the hook and a scripted model: `scripts/check-agents qwen`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.agents.model_server import DONE, Call, Reply, asks
from tests.agents.place import LOOK, LOOSE, TIGHTER, program
from tests.agents.qwen_program import run, settings, shell
from tests.agents.recordings import compare
from tests.agents.telling import AFTER_COMPACTION, REFUSED, RUN_ENDS, SOFTLY_ENDED, WARNED, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agents.chat_server import ChatRequest
    from tests.agents.model_server import Request
    from tests.agents.place import Place

QWEN = program("qwen")

SMALL = {"generationConfig": {"contextWindowSize": 100_000}}
"""The program compacts above 70,000 tokens, and gives up above 77,000."""

NEARLY_FULL = 76_000


def looping(times: int, **more: Any) -> list[Reply]:
    """The program itself stops the fifth call in a row that is the same."""
    return [asks(shell(LOOK), **more) for _ in range(times)]


def test_a_looping_model_is_warned_refused_and_ended(place: Place) -> None:
    place.configure(TIGHTER)
    ended, server = run(place, QWEN, looping(8))
    requests = server.requests
    assert len(requests) == 4  # nothing is asked after the end
    assert WARNED not in requests[1].text
    assert "Output: the same" in said(requests[2], "call_2_1")
    assert WARNED in said(requests[2], "call_2_1")
    assert REFUSED in said(requests[3], "call_3_1")
    assert "loopwarden allow" not in requests[3].text
    assert place.ran == 2
    assert (ended.code, ended.out.strip()) == (0, "")
    assert f'Tool "run_shell_command" was not run: {said(requests[3], "call_3_1")}' in ended.err
    assert RUN_ENDS in ended.err
    assert "Loop detection halted" not in ended.err  # that would have been the program's own


def test_the_next_message_of_the_user_is_another_run(place: Place) -> None:
    place.configure(TIGHTER)
    run(place, QWEN, looping(5))
    assert place.ran == 2
    ended, _ = run(place, QWEN, [asks(shell(LOOK, f"again{n}")) for n in (1, 2)], "--continue")
    assert (ended.code, ended.out.strip(), place.ran) == (0, DONE, 4)
    sent = place.events("PreToolUse")
    assert len({event["session_id"] for event in sent}) == 1
    assert len({event["prompt_id"] for event in sent}) == 2


def test_a_good_session_is_untouched(place: Place) -> None:
    file = Call("read_file", {"file_path": str(place.project / "loopwarden.json5")})
    script = [asks(shell("echo 1")), asks(shell("exit 3")), asks(shell("echo 2"))]
    script += [asks(file, Call("glob", {"pattern": "*"}), text="Two."), asks(Call("no_such_tool", {}))]
    script += [asks(shell("echo 3")), asks(Call("read_file", {"file_path": "/none"}))]
    alone = run(place, QWEN, script, guarded=False)
    guarded = run(place, QWEN, script)
    assert guarded[0].out == alone[0].out
    assert [_plain(r) for r in guarded[1].requests] == [_plain(r) for r in alone[1].requests]
    assert len(place.events("PostToolUse")) == 5
    assert len(place.events("PostToolUseFailure")) == 2


def _plain(request: Request) -> Any:
    """A request without what is another one in each run."""
    body = {name: value for name, value in request.body.items() if name != "metadata"}
    return json.loads(re.sub(r"Process Group PGID: \d+", "-", json.dumps(body)))


def test_a_loop_after_a_compaction_is_ended(place: Place) -> None:
    place.configure(LOOSE)
    script = [asks(shell("seq 300")), *looping(1, tokens=NEARLY_FULL), *looping(5)]
    ended, server = run(place, QWEN, script, model=SMALL)
    assert [request.asks_for_summary for request in server.requests].index(True) == 2
    assert place.ran == 4  # one before the compaction, and three after it
    assert len(server.requests) == 6
    assert (ended.code, ended.out.strip()) == (0, "")
    assert "Loop detection halted" not in ended.err
    ends = [line["answer"] for line in place.lines if line["answer"]]
    assert ends[-1]["stopReason"].startswith(AFTER_COMPACTION)
    assert [event["trigger"] for event in place.events("PostCompact")] == ["auto"]
    assert len({event["prompt_id"] for event in place.events("PreToolUse")}) == 1


def test_without_a_compaction_nothing_is_armed(place: Place) -> None:
    place.configure(LOOSE)
    ended, server = run(place, QWEN, looping(4), model=SMALL)
    assert place.ran == 4
    assert (ended.code, ended.out.strip()) == (0, DONE)
    assert WARNED not in server.requests[-1].text


def test_calls_of_one_reply_count_once(place: Place) -> None:
    """The program runs such commands one after the other, each as a batch of its own."""
    script = [asks(shell("ls")), asks(shell(LOOK), shell("pwd"), shell(LOOK)), asks(shell("ls -a"))]
    _, server = run(place, QWEN, script)
    assert place.ran == 2
    assert all("Output: the same" in said(server.requests[-1], f"call_2_{number}") for number in (1, 3))
    assert WARNED not in server.requests[-1].text
    assert len(place.events("PostToolBatch")) == 5


def test_a_tool_that_does_not_exist_is_seen(place: Place) -> None:
    place.configure({**TIGHTER, "unknownToolThreshold": 3})
    calls = [asks(Call("no_such_tool", {"a": number})) for number in range(8)]
    ended, server = run(place, QWEN, calls)
    assert place.events("PreToolUse") == []
    assert "not found in registry" in said(server.requests[-1], "call_1_1")
    assert REFUSED in said(server.requests[-1], "call_3_1")
    assert len(server.requests) < 7
    assert (ended.code, ended.out.strip()) == (0, "")


def delegating(calls: int) -> Callable[[ChatRequest], Reply]:
    """A model whose sub-agent looks at the same again and again, and who then does so itself."""
    asked = {True: 0, False: 0}

    def script(request: ChatRequest) -> Reply:
        main = not any(m["role"] == "user" and "LOOK DEEPER" in str(m) for m in request.messages)
        asked[main] += 1
        task = {"description": "look", "prompt": "LOOK DEEPER", "subagent_type": "general-purpose"}
        if main and asked[main] == 1:
            return asks(Call("agent", {**task, "run_in_background": False}, "agent"))
        number = asked[main] - (1 if main else 0)
        name = "main" if main else "child"
        return asks(shell(LOOK, f"{name}{number}")) if number <= calls else Reply(DONE)

    return script


def test_a_sub_agent_is_a_run_of_its_own(place: Place) -> None:
    place.configure(TIGHTER)
    ended, server = run(place, QWEN, delegating(4))
    answers = {key: answer for request in server.requests for key, answer in request.answers.items()}
    assert REFUSED in answers["child3"][0]
    assert SOFTLY_ENDED in answers["child4"][0]  # the program tells of no request of a sub-agent
    assert REFUSED in answers["main3"][0]
    assert "main4" not in answers
    assert place.ran == 4
    assert {event.get("agent_id") is None for event in place.events("PostToolUse")} == {True, False}
    assert ended.code == 0


def test_what_is_installed_guards_and_is_removed_without_a_trace(place: Place) -> None:
    place.configure(TIGHTER)
    path = place.home / ".qwen" / "settings.json"
    path.parent.mkdir()
    before = json.dumps(settings(place, guarded=False), indent=3)
    path.write_text(before, encoding="utf-8")
    place.loopwarden("install", "qwen")
    ended, server = run(place, QWEN, looping(6), guarded=False)
    assert (ended.code, place.ran, place.lines) == (0, 2, [])
    assert len(server.requests) == 4
    place.loopwarden("uninstall", "qwen")
    assert path.read_text(encoding="utf-8") == before


def test_the_program_sends_what_was_recorded(place: Place) -> None:
    place.configure(TIGHTER)
    script = [asks(shell("ls"), shell("exit 3")), asks(Call("no_such_tool", {}), tokens=NEARLY_FULL)]
    run(place, QWEN, [*script, *looping(4)], model=SMALL)
    run(place, QWEN, delegating(1), "--continue")
    compare("qwen", place)
