"""What is special behind a proxy: refusals that the agent never sees, many conversations, several workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else the host asks for it when it is imported

pytest.importorskip("litellm", reason="needs litellm[proxy]; see scripts/check-hosts")

import litellm
import openai
from litellm.integrations.custom_logger import CustomLogger

from loopwarden.adapters.litellm import LoopGuardCallback
from tests.adapters.contract import Ask, asking
from tests.adapters.litellm_scripts import (
    KEY,
    Agent,
    Behind,
    Provider,
    Refused,
    behind,
    config,
    free_port,
    serving,
    wait_for,
)
from tests.adapters.litellm_wire import FORMATS, Chat, Item
from tests.adapters.writing_guard import CONFIG, WritingGuard

if TYPE_CHECKING:
    import httpx

__all__ = ["behind"]

SUMMARY = "The user wants to know about a, and so far nothing about it was found anywhere."


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


@pytest.fixture(params=["chat-stream", "anthropic", "anthropic-stream", "responses-stream"])
def agent(request: pytest.FixtureRequest, behind: Behind) -> Agent:
    form, _, way = request.param.partition("-")
    return Agent(FORMATS[form], bool(way), behind)


@pytest.fixture
def chat(behind: Behind) -> Agent:
    return Agent(Chat, False, behind)


def watched(guard: WritingGuard, **options: Any) -> LoopGuardCallback:
    callback = LoopGuardCallback(guard, **options)
    litellm.callbacks = [callback]
    return callback


def step(agent: Agent, history: list[Item], result: str = "nothing", **more: Any) -> httpx.Response:
    """One request; the reply and its results are added to the history."""
    response = agent.ask(history, ["look", "fresh"], **more)
    reply = agent.reply(response)
    answers = [agent.form.answer(call_id, result) for call_id, _, _ in agent.form.asked(reply)]
    history += [*reply, *(agent.form.joined(answers) if answers else [])]
    return response


def looped(agent: Agent, count: int, **more: Any) -> list[Item]:
    """A history with as many requests."""
    history = [agent.form.person("hello")]
    for _ in range(count):
        step(agent, history, **more)
    return history


def test_what_passes_is_not_touched(agent: Agent, guard: WritingGuard) -> None:
    seen = []
    for callbacks in ([], [LoopGuardCallback(guard)]):
        litellm.callbacks = callbacks
        agent.behind.provider.script(asking(2), words="let me see")
        history = [agent.form.person("hello")]
        bodies = [step(agent, history).text for _ in range(3)]
        seen.append((plain(bodies), agent.behind.provider.bodies.copy(), plain([json.dumps(history)])))
    assert seen[0] == seen[1]
    assert len(guard.of("before")) == len(guard.of("after")) == 2


def plain(bodies: list[str]) -> list[str]:
    """Without the ids and times that the host makes up."""
    found = []
    for body in bodies:
        words = body.replace('\\"', "'").split('"')
        found.append('"'.join("an id" if word.startswith("resp_") else word for word in words))
    return [text if "created" not in text else text[: text.index("created")] for text in found]


def test_the_model_is_asked_again(agent: Agent, guard: WritingGuard) -> None:
    """The agent gets one reply with the words of both; the model sees its own call and the refusal of it."""
    watched(guard)
    provider = agent.behind.provider
    provider.script([*asking(6), [Ask(tool="fresh", call_id="d1")]], words="let me see")
    history = looped(agent, 6)
    assert "c6" not in json.dumps(history)
    reply = agent.form.asked([*history[1:]][-2:-1] if agent.form is not FORMATS["responses"] else history)
    assert reply[-1][:2] == ("d1", "fresh")
    message = guard.of("before")[5].verdict.message
    assert agent.form.shown(provider.bodies[6][1][agent.form.field])[-1] == ("c6", message)
    step(agent, history)
    shown = agent.form.shown(provider.bodies[7][1][agent.form.field])
    assert [call_id for call_id, _ in shown] == ["c1", "c2", "c3", "c4", "c5", "c6", "d1"]
    assert len(provider.bodies) == 8
    assert guard.of("compacted") == guard.of("retract") == []


def test_a_model_that_insists(agent: Agent) -> None:
    """It is asked three times more, then for words only, and then the request fails, but not the run."""
    guard = WritingGuard(CONFIG | {"globalCircuitBreakerThreshold": 30})
    watched(guard)
    provider = agent.behind.provider
    provider.script(asking(20))
    history = looped(agent, 5)
    with pytest.raises(Refused, match="refused"):
        step(agent, history)
    choices = [body.get("tool_choice") for _, body in provider.bodies[5:]]
    assert choices[:4] == [None] * 4 or set(choices[:4]) == {"auto"}
    assert choices[4] in ("none", {"type": "none"})
    assert len(choices) == 5
    provider.script([[Ask(tool="fresh", call_id="d1")]])
    step(agent, history)
    assert guard.of("before")[-1].verdict.action == "allow"


def test_a_reply_that_is_partly_refused(agent: Agent, guard: WritingGuard) -> None:
    """The agent gets the other calls; the model later sees all of its reply, with all results."""
    watched(guard)
    provider = agent.behind.provider
    calls = [Ask(tool="look", call_id="d1"), Ask(tool="fresh", call_id="d2"), Ask(tool="fresh", call_id="d3")]
    provider.script([*asking(5), calls], words="let me see")
    history = looped(agent, 7)
    assert "d1" not in json.dumps(history)
    shown = agent.form.shown(provider.bodies[-1][1][agent.form.field])
    assert sorted(call_id for call_id, _ in shown)[5:] == ["d1", "d2", "d3"]
    assert "refused" in dict(shown)["d1"]
    assert guard.of("compacted") == guard.of("retract") == []


def test_requests_that_are_made_again_count_once(agent: Agent, guard: WritingGuard) -> None:
    """By the proxy, whose provider fails, and by the client, which did not get the answer."""
    watched(guard)
    agent.behind.provider.script(asking(9), failures=1)
    history = looped(agent, 2)
    for _ in range(3):
        agent.ask(history, ["look"])
    step(agent, history)
    assert [told.verb for told in guard.told].count("retract") == 3
    assert len(guard.of("after")) == 2
    step(agent, history)
    assert len(guard.of("after")) == 3
    assert {told.verdict.action for told in guard.told} == {"allow", "warn"}
    assert guard.of("compacted") == []


def test_agents_at_the_same_time(behind: Behind, guard: WritingGuard) -> None:
    """With the same words and the same ids of calls, in sessions of their own."""
    watched(guard)
    agent = Agent(Chat, False, behind)
    behind.provider.script([[Ask(tool="look", call_id="same")]] * 20)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: looped(agent, 4, litellm_session_id=name), "abcd"))
    runs = {(told.session_id, told.run_id) for told in guard.told}
    assert {session for session, _ in runs} == set("abcd")
    assert len(runs) == 4
    assert len(guard.of("before")) == 16


def test_an_agent_below_another_is_its_own_run(chat: Agent, guard: WritingGuard) -> None:
    watched(guard)
    chat.behind.provider.script(asking(9))
    above = looped(chat, 2, litellm_session_id="s")
    below: list[Item] = [Chat.person("find a")]
    step(chat, below, litellm_session_id="s")
    step(chat, above, litellm_session_id="s")
    runs = [told.run_id for told in guard.of("before")]
    assert runs[0] == runs[1] == runs[3] != runs[2]
    assert {told.session_id for told in guard.told} == {"s"}


@pytest.mark.parametrize("kept", [True, False])
def test_a_history_that_is_only_a_summary(agent: Agent, guard: WritingGuard, kept: bool) -> None:
    """It goes on with the run whose model wrote the summary; other words begin another run."""
    watched(guard)
    provider = agent.behind.provider
    provider.script(asking(3))
    history = looped(agent, 3)
    provider.script([], last=f"<summary>\n{SUMMARY}\n</summary>")
    step(agent, [*history, agent.form.person("sum it up")])
    provider.script([[Ask(tool="look", call_id="d1")]])
    words = f"This goes on from before.\n{SUMMARY}" if kept else "What is new about b, if there is anything?"
    step(agent, [agent.form.person(words)])
    assert len(guard.of("compacted")) == kept
    first, *_, last = [told.run_id or "" for told in guard.of("before")]
    assert (last == first) is kept


def test_a_person_begins_a_new_run_after_an_abort(agent: Agent) -> None:
    guard = WritingGuard(CONFIG | {"onCritical": "abort"})
    watched(guard)
    agent.behind.provider.script(asking(9))
    history = looped(agent, 5)
    for _ in range(2):
        with pytest.raises(Refused, match="the run ends here"):
            step(agent, history)
    assert len(agent.behind.provider.bodies) == 6
    step(agent, [*history, agent.form.person("try again")])
    runs = [told.run_id for told in guard.of("before")]
    assert runs[-1] == f"{runs[0]}-2"


def test_a_history_that_the_provider_keeps(behind: Behind, guard: WritingGuard) -> None:
    """Requests that name the response before hold only what is new."""
    agent = Agent(FORMATS["responses"], False, behind)
    watched(guard)
    behind.provider.script(asking(6))
    news: list[Item] = [agent.form.person("hello")]
    more: dict[str, Any] = {}
    for number in range(6):
        response = agent.ask(news, ["look"], **more)
        more = {"previous_response_id": response.json()["id"]}
        news = [agent.form.answer(f"c{number + 1}", "nothing")]
    assert [told.verdict.action for told in guard.of("before")] == [*["allow"] * 3, "warn", "warn", "block"]
    assert len({told.run_id for told in guard.told}) == 1
    assert "refused" in json.dumps(behind.provider.bodies[-1])


def test_conversations_are_bounded(chat: Agent, guard: WritingGuard) -> None:
    callback = watched(guard, max_conversations=2)
    for name in "abcd":
        chat.behind.provider.script([[Ask(tool="look", call_id=f"{name}{number}")] for number in range(3)])
        looped(chat, 3)
    assert len(callback._conversations) == 2
    assert len(callback._conversations._names) == 2 * 3 * 2


def test_workers_share_through_a_store(agent: Agent, tmp_path: Path) -> None:
    """Each request goes to the other worker, as a balancer does it."""
    guards = [WritingGuard(store=f"sqlite:{tmp_path}/runs") for _ in range(2)]
    workers = [LoopGuardCallback(guard) for guard in guards]
    agent.behind.provider.script([*asking(6), [Ask(tool="fresh", call_id="d1")]])
    history: list[Item] = [agent.form.person("hello")]
    for number in range(7):
        litellm.callbacks = [workers[number % 2]]
        step(agent, history)
    told = guards[0].told + guards[1].told
    assert len({each.run_id for each in told}) == 1
    assert sorted(each.call_id or "" for each in told if each.verb == "before") == [
        *(f"c{number}" for number in range(1, 7)),
        "d1",
    ]
    assert sorted(each.verdict.action for each in told if each.verb == "before") == [
        *["allow"] * 4,
        "block",
        *["warn"] * 2,
    ]
    assert "compacted" not in {each.verb for each in told}
    warned = [agent.form.shown(body[agent.form.field]) for _, body in agent.behind.provider.bodies[4:]]
    assert all("same arguments" in dict(shown)["c4"] for shown in warned)
    for guard in guards:
        guard.close()


def test_another_api_in_front_of_the_same_model(behind: Behind, guard: WritingGuard) -> None:
    """The host turns Anthropic's messages into chat completions, or the other way round."""
    for form, model, streams in (
        ("anthropic", "chat", False),
        ("anthropic", "chat", True),
        ("chat", "claude", False),
    ):
        watched(guard)
        guard.told.clear()
        agent = Agent(FORMATS[form], streams, behind)
        behind.provider.script([*asking(6), [Ask(tool="fresh", call_id="d1")]])
        history = [agent.form.person("hello")]
        for _ in range(7):
            step(agent, history, model=model)
        assert [told.verdict.action for told in guard.of("before")].count("block") == 1
        assert len(behind.provider.bodies) == 8


