"""Loops written by hand around both message formats: the contract, and what only they have."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

import pytest

from loopwarden import LoopAborted, LoopGuard, Outcome
from loopwarden.adapters import Abilities, messages
from loopwarden.adapters.messages import GuardedMessages
from tests.adapters.contract import Ask, Contract, Ran, Script, Tools, asking
from tests.adapters.writing_guard import CONFIG, WritingGuard

HELLO: dict[str, Any] = {"role": "user", "content": "hello"}


class Chat:
    """What the chat completions API says."""

    @staticmethod
    def reply(asks: list[Ask]) -> dict[str, Any]:
        if not asks:
            return {"role": "assistant", "content": "done"}
        calls = [
            {
                "id": ask.call_id,
                "type": "function",
                "function": {"name": ask.tool, "arguments": json.dumps({"query": ask.query})},
            }
            for ask in asks
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    @staticmethod
    def shown(history: list[dict[str, Any]]) -> list[tuple[str, str]]:
        return [(each["tool_call_id"], each["content"]) for each in history if each["role"] == "tool"]

    @staticmethod
    def answer(call_id: str, text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call_id, "content": text}


class Anthropic:
    """What Anthropic's messages API says."""

    @staticmethod
    def reply(asks: list[Ask]) -> dict[str, Any]:
        calls = [
            {"type": "tool_use", "id": ask.call_id, "name": ask.tool, "input": {"query": ask.query}}
            for ask in asks
        ]
        return {"role": "assistant", "content": calls or [{"type": "text", "text": "done"}]}

    @staticmethod
    def shown(history: list[dict[str, Any]]) -> list[tuple[str, str]]:
        return [
            (block["tool_use_id"], block["content"])
            for each in history
            for block in each["content"]
            if isinstance(block, dict) and block["type"] == "tool_result"
        ]

    @staticmethod
    def answer(call_id: str, text: str) -> dict[str, Any]:
        return {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text}],
        }


FORMATS: dict[str, Any] = {"chat": Chat, "anthropic": Anthropic}


class HandWritten:
    """A loop as people write it."""

    abilities: ClassVar[Abilities] = messages.ABILITIES
    errors_are_text = False
    survives_errors = True
    survives_unknown_tools = True

    def __init__(self, form: Any) -> None:
        self.form = form

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        ran = Ran()
        verbs = guard if guard is not None else LoopGuard({"enabled": False})
        guarded = GuardedMessages(verbs, tools=script.tools)
        history = [HELLO]
        for number, asks in enumerate([*script.replies, []]):
            if number == script.compact_before:
                history = [{"role": "user", "content": "what was so far"}, *history[-2:]]
            for call_id, text in self.form.shown(history):
                seen = ran.answers.setdefault(call_id, [])
                seen += [text] if text not in seen else []
            ran.requests += 1
            history.append(self.form.reply(asks))
            try:
                judged = guarded.judge(history)
                results = {call.call_id: outcome(script, call) for call in judged.run}
                history += judged.answers(results) if judged.calls else []
            except LoopAborted as error:
                ran.raised = ran.aborted = error
                return ran
        ran.text = "done"
        return ran


def outcome(script: Script, call: messages.AskedCall) -> object:
    try:
        return script.tools[call.tool](**call.arguments)
    except Exception as error:  # noqa: BLE001 - a loop hands it to the model
        return error


class TestMessages(Contract):
    @pytest.fixture(params=FORMATS)
    def host(self, request: pytest.FixtureRequest) -> HandWritten:
        return HandWritten(FORMATS[request.param])


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Any:
    return FORMATS[request.param]


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


def played(form: Any, guarded: GuardedMessages, count: int) -> list[dict[str, Any]]:
    history = [HELLO]
    for asks in asking(count):
        history.append(form.reply(asks))
        judged = guarded.judge(history)
        history += judged.answers({call.call_id: "nothing about a" for call in judged.run})
    return history


