"""What single hosts can do besides: batches, unknown tools, a person who decides, pauses and releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.hooks.answering import ATTENDED, Answering, attended
from loopwarden.hooks.faults import faults
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.ledger import Ledger
from tests.hooks.agents import Agent, Heard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HAVE_BATCHES = [name for name, host in HOSTS.items() if "batch" in host.events.values()]


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


def loop(agent: Agent, count: int) -> list[Heard]:
    return [agent.call("Bash", {"command": "ls"}, "same") for _ in range(count)]


def batch(agent: Agent, *calls: dict[str, Any]) -> Heard:
    return agent.tell("batch", tool_calls=list(calls))


@pytest.mark.parametrize("name", HAVE_BATCHES)
def test_a_tool_that_does_not_exist_is_seen_in_the_batch(name: str, answering: Answering) -> None:
    agent = Agent(name, answering.answer)
    heard = []
    for number in range(40):
        call = {
            "tool_name": "Serach",
            "tool_input": {"q": number},
            "tool_use_id": f"u{number}",
            "tool_response": "<tool_use_error>Error: No such tool available: Serach</tool_use_error>",
            "status": "error",
        }
        heard.append(batch(agent, call))
    said = [one for one in heard if one != Heard()]
    assert said
    assert "Serach" in said[0].model or not said[0].model
    last = heard[-1] if "batch" in HOSTS[name].aborts else agent.tell("request", prompt="")
    assert last.ended


def test_a_batch_repeats_nothing_that_was_told_before(claude: Agent) -> None:
    for number in range(20):
        claude.before("Bash", {"command": "ls"}, f"c{number}")
        claude.after("Bash", {"command": "ls"}, f"c{number}", "same")
        call = {
            "tool_name": "Bash",
            "tool_input": {"command": "ls"},
            "tool_use_id": f"c{number}",
            "tool_response": "same",
        }
        assert batch(claude, call) == Heard()
    assert claude.before("Bash", {"command": "ls"}, "c20").decision == "deny"


def test_a_call_that_a_person_denied_ends_with_the_batch(claude: Agent) -> None:
    """No `after` tells of it: the batch does, with an error."""
    decisions = []
    for number in range(25):
        decisions.append(claude.before("Bash", {"command": "rm"}, f"c{number}").decision)
        call = {
            "tool_name": "Bash",
            "tool_input": {"command": "rm"},
            "tool_use_id": f"c{number}",
            "tool_response": "The user doesn't want to proceed with this tool use.",
        }
        batch(claude, call)
    assert decisions[20] == "deny"


def test_an_interrupted_call_counts_for_nothing(claude: Agent) -> None:
    for number in range(30):
        assert claude.before("Bash", {"command": "ls"}, f"c{number}").decision == "allow"
        claude.failed("Bash", {"command": "ls"}, f"c{number}", "interrupted", is_interrupt=True)


def ask(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "ask.json5"
    path.write_text('{enabled: true, onCritical: "ask"}')
    return {"LOOPWARDEN_CONFIG": str(path)}


@pytest.mark.parametrize("name", [name for name, host in HOSTS.items() if host.asks])
def test_a_person_who_is_there_is_asked(name: str, answering: Answering, tmp_path: Path) -> None:
    agent = Agent(name, answering.answer, variables={**ask(tmp_path), ATTENDED: "1"})
    assert loop(agent, 21)[-1].decision == "ask"
    agent.after("Bash", {"command": "ls"}, "c21", "same")  # it was let run
    assert [one.decision for one in loop(agent, 21)] == ["allow"] * 20 + ["ask"]


@pytest.mark.parametrize("name", HOSTS)
def test_nobody_there_means_no(name: str, answering: Answering, tmp_path: Path) -> None:
    agent = Agent(name, answering.answer, variables=ask(tmp_path))
    assert loop(agent, 21)[-1].decision == "deny"


def test_claude_code_tells_by_itself_whether_a_person_is_there() -> None:
    row = HOSTS["claude-code"]
    assert attended(row, {"CLAUDE_CODE_ENTRYPOINT": "cli"})
    assert not attended(row, {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"})
    assert not attended(row, {"CLAUDE_CODE_ENTRYPOINT": "cli", ATTENDED: "0"})
    assert not attended(HOSTS["codex"], {})


def test_a_paused_session_is_left_alone(claude: Agent, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "sessions.db")
    loop(claude, 21)
    with ledger.session("claude-code", "s1") as session:
        session.paused = True
    assert loop(claude, 30) == [Heard()] * 30
    with ledger.session("claude-code", "s1") as session:
        session.paused = False
    assert loop(claude, 1)[-1].decision == "deny"
    ledger.close()


def test_a_released_loop_may_go_on_and_others_may_not(claude: Agent, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "sessions.db")
    loop(claude, 21)
    (deed,) = [deed for deed in ledger.deeds(0) if deed.action == "block"]
    assert deed.key is not None
    with ledger.session("claude-code", "s1") as session:
        session.released.append(deed.key)
    assert {one.decision for one in loop(claude, 100)} == {"allow"}
    other = [claude.call("Read", {"file_path": "/a"}, "same").decision for _ in range(21)]
    assert other == ["allow"] * 20 + ["deny"]
    ledger.close()


def test_what_was_done_is_written_down_without_arguments(claude: Agent, tmp_path: Path) -> None:
    loop(claude, 22)
    ledger = Ledger(tmp_path / "sessions.db")
    assert [(deed.action, deed.tool, deed.count) for deed in ledger.deeds(0)] == [
        ("warn", "Bash", 10),
        ("block", "Bash", 20),
        ("block", "Bash", 21),
    ]
    ((session, begun, seen),) = ledger.sessions(0)
    assert (session.project, session.paused) == ("/home/user/project", False)
    assert begun <= seen
    ledger.close()


def test_no_argument_or_result_is_kept(claude: Agent, tmp_path: Path) -> None:
    for _ in range(25):
        claude.call("Bash", {"command": "echo SECRET-4711"}, "ANSWER-4711")
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert not [secret for secret in (b"SECRET-4711", b"ANSWER-4711") if secret in kept]


def test_the_end_of_a_session_ends_its_evidence(claude: Agent) -> None:
    loop(claude, 19)
    claude.tell("ended", reason="exit")
    assert {one.decision for one in loop(claude, 20)} == {"allow"}


def test_a_project_has_a_configuration_of_its_own(answering: Answering, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "loopwarden.json5").write_text("{enabled: true, warningThreshold: 2, criticalThreshold: 3}")
    agent = Agent("claude-code", answering.answer, project=str(project))
    assert loop(agent, 4)[-1].decision == "deny"
    (project / "loopwarden.json5").write_text("{enabled: false}")
    assert loop(agent, 30)[-1].decision == "allow"


def test_a_configuration_that_is_named_is_looked_for_in_the_project(
    answering: Answering, tmp_path: Path
) -> None:
    (tmp_path / "ci.json5").write_text("{enabled: true, warningThreshold: 2, criticalThreshold: 3}")
    agent = Agent(
        "claude-code", answering.answer, project=str(tmp_path), variables={"LOOPWARDEN_CONFIG": "ci.json5"}
    )
    assert loop(agent, 4)[-1].decision == "deny"


def test_observing_says_nothing_and_writes_it_down(answering: Answering, tmp_path: Path) -> None:
    agent = Agent("claude-code", answering.answer, variables={"LOOPWARDEN_MODE": "observe"})
    assert loop(agent, 40) == [Heard()] * 40
    ledger = Ledger(tmp_path / "sessions.db")
    assert [deed.action for deed in ledger.deeds(0)] == ["would warn", "would block", "would abort"]
    ledger.close()


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("session", ["s1", "s\x1b]0;mine\x07\n\u202e"])
def test_nothing_that_a_terminal_obeys_is_said(name: str, session: str, answering: Answering) -> None:
    """Names are the agent's and its servers' words; they are shown, and nothing else of them."""
    agent = Agent(name, answering.answer, session=session)
    heard = [agent.call("mcp__a\x1b[2J__b\nc\x07", {"a": 1}, "same") for _ in range(21)]
    said = [text for one in heard for text in (one.model, one.person)]
    assert any("mcp__a\ufffd[2J__b\ufffdc\ufffd" in text for text in said)
    assert [text for text in said if not text.replace("\n\n", "").isprintable()] == []
    assert heard[-1].decision == "deny"
