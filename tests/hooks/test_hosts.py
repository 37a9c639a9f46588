"""What holds for every host: a loop is told, refused and ended in its words, and good work is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loopwarden.hooks.answering import Answering
from loopwarden.hooks.faults import faults
from loopwarden.hooks.hosts import HOSTS
from tests.hooks.agents import KNOWN, Agent, Heard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    opened = Answering(tmp_path)
    yield opened
    opened.close()
    assert faults(tmp_path) == []


@pytest.fixture(params=HOSTS)
def agent(request: pytest.FixtureRequest, answering: Answering) -> Agent:
    return Agent(request.param, answering.answer)


def calls(agent: Agent, count: int, result: str = "same") -> list[Heard]:
    return [agent.call("Bash", {"command": "ls"}, result) for _ in range(count)]


def test_every_host_has_its_words() -> None:
    assert set(KNOWN) == set(HOSTS)


def test_a_loop_is_told_refused_and_ended(agent: Agent) -> None:
    host = HOSTS[agent.name]
    heard = calls(agent, 40)
    decisions = [one.decision for one in heard]
    assert decisions[:20] == ["allow"] * 20
    assert set(decisions[20:]) == {"deny"}
    notes = [number for number, one in enumerate(heard) if one.model and one.decision == "allow"]
    told = any(kind in host.warns for kind in ("before", "after"))
    assert notes == ([10] if told else []), "the first crossing, then every ten: the next is refused"
    assert all("This call was refused" in one.model for one in heard[20:24])
    last = heard[-1]
    assert last.ended == ("before" in host.aborts)
    ends = host.aborts & {"before", "request"}
    assert ("Every further call of this run will be refused" in last.model) != bool(ends)


def test_copilot_warns_after_a_call_that_failed(answering: Answering) -> None:
    agent = Agent("copilot", answering.answer)
    told = []
    for number in range(20):
        assert agent.before("bash", {"command": "make"}, f"c{number}") == Heard()
        told.append(agent.failed("bash", {"command": "make"}, f"c{number}", "no rule").model)
    assert [number for number, text in enumerate(told) if text] == [10]
    assert "called 10 times with the same arguments" in told[10]


def test_qwen_ends_a_run_at_its_next_request(answering: Answering) -> None:
    agent = Agent("qwen", answering.answer)
    assert agent.tell("request", prompt="Fix it.") == Heard()
    calls(agent, 31)
    other = Agent("qwen", answering.answer, run="p2")
    assert other.tell("request", prompt="Something else.") == Heard()
    heard = agent.tell("request", prompt="")
    assert heard.ended
    assert "the run ends here" in heard.model
    assert agent.tell("request", prompt="") == Heard(), "once is enough"
    assert calls(agent, 1)[-1].decision == "deny"


def test_calls_of_one_reply_that_run_one_after_the_other_are_one_turn(answering: Answering) -> None:
    agent = Agent("qwen", answering.answer)
    for number in range(9):
        agent.tell("request", prompt="")
        for command in ("ls", "pwd", "ls", "pwd"):
            heard = agent.call("Bash", {"command": command}, "same")
            agent.tell("batch", tool_calls=[])
            assert heard.decision == "allow", number


def test_turns_are_known_as_far_as_requests_are_told_of(answering: Answering) -> None:
    """Some ways to run Qwen Code tell of the user's messages only."""
    agent = Agent("qwen", answering.answer)
    agent.tell("request", prompt="Wait for it.")
    heard = [agent.call("Bash", {"command": "ls"}, f"{number} %") for number in range(40)]
    assert {one.decision for one in heard} == {"allow"}


def test_qwen_tells_a_call_by_the_id_that_the_model_gave(answering: Answering) -> None:
    agent = Agent("qwen", answering.answer)
    heard = []
    for number in range(22):
        fields = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_call_id": f"c{number}"}
        told = {"llmContent": "same", "returnDisplay": f"{number} ms"}
        named = {**fields, "tool_use_id": f"toolu_{number}"}
        heard.append(agent.tell("before", **named))
        agent.tell("after", **named, tool_response=told)
        whole = {**fields, "tool_use_id": f"c{number}", "status": "success", "tool_response": {"parts": []}}
        assert agent.tell("batch", tool_calls=[whole]) == Heard()
    assert [one.decision for one in heard] == ["allow"] * 20 + ["deny"] * 2


