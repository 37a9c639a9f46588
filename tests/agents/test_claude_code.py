"""The real Claude Code with the hook and a scripted model: `scripts/check-agents claude-code`."""

from __future__ import annotations

import itertools
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.adapters.anthropic_server import DONE, SUMMARY, Reply, Request, blocks_of, calling, saying, text_of
from tests.agents.claude_code_program import (
    HOST,
    ask,
    bash,
    done,
    in_a_terminal,
    looks,
    register,
    result,
    run,
    settings,
)
from tests.agents.place import HOOK, LOOK, LOOSE, program
from tests.agents.recordings import compare
from tests.agents.telling import AFTER_COMPACTION, REFUSED, WARNED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.adapters.anthropic_server import Block
    from tests.agents.place import Place

CLAUDE = program(HOST)

FULL = 99_000
"""As many tokens as make the program compact, with the window that the server's environment sets."""


# --- the ladder


def test_a_looping_model_is_warned_refused_and_ended(place: Place) -> None:
    register(place)
    ended, server = run(place, CLAUDE, looks(9))
    answers = [server.requests[-1].answers[f"toolu_{number}"] for number in range(1, 5)]
    assert answers[:2] == ["the same", "the same"]
    assert answers[2].startswith("the same\n")
    assert WARNED in answers[2]
    assert WARNED in server.requests[3].answers["toolu_3"]  # the very next request
    assert answers[3].count(REFUSED) == 1
    assert "loopwarden allow" not in json.dumps(server.requests[-1].body)  # only a person is told
    assert len(server.requests) == 5
    assert place.ran == 3
    assert ended.code == 0
    last = result(ended)
    assert (last["terminal_reason"], last["is_error"], last["result"]) == ("hook_stopped", False, "")
    assert [action for action, _ in done(place)] == ["warn", "block", "abort"]
    denied = [line for line in place.lines if line["event"].get("tool_use_id") == "toolu_5"]
    assert [line["answer"]["continue"] for line in denied] == [False]
    assert denied[0]["answer"]["hookSpecificOutput"]["permissionDecision"] == "deny"


def plain(request: Request) -> list[dict[str, Any]]:
    """The history of a request; results of one reply stand in the order in which the tools were done."""
    messages = [{**message, "content": blocks_of(message["content"])} for message in request.messages]
    for message in messages:
        message["content"] = sorted(message["content"], key=lambda block: block.get("tool_use_id", ""))
        for block in message["content"]:
            block.pop("cache_control", None)  # stands in the last one
    return messages


def test_a_good_session_is_untouched(place: Place) -> None:
    script: list[list[Block]] = [[bash(f"toolu_{number}", f"echo {number}")] for number in range(4)]
    script += [[bash("toolu_a", "echo a"), bash("toolu_b", "echo b")], [bash("toolu_f", "exit 3")]]
    script += [[calling("NoSuchTool", {}, "toolu_n")], [calling("Read", {"path": "x"}, "toolu_r")]]
    place.configure(LOOSE)
    alone = run(place, CLAUDE, script)
    register(place)
    guarded = run(place, CLAUDE, script)
    assert result(guarded[0])["result"] == result(alone[0])["result"] == DONE
    assert [plain(one) for one in guarded[1].requests] == [plain(one) for one in alone[1].requests]
    assert {json.dumps(line["answer"]) for line in place.lines} == {"null"}


def test_calls_of_one_reply_are_no_evidence_against_each_other(place: Place) -> None:
    place.configure({"enabled": True, "warningThreshold": 2, "criticalThreshold": 3})
    register(place)
    script = [[bash(f"toolu_{turn}_{number}") for number in range(3)] for turn in range(4)]
    _, server = run(place, CLAUDE, [[bash("toolu_0", "ls")], *script])
    answers = server.requests[-1].answers
    assert [WARNED in answers[f"toolu_{turn}_0"] for turn in range(4)] == [False, False, True, False]
    assert [REFUSED in answers[f"toolu_3_{number}"] for number in range(3)] == [True] * 3
    assert place.ran == 9


