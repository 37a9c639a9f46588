"""Loops written by hand: which list is which conversation, and how one goes on after an abort."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwarden import LoopAborted
from loopwarden.adapters.messages import GuardedMessages, closing
from tests.adapters.contract import Ask, asking
from tests.adapters.test_messages import FORMATS, HELLO, played
from tests.adapters.writing_guard import WritingGuard


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Any:
    return FORMATS[request.param]


@pytest.fixture
def guard() -> WritingGuard:
    return WritingGuard()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


SYSTEM: dict[str, Any] = {"role": "system", "content": "You help."}
SAID: dict[str, Any] = {"role": "assistant", "content": "So far we looked at a, and nothing was ever found."}


@pytest.mark.parametrize(
    ("ending", "left", "compacted"),
    [
        ([], [SYSTEM, user("another question")], False),
        ([], [SYSTEM, HELLO], False),
        ([], [SYSTEM, user("hi"), {"role": "assistant", "content": "Hello!"}, user("and this?")], False),
        ([{"role": "assistant", "content": "done"}], [SYSTEM, user("another question")], False),
        ([{"role": "assistant", "content": "done"}], [SYSTEM, user("Make a summary of b")], False),
        ([], [SYSTEM, HELLO, user("what was so far")], True),
        ([], [SYSTEM, HELLO, {"role": "assistant", "content": "what was so far"}], True),
        ([], [user("<summary>a was looked at</summary>")], True),
        ([], [user("This session is being continued from a previous conversation ...")], True),
        ([], [user("hello")], False),
        ([SAID], [user(f"<context>{SAID['content']}</context>")], True),
    ],
)
def test_a_list_that_has_nothing_of_the_last_one(
    form: Any, guard: WritingGuard, ending: list[Any], left: list[Any], compacted: bool
) -> None:
    """What a client leaves of a history is told from another conversation, which begins a run."""
    guarded = GuardedMessages(guard, run_id="r")
    history = played(form, guarded, 3)
    if ending:
        guarded.judge([*history, *ending])
    guarded.judge([*left, form.reply([Ask(tool="look", call_id="d1")])])
    assert len(guard.of("compacted")) == compacted
    assert guard.of("before")[-1].run_id == ("r" if compacted else "r-2")
    assert guard.of("retract") == []


def test_a_list_that_says_the_task_again_was_compacted(form: Any, guard: WritingGuard) -> None:
    guarded, task = GuardedMessages(guard), "Find out whether there is anything about a."
    history = [user(task)]
    for asks in asking(3):
        history.append(form.reply(asks))
        judged = guarded.judge(history)
        history += judged.answers({call.call_id: "nothing about a" for call in judged.run})
    guarded.judge([user(f"{task} So far: nothing."), form.reply([Ask(tool="look", call_id="d1")])])
    assert len(guard.of("compacted")) == 1


MANY = st.lists(st.sampled_from("ab"), min_size=1, max_size=30)


def grown(form: Any, guarded: GuardedMessages, history: list[Any], name: str) -> bool:
    """One more reply of a conversation with what came of it; whether the run was ended."""
    history.append(form.reply([Ask(tool="look", call_id=f"{name}{len(history)}")]))
    try:
        judged = guarded.judge(history)
    except LoopAborted:
        return True
    history += judged.answers({call.call_id: "nothing about a" for call in judged.run})
    return False


@given(turns=MANY)
@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("kind", FORMATS)
def test_lists_in_any_order_are_judged_as_each_by_itself(kind: str, turns: list[str]) -> None:
    """One object is meant for one conversation; where it gets several, they do not mix."""
    form, guard = FORMATS[kind], WritingGuard()
    shared = GuardedMessages(guard)
    mixed = {name: [SYSTEM, user(f"question {name}")] for name in "ab"}
    alone = {name: [SYSTEM, user(f"question {name}")] for name in "ab"}
    own = {name: GuardedMessages(WritingGuard()) for name in "ab"}
    ended: set[str] = set()
    for name in turns:
        if name not in ended and grown(form, shared, mixed[name], name):
            ended.add(name)
    still = set(ended)
    for name in turns:
        if len(alone[name]) < len(mixed[name]) and grown(form, own[name], alone[name], name):
            still.discard(name)
    assert (mixed, still) == (alone, set())
    assert guard.of("compacted") == []


def test_short_lists_one_after_the_other_are_good(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    for number in range(8):
        history = [user(f"question {number}")]
        for place in range(3):
            history.append(form.reply([Ask(tool="look", call_id=f"z{number}-{place}")]))
            judged = guarded.judge(history)
            history += judged.answers({call.call_id: "nothing about a" for call in judged.run})
    assert {told.verdict.action for told in guard.told if told.verdict is not None} == {"allow"}
    assert guard.of("compacted") == []


def test_a_list_after_one_that_was_aborted_goes_on(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    with pytest.raises(LoopAborted):
        played(form, guarded, 40)
    judged = guarded.judge([user("something else"), form.reply([Ask(tool="look", call_id="d1")])])
    assert [call.call_id for call in judged.run] == ["d1"]


def test_a_list_that_is_wound_back_by_several_replies(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    history = played(form, guarded, 4)
    assert [call.call_id for call in guarded.judge(history[:4]).run] == ["c2"]
    assert guard.of("compacted") == []


def test_the_same_id_with_other_arguments_is_another_call(form: Any, guard: WritingGuard) -> None:
    guarded = GuardedMessages(guard)
    for query in ("a", "b"):
        judged = guarded.judge([HELLO, form.reply([Ask(tool="look", call_id="c1", query=query)])])
        assert [call.arguments for call in judged.run] == [{"query": query}]


@pytest.mark.parametrize("ran", [{}, {"c2": "found b"}, {"c2": ValueError("no")}])
def test_calls_without_answers_are_closed(form: Any, guard: WritingGuard, ran: dict[str, Any]) -> None:
    guarded = GuardedMessages(guard)
    history = played(form, guarded, 1)
    history.append(form.reply([Ask(tool="look", call_id="c2"), Ask(tool="look", call_id="c3")]))
    guarded.judge(history)
    added = closing(history, "The run was ended.", ran)
    shown = (
        ("ValueError: no" if isinstance(ran["c2"], Exception) else ran["c2"]) if ran else "The run was ended."
    )
    assert form.shown(added) == [("c2", shown), ("c3", "The run was ended.")]
    assert closing([*history, *added], "The run was ended.") == []


def test_what_is_answered_needs_no_closing(form: Any) -> None:
    history = [HELLO, form.reply([Ask(tool="look", call_id="c1"), Ask(tool="look", call_id="c2")])]
    assert closing([], "ended") == closing([HELLO], "ended") == []
    part = [*history, form.answer("c1", "nothing about a")]
    assert form.shown(closing(part, "ended")) == [("c2", "ended")]


def test_a_conversation_goes_on_after_an_abort(form: Any, guard: WritingGuard) -> None:
    """With its open calls closed and a person's next message the list is a whole one, and a new run."""
    guarded = GuardedMessages(guard)
    history = [HELLO]
    for asks in asking(40):
        history.append(form.reply(asks))
        try:
            judged = guarded.judge(history)
        except LoopAborted as aborted:
            history += closing(history, aborted.verdict.message or "")
            break
        history += judged.answers({call.call_id: "nothing about a" for call in judged.run})
    assert len(form.shown(history)) == len([each for each in history if each["role"] == "assistant"])
    history += [user("try b"), form.reply([Ask(tool="look", call_id="d1", query="b")])]
    assert [call.call_id for call in guarded.judge(history).run] == ["d1"]