def test_a_person_is_told_how_to_let_it_pass(agent: Agent) -> None:
    refused = calls(agent, 21)[-1]
    said = refused.person or refused.model
    assert "loopwarden allow repeat:" in said
    assert "loopwarden pause s1" in said


def test_results_that_change_are_work(agent: Agent) -> None:
    heard = [agent.call("Bash", {"command": "date"}, f"{number} o'clock") for number in range(60)]
    assert {one.decision for one in heard} == {"allow"}


def test_work_is_answered_with_nothing(agent: Agent) -> None:
    for number in range(15):
        assert agent.call("Read", {"file_path": f"/{number}.txt"}, f"text {number}") == Heard()
        assert agent.call("Edit", {"file_path": "/a.txt", "new_string": f"{number}"}, "ok") == Heard()
        assert agent.call("Bash", {"command": "make test"}, f"{number} passed") == Heard()


def test_sessions_and_runs_are_apart(agent: Agent, answering: Answering) -> None:
    calls(agent, 21)
    other = Agent(agent.name, answering.answer, session="s2")
    assert calls(other, 10)[-1] == Heard()
    if HOSTS[agent.name].fields.run:
        agent.run = "p2"
    else:
        agent.tell("prompt", prompt="go on")
    assert calls(agent, 10)[-1] == Heard()


@pytest.mark.parametrize("name", [name for name, host in HOSTS.items() if host.fields.agent])
def test_a_sub_agent_is_a_run_of_its_own(name: str, answering: Answering) -> None:
    agent = Agent(name, answering.answer)
    for number in range(15):
        for sub_agent in (None, "a1", "a2"):
            heard = agent.call("Bash", {"command": "ls"}, "same", sub_agent)
            assert heard.decision == "allow", number
    verdicts = [agent.call("Bash", {"command": "ls"}, "same", "a1").decision for _ in range(6)]
    assert verdicts == ["allow"] * 5 + ["deny"]
    assert agent.call("Bash", {"command": "ls"}, "same").decision == "allow"


def test_a_hook_that_is_called_twice_counts_once(agent: Agent) -> None:
    if not HOSTS[agent.name].fields.call:
        pytest.skip("calls without an id can't be told apart")
    for number in range(20):
        both = [agent.before("Bash", {"command": "ls"}, f"c{number}") for _ in range(2)]
        assert both == [Heard()] * 2
        ends = [agent.after("Bash", {"command": "ls"}, f"c{number}", "same") for _ in range(2)]
        assert ends[1] == Heard()
    refusals = [agent.before("Bash", {"command": "ls"}, "c20") for _ in range(20)]
    assert len({one.model for one in refusals}) == 1
    assert refusals[0].decision == "deny"


def test_calls_of_one_reply_are_no_evidence_against_each_other(agent: Agent) -> None:
    for turn in range(6):
        ids = [f"{turn}-{number}" for number in range(5)]
        for call_id in ids:
            assert agent.before("Bash", {"command": "ls"}, call_id).decision == "allow"
        for call_id in reversed(ids):
            agent.after("Bash", {"command": "ls"}, call_id, "same")


def test_a_call_that_never_ends_does_not_blind_the_guard(agent: Agent) -> None:
    agent.before("Bash", {"command": "sleep"}, "stuck")
    assert calls(agent, 21)[-1].decision == "deny"


def test_an_end_without_a_beginning_is_passed_over(agent: Agent) -> None:
    assert agent.after("Bash", {"command": "ls"}, "never", "same") == Heard()
    assert calls(agent, 1) == [Heard()]


def test_failures_are_seen(agent: Agent) -> None:
    heard = Heard()
    for number in range(40):
        heard = agent.before("Bash", {"command": f"try {number}"}, f"c{number}")
        if heard.decision == "deny":
            break
        agent.failed("Bash", {"command": f"try {number}"}, f"c{number}", "permission denied")
    assert heard.decision == "deny"
    assert "fail" in heard.model


