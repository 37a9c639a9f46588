"""What was found out about Claude Code by running it: where its runs go on, and what its results mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.hooks.answering import ATTENDED, Answering
from loopwarden.hooks.faults import faults
from loopwarden.hooks.ledger import Ledger
from tests.hooks.agents import Agent, Heard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTICE = "<task-notification>\n<task-id>b1</task-id>"


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    opened = Answering(tmp_path)
    yield opened
    opened.close()
    assert faults(tmp_path) == []


@pytest.fixture
def claude(answering: Answering) -> Agent:
    return Agent("claude-code", answering.answer)


def loop(agent: Agent, count: int, tool: str = "Bash") -> list[Heard]:
    return [agent.call(tool, {"command": "ls"}, "same") for _ in range(count)]


def batch(agent: Agent, call_id: str, tool: str, arguments: object, response: str) -> Heard:
    fields = {"tool_name": tool, "tool_input": arguments, "tool_use_id": call_id, "tool_response": response}
    return agent.tell("batch", tool_calls=[fields])


# --- where a run goes on


def test_a_compaction_by_hand_counts_for_the_next_prompt(claude: Agent) -> None:
    loop(claude, 2)
    claude.run = "p2"  # `/compact` is a prompt of its own
    claude.tell("compacted", trigger="manual")
    claude.run = "p3"
    assert [one.ended for one in loop(claude, 3)] == [False, False, True]


def test_so_it_does_in_a_session_that_is_resumed(claude: Agent) -> None:
    claude.tell("compacted", trigger="manual")
    claude.tell("ended", reason="other")
    claude.run = "p2"
    assert [one.ended for one in loop(claude, 3)] == [False, False, True]


def test_a_sub_agent_does_not_take_it(claude: Agent) -> None:
    claude.tell("compacted", trigger="manual")
    assert [claude.call("Bash", {"command": "ls"}, "same", "a1").ended for _ in range(4)] == [False] * 4
    assert [one.ended for one in loop(claude, 3)] == [False, False, True]


def test_a_compaction_by_hand_in_a_sub_agent_is_its_own(claude: Agent) -> None:
    claude.call("Bash", {"command": "ls"}, "same", "a1")
    claude.tell("compacted", trigger="auto", agent_id="a1")
    assert loop(claude, 4) == [Heard()] * 4
    ended = [claude.call("Bash", {"command": "ls"}, "same", "a1").ended for _ in range(3)]
    assert ended == [False, False, True]


def test_a_notice_of_the_host_goes_on_with_the_run(claude: Agent) -> None:
    decisions = []
    for number in range(22):
        decisions += [one.decision for one in loop(claude, 1)]
        claude.run = f"notice {number}"
        claude.tell("prompt", prompt=NOTICE)
    assert decisions == ["allow"] * 20 + ["deny"] * 2


def test_a_prompt_of_the_user_is_a_new_run_and_a_notice_after_it_goes_on_with_that(claude: Agent) -> None:
    loop(claude, 19)
    claude.run = "p2"
    claude.tell("prompt", prompt="go on")
    loop(claude, 19)
    claude.run = "p3"
    claude.tell("prompt", prompt=NOTICE)
    assert [one.decision for one in loop(claude, 2)] == ["allow", "deny"]


def test_after_a_word_of_the_user_a_loop_is_looked_at_once_more(claude: Agent) -> None:
    assert [one.decision for one in loop(claude, 22)][20:] == ["deny", "deny"]
    claude.tell("prompt", prompt="try it again")
    assert [one.decision for one in loop(claude, 2)] == ["allow", "deny"]


def test_a_notice_during_the_run_does_not(claude: Agent) -> None:
    loop(claude, 19)
    claude.tell("prompt", prompt=NOTICE)
    assert [one.decision for one in loop(claude, 2)] == ["allow", "deny"]


# --- what results mean


MISSING_FILE = "<tool_use_error>File does not exist. The folder is /p.</tool_use_error>"
NO_SUCH_TOOL = "<tool_use_error>Error: No such tool available: Grep. Grep is not available.</tool_use_error>"


@pytest.mark.parametrize(
    ("tool", "response", "detector"),
    [("Read", MISSING_FILE, "repeated_failure"), ("Grep", NO_SUCH_TOOL, "unknown_tool_repeat")],
)
def test_a_file_that_is_missing_is_no_missing_tool(
    claude: Agent, tmp_path: Path, tool: str, response: str, detector: str
) -> None:
    for number in range(25):
        batch(claude, f"c{number}", tool, {"file_path": f"/p/{number}"}, response)
    ledger = Ledger(tmp_path / "sessions.db")
    assert {deed.detector for deed in ledger.deeds(0)} == {detector}
    ledger.close()


def test_calls_that_a_rule_denies_count_as_failed(claude: Agent) -> None:
    decisions = []
    for number in range(25):
        arguments = {"command": f"rm {number}"}
        decisions.append(claude.before("Bash", arguments, f"c{number}").decision)
        batch(claude, f"c{number}", "Bash", arguments, "Permission to use Bash has been denied.")
    assert "deny" in decisions


def test_a_tool_with_braces_in_its_name_is_only_a_name(claude: Agent) -> None:
    text = "<tool_use_error>Error: No such tool available: {x}</tool_use_error>"
    assert batch(claude, "c1", "{x}", {}, text) == Heard()


def test_calls_of_one_reply_are_told_by_its_end(claude: Agent) -> None:
    """Hooks of calls that are made at the same time come late, when other calls are over."""
    batch(claude, "c0", "Read", {"file_path": "/a"}, "text")
    for _ in range(9):
        assert loop(claude, 3) == [Heard()] * 3
        batch(claude, f"c{claude.calls}", "Bash", {"command": "ls"}, "same")


# --- where a run ends


def test_a_run_that_could_not_be_ended_at_once_ends_with_the_batch(claude: Agent) -> None:
    """A hook can't end a run where a call has failed."""
    claude.before("Bash", {"command": "ls"}, "c0")
    claude.failed("Bash", {"command": "ls"}, "c0", "no such file")
    batch(claude, "c0", "Bash", {"command": "ls"}, "no such file")
    claude.tell("compacted", trigger="auto")
    heard = []
    for number in range(1, 4):
        claude.before("Bash", {"command": "ls"}, f"c{number}")
        claude.failed("Bash", {"command": "ls"}, f"c{number}", "no such file")
        heard.append(batch(claude, f"c{number}", "Bash", {"command": "ls"}, "no such file"))
    assert [one.ended for one in heard] == [False, False, True]
    assert "history was compacted" in heard[-1].model