def test_the_second_question_is_paid_by_the_same_key(chat: Agent, guard: WritingGuard) -> None:
    paid: list[Any] = []

    class Bill(CustomLogger):
        async def async_log_success_event(
            self, kwargs: Any, response_obj: Any, *times: Any, **named: Any
        ) -> None:
            paid.append(kwargs["litellm_params"]["metadata"].get("user_api_key_hash"))

    litellm.callbacks = [LoopGuardCallback(guard), Bill()]
    chat.behind.provider.script(asking(6))
    looped(chat, 6)
    litellm.callbacks = []
    for _ in range(100):
        if len(paid) >= 7:
            break
        chat.ask([Chat.person("and you?")], ["look"])  # what is logged is logged some requests later
    assert len(set(paid)) == 1
    assert None not in paid


def test_a_client_that_streams(behind: Behind, guard: WritingGuard) -> None:
    """The client of OpenAI puts together what comes before and after a refusal."""
    watched(guard)
    behind.provider.script([*asking(6), [Ask(tool="fresh", call_id="d1")]], words="let me see ")
    history = looped(Agent(Chat, True, behind), 5)
    client = openai.OpenAI(base_url=f"{behind.address}/v1", api_key=KEY, max_retries=0)
    with client.chat.completions.stream(
        model="chat", messages=history, tools=Chat.tools(["look", "fresh"])
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.content == "let me see let me see "
    assert [(call.id, call.function.name) for call in message.tool_calls] == [("d1", "fresh")]


@pytest.mark.parametrize("odd", ["x", [3], [{"role": "tool"}], [{"role": "assistant", "tool_calls": [{}]}]])
def test_odd_requests_get_the_answer_of_the_host(chat: Agent, guard: WritingGuard, odd: Any) -> None:
    answers = []
    for callbacks in ([], [LoopGuardCallback(guard)]):
        litellm.callbacks = callbacks
        chat.behind.provider.script([])
        answers.append(chat.ask(odd, ["look"]).status_code)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("wrong", [{"asks_again": -1}, {"max_conversations": 0}])
def test_numbers_that_are_out_of_range(guard: WritingGuard, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="allowed"):
        LoopGuardCallback(guard, **wrong)


def test_the_proxy_as_a_process(tmp_path: Path) -> None:
    """`litellm --config`, with the guard by its name and the configuration by the variable."""
    (tmp_path / "loopwarden.json5").write_text(json.dumps(CONFIG))
    provider = Provider()
    server = serving(provider)
    path = config(tmp_path, server.server_port, "loopwarden.adapters.litellm.proxy_guard")
    port = free_port()
    command = [
        Path(sys.executable).with_name("litellm"),
        "--config",
        path,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    env = os.environ | {"LOOPWARDEN_CONFIG": str(tmp_path / "loopwarden.json5")}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=log, stderr=log)
    try:
        agent = Agent(Chat, True, Behind(f"http://127.0.0.1:{port}", provider))
        wait_for(agent, process)
        provider.script([*asking(6), [Ask(tool="fresh", call_id="d1")]])
        history = looped(agent, 6)
        assert "d1" in json.dumps(history)
        assert len(provider.bodies) == 7
    finally:
        process.terminate()
        process.wait(20)
        server.shutdown()