COMPACTED = [name for name, host in HOSTS.items() if "compacted" in host.events.values()]


@pytest.mark.parametrize("name", COMPACTED)
def test_a_loop_that_outlives_a_compaction_is_ended(name: str, answering: Answering) -> None:
    agent = Agent(name, answering.answer)
    calls(agent, 2)
    assert agent.tell("compacted", trigger="auto") == Heard()
    heard = calls(agent, 4)
    assert heard[:2] == [Heard(), Heard()]
    assert heard[2].ended == ("after" in HOSTS[name].aborts)
    assert heard[3].decision == "deny"


GOT_IT = {"role": "model", "content": "Got it. Thanks for the additional context!"}


def gemini_request(agent: Agent, begins: str, *more: str, compacted: bool) -> None:
    """A request as Gemini CLI tells it: the texts of the history, without calls and results."""
    first = {"role": "user", "content": f"<session_context>\n{begins}"}
    later = [{"role": "user", "content": text} for text in more]
    messages = [first, *([GOT_IT] if compacted else []), *later]
    agent.tell("request", llm_request={"model": "gemini", "messages": messages})


def test_gemini_tells_of_a_compaction_by_the_summary(answering: Answering) -> None:
    agent = Agent("gemini", answering.answer)
    for _ in range(6):
        gemini_request(agent, "day 1</session_context>Fix it.", compacted=False)
        assert calls(agent, 1) == [Heard()]
    heard = []
    for day in (1, 1, 2):  # what stands before the summary may change
        gemini_request(agent, f"day {day}</session_context>It was tried.", "Go on.", compacted=True)
        heard += calls(agent, 1)
    assert [one.ended for one in heard] == [False, False, True]


def test_gemini_is_not_armed_by_an_old_summary(answering: Answering) -> None:
    agent = Agent("gemini", answering.answer)
    for number in range(6):
        gemini_request(agent, "</session_context>It was tried.", compacted=True)
        if number % 2:  # a sub-agent, whose requests come under the same session
            gemini_request(agent, "</session_context>Look into it.", compacted=False)
        assert calls(agent, 1) == [Heard()]


def test_gemini_is_armed_by_a_compaction_between_two_days(answering: Answering) -> None:
    agent = Agent("gemini", answering.answer)
    gemini_request(agent, "</session_context>Fix it.", compacted=False)
    agent.tell("ended", reason="exit")
    gemini_request(agent, "</session_context>It was tried.", compacted=True)
    assert [one.ended for one in calls(agent, 3)] == [False, False, True]


def test_what_changes_in_the_result_of_a_gemini_command_is_no_news(answering: Answering) -> None:
    agent = Agent("gemini", answering.answer)
    heard = []
    for number in range(22):
        result = {"llmContent": f"Output: a\nProcess Group PGID: {number}", "returnDisplay": f"a{number}"}
        call = ("run_shell_command", {"command": "ls"}, "")
        heard.append(agent.before(*call))
        agent.send("after", *call, None, tool_response=result)
    assert [one.decision for one in heard] == ["allow"] * 20 + ["deny"] * 2


def test_a_number_of_any_length_is_seen(agent: Agent) -> None:
    def said(number: str) -> Heard:
        agent.calls += 1
        fields = {"tool_name": "Bash", "tool_input": {"n": 987}, "tool_use_id": f"c{agent.calls}"}
        name = HOSTS[agent.name].fields.call
        if name:
            fields[name[0]] = fields["tool_use_id"]
        answers = []
        for kind in ("before", "after"):
            event = next(one for one, meaning in HOSTS[agent.name].events.items() if meaning == kind)
            more = agent._result("same") if kind == "after" else {}
            payload = agent.payload(event, {**fields, **more}).replace(b"987", number.encode())
            answer = agent.answer(agent.name, payload, {}, event if agent.name == "copilot" else None)
            answers.append(agent.heard(event, answer, kind))
        return answers[0]

    for length in (400, 5000):
        number = "7" * length
        assert {said(f"{number}{last:02}").decision for last in range(25)} == {"allow"}
        assert [said(number).decision for _ in range(21)] == ["allow"] * 20 + ["deny"]