def sub_agent(claude: Agent, call_id: str, agent: str) -> Heard:
    """A sub-agent that loops until it is ended, and the end of the call that started it."""
    arguments = {"prompt": "look"}
    assert claude.before("Agent", arguments, call_id) == Heard()
    for _ in range(40):
        if claude.call("Bash", {"command": "ls"}, "same", agent).ended:
            break
    result: dict[str, Any] = {"status": "completed", "agentId": agent, "content": [], "totalTokens": 9}
    return claude.after("Agent", arguments, call_id, result)


def test_who_started_a_sub_agent_is_told_that_it_was_ended(claude: Agent) -> None:
    heard = sub_agent(claude, "m1", "a1")
    assert heard.decision == "allow"
    assert heard.model.startswith("It was ended: Bash was asked for 30 times")
    assert "This call" not in heard.model
    assert not heard.ended


def test_a_sub_agent_that_came_to_its_end_is_not_talked_about(claude: Agent) -> None:
    claude.before("Agent", {"prompt": "look"}, "m1")
    claude.call("Bash", {"command": "ls"}, "same", "a1")
    result = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": "fine"}]}
    assert claude.after("Agent", {"prompt": "look"}, "m1", result) == Heard()


def test_sub_agents_that_say_the_same_again_and_again_are_a_loop(claude: Agent) -> None:
    decisions = []
    for number in range(21):
        result = {
            "status": "completed",
            "agentId": f"a{number}",
            "content": [{"type": "text", "text": "nothing found"}],
            "totalDurationMs": 100 + number,
            "totalTokens": 1000 + number,
            "usage": {"input_tokens": number},
        }
        decisions.append(claude.call("Agent", {"prompt": "look"}, result).decision)
    assert decisions == ["allow"] * 20 + ["deny"]


def test_a_background_command_that_is_started_again_and_again_is_a_loop(claude: Agent) -> None:
    results = ({"stdout": "", "stderr": "", "backgroundTaskId": f"b{number}"} for number in range(21))
    decisions = [claude.call("Bash", {"command": "make"}, result).decision for result in results]
    assert decisions == ["allow"] * 20 + ["deny"]


# --- a person


def test_a_person_is_told_once_of_a_loop_and_of_its_end(claude: Agent) -> None:
    told = [number for number, one in enumerate(loop(claude, 31)) if one.person]
    assert told == [20, 30]


@pytest.fixture
def asking(answering: Answering, tmp_path: Path) -> Agent:
    path = tmp_path / "ask.json5"
    path.write_text('{enabled: true, onCritical: "ask"}')
    variables = {"LOOPWARDEN_CONFIG": str(path), ATTENDED: "1"}
    return Agent("claude-code", answering.answer, variables=variables)


def test_while_a_person_is_asked_nothing_is_said_to_be_refused(asking: Agent) -> None:
    heard = loop(asking, 21)[-1]
    assert heard.decision == "ask"
    assert heard.model == "Bash was called 20 times with the same arguments and always gave the same result."
    assert heard.person.startswith("loopwarden asks about a call: Bash, 20 times")


def test_a_no_does_not_free_the_loop(asking: Agent) -> None:
    loop(asking, 20)
    for number in range(3):
        assert asking.before("Bash", {"command": "ls"}, f"n{number}").decision == "ask"
        no = "The user doesn't want to proceed with this tool use."
        assert batch(asking, f"n{number}", "Bash", {"command": "ls"}, no) == Heard()