def test_what_is_sent_has_the_shape_that_was_recorded(place: Place) -> None:
    register(place)
    asked = {"description": "look", "prompt": "SUBTASK", "subagent_type": "general-purpose"}
    replies: Iterator[list[Block] | Reply] = iter(
        [
            [bash("toolu_a", "echo a"), bash("toolu_b", "echo b")],
            [bash("toolu_f", "echo no >&2; exit 3")],
            [calling("Agent", {**asked, "run_in_background": False}, "toolu_s")],
            [calling("NoSuchTool", {}, "toolu_n")],
            Reply([bash("toolu_c", "echo c")], input_tokens=FULL),
            [calling("Read", {"path": "x"}, "toolu_r")],
            *looks(5),
        ]
    )

    def script(request: Request) -> list[Block] | Reply:
        if request.asks_for_summary:
            return [saying(SUMMARY)]
        if "SUBTASK" in text_of(request.messages[0]["content"]):
            return [saying("Nothing found.")] if request.answers else [bash("toolu_i", "echo inside")]
        return next(replies)

    first, _ = run(place, CLAUDE, script)
    run(place, CLAUDE, looks(7, 11), "--resume", result(first)["session_id"], prompt="Go on.")
    compare(HOST, place)


@pytest.mark.parametrize("scope", ["--user", "--project"])
def test_what_the_command_installs_is_run(place: Place, scope: str) -> None:
    path = os.pathsep.join([str(HOOK.parent), os.environ["PATH"]])
    variables = {"CLAUDE_CONFIG_DIR": str(settings(place).parent), "PATH": path}
    loopwarden = [sys.executable, "-m", "loopwarden"]
    assert place.run([*loopwarden, "install", HOST, scope], variables).code == 0
    told = place.run([*loopwarden, "doctor", HOST], variables)
    assert (told.code, "refuses a loop" in told.out) == (0, True), told.out
    ended, _ = run(place, CLAUDE, looks(9), PATH=path)
    assert (result(ended)["terminal_reason"], place.ran) == ("hook_stopped", 3)
    assert place.run([*loopwarden, "uninstall", HOST, scope], variables).code == 0
    ended, _ = run(place, CLAUDE, looks(9), PATH=path)
    assert (result(ended)["result"], place.ran) == (DONE, 12)


# --- what no other hook tells of


def test_a_tool_that_does_not_exist_is_seen(place: Place) -> None:
    place.configure({"enabled": True, "unknownToolThreshold": 3})
    register(place)
    script = [[calling("Serach", {"q": str(number)}, f"toolu_{number}")] for number in range(6)]
    ended, server = run(place, CLAUDE, script)
    answers = server.requests[-1].answers
    assert [REFUSED in answers[f"toolu_{number}"] for number in range(6)] == [False] * 3 + [True] * 3
    assert "The tool Serach does not exist" in answers["toolu_3"]
    assert all("No such tool available" in answer for answer in answers.values())
    assert result(ended)["result"] == DONE
    assert {detector for _, detector in done(place)} == {"unknown_tool_repeat"}


def test_wrong_arguments_are_no_unknown_tool(place: Place) -> None:
    register(place)
    script = [[calling("Read", {"path": "x"}, f"toolu_{number}")] for number in range(9)]
    ended, server = run(place, CLAUDE, script)
    assert place.events("PreToolUse") == []
    assert "unknown_tool_repeat" not in {detector for _, detector in done(place)}
    assert result(ended)["terminal_reason"] == "hook_stopped"
    assert len(server.requests) == 5