@pytest.mark.parametrize("count", [3, 4, 5, 7])
def test_a_conversation_is_taken_up_again_where_it_was(form: Any, guard: WritingGuard, count: int) -> None:
    """Another process sees the whole list at once, notes and refusals in it, and judges alike."""
    history = played(form, GuardedMessages(guard), count)
    history.append(form.reply([Ask(tool="look", call_id="next")]))
    again = WritingGuard()
    judged = GuardedMessages(again).judge(history)
    assert [told.verdict.action for told in again.of("before")] == [
        *(told.verdict.action for told in guard.of("before")),
        "warn" if count < 5 else "block",
    ][: count + 1]
    assert [told.result for told in again.of("after")] == [told.result for told in guard.of("after")]
    assert [call.call_id for call in judged.calls] == ["next"]


def test_a_loop_that_answers_by_itself(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    history = [HELLO]
    for asks in asking(6):
        history.append(form.reply(asks))
        judged = guarded.judge(history)
        (call,) = judged.calls
        text = judged.refused.get(call.call_id) or "nothing about a"
        if note := judged.notes.get(call.call_id):
            text = f"{text}\n\n{note}"
        history.append(form.answer(call.call_id, text))
    assert len(judged.refused) == 1
    assert len({str(told.result) for told in guard.of("after")}) == 1
    assert len(guard.of("after")) == 5


def test_the_same_list_again_is_the_same_answer(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    history = [HELLO, form.reply([Ask(tool="look", call_id="c1")])]
    assert guarded.judge(history) == guarded.judge(history)
    assert len(guard.of("before")) == 1


def test_a_reply_that_is_made_again_is_rolled_back(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    for name in ("c1", "c2"):
        guarded.judge([HELLO, form.reply([Ask(tool="look", call_id=name)])])
    assert [told.verb for told in guard.told] == ["before", "retract", "before"]
    assert guard.of("compacted") == []


def test_a_list_that_is_wound_back_is_judged_again(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    history = played(form, guarded, 2)
    judged = guarded.judge(history[:2])
    assert [call.call_id for call in judged.run] == ["c1"]
    assert judged.answers({"c1": "nothing about a"}) == [form.answer("c1", "nothing about a")]
    assert [told.verb for told in guard.told] == [
        *["before", "after"] * 2,
        *["retract"] * 2,
        "before",
        "after",
    ]
    assert guard.of("compacted") == []


@pytest.mark.parametrize("kept", ["tail", "head and tail", "nothing"])
def test_a_list_that_lost_turns_was_compacted(form: Any, kept: str) -> None:
    guard = WritingGuard(CONFIG | {"criticalThreshold": 8})
    guarded = GuardedMessages(guard)
    history = played(form, guarded, 3)
    left = {"tail": history[-2:], "head and tail": [*history[1:3], *history[-2:]], "nothing": []}[kept]
    history = [{"role": "user", "content": "A summary of what was so far"}, *left]
    for number in range(1, 4):
        history.append(form.reply([Ask(tool="look", call_id=f"d{number}")]))
        judged = guarded.judge(history)
        results = {call.call_id: "nothing about a" for call in judged.run}
        if number == 3:
            with pytest.raises(LoopAborted, match="compact"):
                judged.answers(results)
        else:
            history += judged.answers(results)
    assert len(guard.of("compacted")) == 1
    assert len({told.run_id for told in guard.told}) == 1


def test_results_from_before_a_compaction_do_not_count_after_it(form: Any, guard: WritingGuard) -> None:
    """The caller answers by itself, and compacts before it shows the list again."""
    guarded = GuardedMessages(guard)
    history = [HELLO]
    for name in ("c1", "c2", "c3"):
        history.append(form.reply([Ask(tool="look", call_id=name)]))
        guarded.judge(history)
        history.append(form.answer(name, "nothing about a"))
    guarded.judge([HELLO, *history[-2:]])
    assert [told.verb for told in guard.told][-3:] == ["before", "after", "compacted"]


def test_a_person_begins_a_new_run(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard, run_id="r")
    history = played(form, guarded, 4)
    history += [form.reply([]), {"role": "user", "content": "again"}, form.reply(asking(1)[0])]
    assert guarded.judge(history).notes == {}
    assert [told.run_id for told in guard.of("before")] == [*["r"] * 4, "r-2"]


def test_a_compaction_by_the_api(guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    history = played(Anthropic, guarded, 2)
    reply = Anthropic.reply([Ask(tool="look", call_id="next")])
    reply["content"].insert(0, {"type": "compaction", "content": "what was so far"})
    guarded.judge([*history, reply])
    assert [told.verb for told in guard.told][-2:] == ["compacted", "before"]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("text", "text"),
        ({"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
        (None, "null"),
        (ValueError("no"), "ValueError: no"),
        ([{"type": "text", "text": "part"}], [{"type": "text", "text": "part"}]),
        ([], "[]"),
    ],
)
def test_results_of_any_shape(form: Any, guard: WritingGuard, result: object, shown: object) -> None:
    judged = GuardedMessages(guard).judge([HELLO, form.reply([Ask(tool="look", call_id="c1")])])
    answers = judged.answers({"c1": result})
    assert form.shown(answers) == [("c1", shown)]
    (told,) = guard.of("after")
    assert (told.error is not None) is isinstance(result, Exception)


@pytest.mark.parametrize(
    ("result", "text", "late"),
    [
        (TimeoutError("20 s"), "TimeoutError: 20 s", True),
        (asyncio.CancelledError(), "CancelledError", True),
        (ExceptionGroup("two", [KeyError("a"), OSError("b")]), "OSError: b", False),
        (ValueError("no"), "ValueError: no", False),
    ],
)
def test_exceptions_say_what_is_in_them(form: Any, result: Any, text: str, late: bool) -> None:
    told: list[Outcome] = []

    class Hears:
        def saw(self, _: Any, event: Any, *__: Any) -> None:
            told.extend([event] if isinstance(event, Outcome) else [])

        def forgot(self, *_: Any) -> None: ...

    guarded = GuardedMessages(LoopGuard(CONFIG, on_error="raise", record=Hears()))
    judged = guarded.judge([HELLO, form.reply([Ask(tool="look", call_id="c1")])])
    (message,) = judged.answers({"c1": result})
    ((_, shown),) = form.shown([message])
    assert text in shown
    assert [(text in (one.error or ""), one.timed_out) for one in told] == [(True, late)]


def test_a_missing_result_is_said(form: Any, guard: WritingGuard) -> None:
    judged = GuardedMessages(guard).judge([HELLO, form.reply([Ask(tool="look", call_id="c1")])])
    with pytest.raises(KeyError, match="c1"):
        judged.answers({})


def test_without_names_the_caller_answers_unknown_tools(form: Any, guard: WritingGuard) -> None:
    judged = GuardedMessages(guard).judge([HELLO, form.reply([Ask(tool="nope", call_id="c1")])])
    assert [call.tool for call in judged.run] == ["nope"]


def test_calls_that_the_api_runs_are_not_asked(guard: WritingGuard) -> None:
    reply = Anthropic.reply([Ask(tool="look", call_id="c1")])
    reply["content"] += [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    ]
    judged = GuardedMessages(guard).judge([HELLO, reply])
    assert [call.call_id for call in judged.calls] == ["c1"]


@pytest.mark.parametrize(
    "odd", [{}, {"role": 3}, {"role": "assistant", "tool_calls": "x"}, {"content": [1, None]}, object()]
)
def test_odd_messages_say_nothing(guard: WritingGuard, odd: Any) -> None:
    assert GuardedMessages(guard).judge([odd, HELLO]).calls == ()
    assert GuardedMessages(guard).judge([]).calls == ()
    assert guard.told == []


def test_the_refusals_end_the_run(form: Any) -> None:
    guard = WritingGuard(CONFIG | {"refusedCallLimit": 2})
    tools = Tools()
    ran = HandWritten(form).run(guard, Script(replies=asking(9), tools=tools()))
    assert ran.aborted is not None
    assert len(tools.ran) == 5
