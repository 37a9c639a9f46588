"""A configuration that can't be used: the agent goes on, and the person is told once in each session."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from loopwarden.config import load_config
from loopwarden.errors import ConfigError
from loopwarden.hooks.answering import Answering
from loopwarden.hooks.faults import faults
from loopwarden.hooks.hosts import HOSTS
from loopwarden.hooks.ledger import Ledger
from loopwarden.hooks.places import SESSIONS_FILE
from loopwarden.hooks.unguarded import fault_of
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by name
from tests.hooks.agents import Agent, Heard
from tests.hooks.test_sessions import project, state  # noqa: F401 - the same

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = "{tools: {loopDetection: {\n  enabled: true,\n  nosuch: 1}}}"
FINE = "{tools: {loopDetection: {enabled: true, warningThreshold: 1, criticalThreshold: 2}}}"
AT_A_CALL = {"claude-code", "codex", "gemini", "qwen", "opencode", "openclaw"}


def heard(agent: Agent, times: int = 3) -> list[Heard]:
    """What both events of some equal calls are answered with."""
    answers = []
    for _ in range(times):
        agent.calls += 1
        words = "Bash", {"command": "ls"}, f"c{agent.calls}"
        answers += [agent.before(*words), agent.after(*words, "same")]
    return answers


def persons(answers: list[Heard]) -> list[str]:
    return [one.person for one in answers if one.person]


@pytest.mark.parametrize("host", HOSTS)
def test_the_person_is_told_once_where_the_host_shows_it(
    host: str,
    state: Path,  # noqa: F811 - the fixture
    project: Path,  # noqa: F811 - the same
) -> None:
    path = project / "loopwarden.json5"
    path.write_text(BROKEN)
    fault = f"{path}, line 3, tools.loopDetection.nosuch: "
    for number, session in enumerate(("s1", "s2"), 1):
        answers = []
        for _ in range(2):  # each event may be answered by another process
            with closing(Answering(state)) as answering:
                agent = Agent(
                    host, answering.answer, session=session, project=str(project), calls=len(answers)
                )
                answers += heard(agent)
                if "compacted" in HOSTS[host].events.values():
                    answers.append(agent.tell("compacted"))
        said = persons(answers)
        assert len(said) == (host in AT_A_CALL or host == "cursor")
        assert all(f"can't be used: {fault}" in text and "\n" not in text for text in said)
        assert {(one.decision, one.model, one.ended) for one in answers} == {("allow", "", False)}
        lines = faults(state)
        assert len(lines) == number
        assert f"{host}: session {session}: {fault}" in lines[-1]


@pytest.mark.parametrize("host", ["claude-code", "cursor", "hermes"])
def test_a_session_is_guarded_again_when_it_is_repaired(
    host: str,
    state: Path,  # noqa: F811 - the fixture
    project: Path,  # noqa: F811 - the same
) -> None:
    path = project / "loopwarden.json5"
    path.write_text(FINE)
    with closing(Answering(state)) as answering:
        agent = Agent(host, answering.answer, project=str(project))
        assert [persons(heard(agent, 2)), faults(state)] == [[], []]
        assert agent.before("Bash", {"command": "ls"}, "x").decision == "deny"
        path.write_text(BROKEN)
        heard(agent)
        path.write_text(FINE)
        agent.session = "s2"
        assert persons(heard(agent, 2)) == []
        assert agent.before("Bash", {"command": "ls"}, "y").decision == "deny"
        path.write_text(BROKEN)
        agent.session = "s1"
        assert persons(heard(agent)) == []  # never twice
        assert len(faults(state)) == 1


def test_status_says_it_as_long_as_it_is_so(state: Path, project: Path) -> None:  # noqa: F811 - the fixtures
    path = project / "loopwarden.json5"
    for text, guard in ((BROKEN, "off"), (FINE, "on")):
        path.write_text(text)
        with closing(Answering(state)) as answering:
            heard(Agent("hermes", answering.answer, project=str(project)), 1)
        out = run("status")[1]
        assert out.splitlines()[2].split()[-2] == guard
        said = f"s1 is not guarded: {path}, line 3, tools.loopDetection.nosuch: "
        assert (said in out) == (guard == "off")
        (one,) = json.loads(run("status", "--json")[1])["sessions"]
        assert (one["fault"] is None) == (guard == "on")


def test_a_paused_session_is_left_in_peace(state: Path, project: Path) -> None:  # noqa: F811 - the fixtures
    (project / "loopwarden.json5").write_text(BROKEN)
    with closing(Ledger(state / SESSIONS_FILE)) as ledger, ledger.session("claude-code", "s1") as session:
        session.paused = True
    with closing(Answering(state)) as answering:
        assert persons(heard(Agent("claude-code", answering.answer, project=str(project)))) == []
    assert faults(state) == []


def test_a_fault_is_one_line_of_bounded_length(tmp_path: Path) -> None:
    path = tmp_path / "a\nb.json5"
    path.write_text("{x: '" + "y" * 3000 + "', y: 1, z: 2}")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    text = fault_of(caught.value)
    assert len(text) <= 400
    assert text.endswith("(and 2 more)")
    assert text.isprintable()