def test_calls_without_permission_count_as_failed(place: Place) -> None:
    """Nobody is there to give it: the program denies them after the hook has let them pass."""
    place.configure({"enabled": True})
    register(place)
    script = [[bash(f"toolu_{number}", f"rm -r /nowhere/{number}")] for number in range(25)]
    flags = ("-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "default")
    run(place, CLAUDE, script, flags=flags)
    assert {event["permission_mode"] for event in place.events("PreToolUse")} == {"default"}
    assert place.events("PostToolUse") == []
    assert "repeated_failure" in {detector for _, detector in done(place)}


# --- compactions


def test_a_loop_that_outlives_a_compaction_is_ended(place: Place) -> None:
    place.configure(LOOSE)
    register(place)
    script = [looks(1)[0], Reply([bash("toolu_2")], input_tokens=FULL), *looks(9, 3)]
    ended, server = run(place, CLAUDE, script)
    assert [event["trigger"] for event in place.events("PostCompact")] == ["auto"]
    runs = {event["prompt_id"] for event in place.events("PreToolUse") + place.events("PostCompact")}
    assert len(runs) == 1  # a run outlives its compaction
    assert result(ended)["terminal_reason"] == "hook_stopped"
    assert place.ran == 5
    assert [one.asks_for_summary for one in server.requests].count(True) == 1
    assert done(place) == [("abort", "post_compaction")]
    assert place.lines[-2]["answer"]["stopReason"].startswith(AFTER_COMPACTION)


def test_so_is_one_after_a_compaction_by_hand(place: Place) -> None:
    place.configure(LOOSE)
    register(place)
    first, _ = run(place, CLAUDE, looks(2))
    resumed = ("--resume", result(first)["session_id"])
    run(place, CLAUDE, [], *resumed, prompt="/compact")
    assert [event["trigger"] for event in place.events("PostCompact")] == ["manual"]
    ended, _ = run(place, CLAUDE, looks(9, 3), *resumed, prompt="Go on.")
    assert result(ended)["terminal_reason"] == "hook_stopped"
    assert place.ran == 5
    assert len({event["prompt_id"] for event in place.events("PreToolUse")}) == 2
    assert len({event["session_id"] for event in place.events("PreToolUse")}) == 1


def test_a_compaction_that_fails_arms_nothing(place: Place) -> None:
    place.configure(LOOSE)
    register(place)
    replies = iter([looks(1)[0], Reply([bash("toolu_2")], input_tokens=FULL), *looks(4, 3)])

    def script(request: Request) -> list[Block] | Reply:
        return Reply(error=400) if request.asks_for_summary else next(replies, [saying(DONE)])

    ended, _ = run(place, CLAUDE, script)
    assert len(place.events("PreCompact")) == 1
    assert place.events("PostCompact") == []
    assert (result(ended)["result"], place.ran) == (DONE, 6)


# --- runs


def test_a_session_that_is_resumed_is_another_run(place: Place) -> None:
    register(place)
    first, _ = run(place, CLAUDE, looks(2))
    ended, _ = run(place, CLAUDE, looks(2, 3), "--resume", result(first)["session_id"], prompt="Go on.")
    assert (result(ended)["result"], place.ran, done(place)) == (DONE, 4, [])


def test_a_sub_agent_is_a_run_of_its_own(place: Place) -> None:
    ladder = {"warningThreshold": 3, "criticalThreshold": 5, "globalCircuitBreakerThreshold": 8}
    place.configure({"enabled": True, **ladder})
    register(place)
    asked = {"description": "look", "prompt": "SUBTASK", "subagent_type": "general-purpose"}
    numbers = itertools.count()

    def script(request: Request) -> list[Block]:
        if "SUBTASK" in text_of(request.messages[0]["content"]):
            return [bash(f"toolu_s{next(numbers)}")]
        calls: list[list[Block]] = [
            [bash("toolu_1")],
            [calling("Agent", {**asked, "run_in_background": False}, "toolu_2")],
            [bash("toolu_3", "ls")],
            [saying(DONE)],
        ]
        return calls[len(request.answers)]

    ended, server = run(place, CLAUDE, script)
    assert result(ended)["result"] == DONE
    assert [action for action, _ in done(place)] == ["warn", "block", "block", "block", "abort"]
    assert place.ran == 6  # five of the sub-agent, and one, which is no loop
    assert "It was ended: Bash was asked for 8 times" in server.requests[-1].answers["toolu_2"]


# --- hooks that go wrong


BROKEN = {
    "missing": ("no-such-program-of-mine claude-code", 10.0),
    "crashes": ("exit 1", 10.0),
    "says nonsense": ("echo '{nonsense'", 10.0),
    "killed": ("kill -9 $$", 10.0),
    "hangs": ("sleep 30", 1.0),
}


@pytest.mark.parametrize(("command", "seconds"), BROKEN.values(), ids=BROKEN)
def test_a_broken_hook_does_not_stop_the_agent(place: Place, command: str, seconds: float) -> None:
    register(place, command, seconds=seconds)
    ended, server = run(place, CLAUDE, looks(1))
    assert (ended.code, result(ended)["result"]) == (0, DONE)
    assert place.ran == 1
    assert server.requests[-1].answers == {"toolu_1": "the same"}


@pytest.mark.parametrize("same", [True, False], ids=["one command", "two commands"])
def test_hooks_of_the_user_and_of_the_project_count_a_call_once(place: Place, same: bool) -> None:
    register(place)
    command = place.hook(HOST) + ("" if same else " ")
    register(place, command, path=place.project / ".claude" / "settings.json")
    ended, server = run(place, CLAUDE, looks(9))
    told = len(place.events("PreToolUse")) / 5
    assert told == (1 if same else 2)  # the program itself runs a command once
    assert (result(ended)["terminal_reason"], place.ran) == ("hook_stopped", 3)
    assert [action for action, _ in done(place)] == ["warn", "block", "abort"]
    assert server.requests[-1].answers["toolu_4"].count(REFUSED) == 1
    assert server.requests[-1].answers["toolu_3"].count(WARNED) == 1


# --- who is there


def test_a_print_run_is_unattended(place: Place) -> None:
    place.configure({"enabled": True, "warningThreshold": 2, "criticalThreshold": 3, "onCritical": "ask"})
    register(place)
    _, server = run(place, CLAUDE, looks(4))
    assert REFUSED in server.requests[-1].answers["toolu_4"]
    (place.project / "ran").unlink()
    run(place, CLAUDE, looks(4), LOOPWARDEN_ATTENDED="1")
    decisions = [
        line["answer"]["hookSpecificOutput"].get("permissionDecision")
        for line in place.lines
        if line["answer"]
    ]
    assert "ask" in decisions
    assert LOOK in json.dumps(place.events("PreToolUse")[-1])


def test_a_person_in_a_terminal_is_asked(place: Place) -> None:
    place.configure({"enabled": True, "warningThreshold": 2, "criticalThreshold": 3, "onCritical": "ask"})
    register(place)
    with in_a_terminal(place, CLAUDE, looks(20)) as (terminal, _):
        ask(terminal, "Look around.")
        terminal.await_text(
            "Bash was called 3 times with the same arguments and always gave the same result."
        )
        terminal.await_text("Do you want to proceed?")
        assert place.ran == 3
        terminal.press("\r")
        terminal.await_that(lambda: place.ran == 7, "evidence that starts afresh")
        terminal.await_text("Do you want to proceed?")
        terminal.press("2")
        terminal.await_text("Interrupted")
        terminal.await_text("loopwarden asks about a call: Bash, 3 times")
        terminal.await_text("To let this loop pass: loopwarden allow repeat:")
    assert place.ran == 7
    assert {event["permission_mode"] for event in place.events("PreToolUse")} == {"acceptEdits"}


def test_a_person_in_a_terminal_sees_how_a_run_ended_and_goes_on(place: Place) -> None:
    register(place)
    with in_a_terminal(place, CLAUDE, [*looks(5), [saying("What next?")]]) as (terminal, server):
        ask(terminal, "Look around.")
        terminal.await_text("loopwarden refused a call: Bash, 3 times (generic_repeat)")
        terminal.await_text("loopwarden ended the run: Bash, 4 times")
        terminal.await_text("This call did not run, and the run ends here.")
        ask(terminal, "Leave it.")
        terminal.await_text("What next?")
    assert len(server.requests) == 6
    assert place.ran == 3
