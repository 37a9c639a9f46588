"""Teams of Agno: members, leaders, and how a team ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("agno.models.base", reason="needs agno; see scripts/check-hosts")

from agno.agent import Agent
from agno.run import RunStatus
from agno.team import Team, TeamMode

from loopwarden import LoopAborted
from loopwarden.adapters.agno import guard_agent, raise_if_aborted
from tests.adapters.agno_scripts import LADDER, Scripted, actions, look, messages, raw
from tests.adapters.contract import asking
from tests.adapters.writing_guard import CONFIG, WritingGuard


def delegating(count: int) -> list[list[Any]]:
    arguments = json.dumps({"member_id": "finder", "task": "find it"})
    return [[raw("delegate_task_to_member", f"t{number}", arguments)] for number in range(1, count + 1)]


WAYS = ["sync", "async", "stream", "async stream"]


def ran(team: Team, way: str) -> Any:
    """What came of the team's run, or the last event."""

    async def awaited() -> Any:
        if way == "async":
            return await team.arun("go")
        return [event async for event in team.arun("go", stream=True)][-1]

    if way == "sync":
        return team.run("go")
    if way == "stream":
        return list(team.run("go", stream=True, yield_run_output=True))[-1]
    return asyncio.run(awaited())


def finder(replies: list[Any], **options: Any) -> Agent:
    model = Scripted(replies=replies)
    return Agent(id="finder", name="finder", model=model, tools=[look], telemetry=False, **options)


@pytest.mark.parametrize("way", WAYS)
def test_members_have_runs_of_their_own(way: str) -> None:
    guard = WritingGuard()
    team = Team(members=[finder(asking(6))], model=Scripted(replies=delegating(1)), telemetry=False)
    run = ran(guard_agent(team, guard), way)
    raise_if_aborted(run)
    assert run.content == "done"
    runs: dict[str | None, list[str]] = {}
    for told in guard.of("before"):
        runs.setdefault(told.run_id, []).append(told.verdict.action)
    assert list(runs.values()) == [["allow"], LADDER]
    assert len({told.session_id for told in guard.told}) == 1
    (outcome,) = (told for told in guard.of("after") if told.call_id == "t1")
    assert (outcome.result, outcome.error) == ("done", None)


@pytest.mark.parametrize("way", WAYS)
def test_the_host_ends_a_team_with_its_member(way: str) -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    team = Team(members=[finder(asking(9))], model=Scripted(replies=delegating(2)), telemetry=False)
    run = ran(guard_agent(team, guard), way)
    assert run.run_id == guard.of("before")[0].run_id
    with pytest.raises(LoopAborted) as raised:
        raise_if_aborted(run)
    assert raised.value.verdict.tool == "look"


def test_a_leader_that_goes_round_in_circles_is_refused() -> None:
    guard = WritingGuard()
    leader = Scripted(replies=delegating(6))
    guard_agent(Team(members=[finder([])], model=leader, telemetry=False), guard).run("go")
    assert actions(guard) == LADDER
    warning, refusal = messages(guard)
    assert [leader.ran.answers[name] for name in ("t3", "t4", "t6")] == [
        ["done"],
        [f"done\n\n{warning}"],
        [refusal],
    ]


def test_a_member_without_a_model_is_guarded_with_the_one_of_the_team() -> None:
    guard = WritingGuard()
    member = Agent(id="finder", name="finder", tools=[look], telemetry=False)
    model = Scripted(replies=[*delegating(1), *asking(6)])
    guard_agent(Team(members=[member], model=model, telemetry=False), guard).run("go")
    assert actions(guard) == ["allow", *LADDER]
    assert len({told.run_id for told in guard.told}) == 2


def test_a_team_with_a_list_of_tasks_is_one_run() -> None:
    guard = WritingGuard()
    planned = [raw("create_task", "p1", json.dumps({"title": "look", "description": "look it up"}))]
    replies = [planned, *(reply for ask in asking(6) for reply in (ask, []))]
    team = Team(
        members=[finder([])],
        model=Scripted(replies=replies),
        mode=TeamMode.tasks,
        max_iterations=8,
        tools=[look],
        telemetry=False,
    )
    guard_agent(team, guard).run("go")
    assert actions(guard)[1:] == LADDER
    assert len({told.run_id for told in guard.told}) == 1


def test_a_team_ends_as_an_agent_does() -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    team = Team(members=[], model=Scripted(replies=asking(9)), tools=[look], telemetry=False)
    run = guard_agent(team, guard).run("go")
    assert run.status == RunStatus.cancelled
    with pytest.raises(LoopAborted):
        raise_if_aborted(run)
