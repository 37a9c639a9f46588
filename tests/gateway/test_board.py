"""The board: what the guard and the runner tell becomes rows, in bounds."""

from __future__ import annotations

import threading
from typing import Any

from loopwarden.gateway.attended import AttendedGuard
from loopwarden.gateway.board import Board
from loopwarden.gateway.names import run_name
from loopwarden.gateway.observers import Speaker
from loopwarden.runner.happenings import Happening


def boarded(*, agent: str | None = None, settings: Any = None, **options: Any) -> tuple[Board, AttendedGuard]:
    board = Board(**options)
    guard = AttendedGuard(
        settings
        if settings is not None
        else {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5},
        decisions=board.decisions,
        record=board.observer(lambda: Speaker(agent, "enforce")),
        agent_id=agent,
        on_error="raise",
    )
    return board, guard


def run(guard: AttendedGuard, *calls: tuple[str, Any, Any], start: int = 0, run: str = "r") -> list[str]:
    """Calls as (tool, arguments, result); the actions."""
    verbs, actions = guard.session("s"), []
    for number, (tool, arguments, result) in enumerate(calls, start):
        verdict = verbs.before(tool, arguments, call_id=f"c{number}", run_id=run)
        actions.append(verdict.action)
        if verdict.action in {"allow", "warn"}:
            verbs.after(f"c{number}", result=result, run_id=run)
    return actions


def card(board: Board, *, agent: str | None = None, mode: str = "enforce", run: str | None = "r") -> Any:
    found = board.card(run_name(agent, mode, "s", run))
    assert found is not None
    return found


def told(board: Board, kind: Any, number: int = 1, **data: Any) -> None:
    board(
        Happening(kind=kind, agent="a", session="s", run="r", time=1000.0 + number, number=number, data=data)
    )


SAME = ("read", {"path": "a"}, "same")


def test_calls_verdicts_and_counts() -> None:
    board, guard = boarded()
    assert run(guard, *[SAME] * 7) == ["allow"] * 3 + ["warn"] * 2 + ["block"] * 2
    found = card(board)
    assert [call.state for call in found.calls] == ["ok"] * 5 + ["refused"] * 2
    assert [call.same for call in found.calls][:3] == [None, True, True]
    assert (found.counts.calls, found.counts.warned, found.counts.refused) == (7, 2, 2)
    (loop,) = found.loops.values()
    assert (loop.detector, loop.level, loop.warned, loop.refused) == ("generic_repeat", "critical", 2, 2)
    assert found.calls[0].glimpse.text == 'path: "a"'


def test_signatures_have_colours_once_they_repeat_and_strong_ones_in_loops() -> None:
    board, guard = boarded()
    other = ("look", {"at": "b"}, "x")
    run(guard, SAME, other, other, SAME, SAME, ("once", {}, "y"), SAME)
    found = card(board)
    classes = [found.colours.get(call.signature, "u") for call in found.calls]
    assert classes == ["s1", "m1", "m1", "s1", "s1", "u", "s1"]


def test_a_call_keeps_its_colour_once_the_guard_has_ended_the_run() -> None:
    """Then the guard does not tell any more what it compares calls by."""
    board, guard = boarded(
        settings={"enabled": True, "warningThreshold": 3, "criticalThreshold": 5, "onCritical": "abort"}
    )
    other = ("read", {"path": "b"}, "same")
    run(guard, other, *[SAME] * 12, other, ("read", {"path": "c"}, "same"))
    found = card(board)
    assert found.ending.reason == "aborted"
    first, *same, last, new = [call.signature for call in found.calls]
    assert len(set(same)) == 1
    assert first == last
    assert len({first, same[0], new}) == 3


def test_calls_of_a_paused_run_have_the_colours_of_those_before() -> None:
    board, guard = boarded(agent="a")
    run(guard, SAME)
    board.decisions.pause(card(board, agent="a").name)
    told(board, "call", tool="read", arguments={"path": "a"}, call_id="c5", turn_id="t")  # the runner first
    run(guard, SAME, ("read", {"path": "a" * 9}, "same"), start=5)
    before, same, other = [call.signature for call in card(board, agent="a").calls]
    assert before == same != other


def test_an_observing_guard_is_shown_as_such() -> None:
    board, guard = boarded(settings={"warningThreshold": 3, "criticalThreshold": 5})
    assert set(run(guard, *[SAME] * 7)) == {"allow"}
    found = card(board)
    assert found.observes
    assert (found.counts.warned, found.counts.refused) == (0, 0)
    assert (found.counts.would_warn, found.counts.would_refuse) == (2, 2)
    assert found.calls[6].would == "block"


def test_the_armed_window_goes_down_and_the_end_says_why() -> None:
    board, guard = boarded()
    verbs = guard.session("s")
    run(guard, SAME)
    verbs.compacted(run_id="r")
    assert (card(board).armed.window, card(board).armed.left) == (3, 3)
    run(guard, SAME, start=10)
    assert card(board).armed.left == 2
    run(guard, ("read", {"path": "a"}, "new"), SAME, start=20)
    assert card(board).armed is None
    assert card(board).ending is None
    verbs.compacted(run_id="r")
    run(guard, SAME, SAME, SAME, start=30)
    found = card(board)
    assert (found.ending.reason, found.ending.code) == ("aborted", "compaction_loop_persisted")
    assert "read" in found.ending.text
    assert found.calls[-1].action == "abort"
    assert found.calls[-1].state == "ok"


def test_identical_calls_of_one_reply_take_one_place_in_the_window() -> None:
    board, guard = boarded()
    verbs = guard.session("s")
    verbs.before("look", {}, call_id="x", run_id="r")
    verbs.compacted(run_id="r")
    for number in range(3):
        verbs.before("read", {"path": "a"}, call_id=f"c{number}", run_id="r", turn_id="t")
    for number in range(3):
        verbs.after(f"c{number}", result="same", run_id="r")
    assert card(board).armed.left == 2


def test_nothing_is_armed_where_the_guard_is_off() -> None:
    board, guard = boarded(settings={"enabled": False})
    run(guard, SAME, SAME)
    guard.session("s").compacted(run_id="r")
    found = card(board)
    assert found.armed is None
    assert found.counts.compactions == 1
    assert found.calls[0].signature == found.calls[1].signature
    assert [call.state for call in found.calls] == ["ok", "ok"]


def test_a_call_that_was_let_through_is_one_call() -> None:
    board, guard = boarded()
    run(guard, *[SAME] * 6)
    (loop,) = card(board).loops.values()
    board.decisions.release(card(board).name, loop.name)
    assert run(guard, SAME, start=10) == ["allow"]
    found = card(board)
    assert found.counts.calls == 7
    assert found.counts.refused == 1
    assert found.calls[-1].released
    assert found.calls[-1].state == "ok"
    assert found.ending is None


def test_calls_of_a_paused_run_are_shown_as_not_guarded() -> None:
    board, guard = boarded()
    run(guard, SAME)
    board.decisions.pause(card(board).name)
    run(guard, *[SAME] * 3, start=10)
    found = card(board)
    assert [call.skipped for call in found.calls] == [False, True, True, True]
    assert [call.state for call in found.calls] == ["ok"] * 4


def test_a_run_that_is_forgotten_is_over_until_it_goes_on() -> None:
    board, guard = boarded()
    run(guard, SAME)
    guard.session("s").forget(run_id="r")
    assert card(board).ending.reason == "over"
    run(guard, SAME, start=5)
    assert card(board).ending is None


def test_a_run_goes_on_under_another_id() -> None:
    board, guard = boarded()
    run(guard, SAME)
    guard.session("s").compacted(run_id="r2", continues="r")
    found = card(board)
    assert found.run == "r2"
    assert found.name == run_name(None, "enforce", "s", "r2")
    assert found.counts.calls == 1


def test_retractions_failures_and_user_messages() -> None:
    board, guard = boarded()
    verbs = guard.session("s")
    verbs.before("a", {}, call_id="1", run_id="r")
    verbs.before("b", {}, call_id="2", run_id="r")
    verbs.after("2", error="no", run_id="r")
    verbs.before("c", {}, call_id="3", run_id="r")
    verbs.after("3", result={"content": [], "details": {"exitCode": 2}}, run_id="r")
    verbs.retract(["1"], run_id="r")
    verbs.user_message(run_id="r")
    found = card(board)
    assert [call.state for call in found.calls] == ["retracted", "failed", "failed"]
    assert found.counts.failed == 2
    assert [note.kind for note in found.notes] == ["user"]


def test_the_same_call_seen_again_is_one_row() -> None:
    board, guard = boarded()
    for _ in range(3):
        guard.session("s").before("a", {}, call_id="1", run_id="r")
    assert len(card(board).calls) == 1


def test_the_runner_and_the_guard_tell_of_the_same_calls() -> None:
    board, guard = boarded(agent="a")
    told(board, "began", 1, trigger="spawn", task="do it, password=hunter2secret", parent="up")
    for number in range(2):
        told(board, "call", tool="read", arguments={"path": "a"}, call_id=f"c{number}", turn_id="t")
        guard.session("s").before("read", {"path": "a"}, call_id=f"c{number}", run_id="r")
        guard.session("s").after(f"c{number}", result="same", run_id="r")
        told(board, "outcome", call_id=f"c{number}", ok=True, text="same")
    # here the guard is the first to tell
    guard.session("s").before("read", {"path": "a"}, call_id="c2", run_id="r")
    told(board, "call", tool="read", arguments={"path": "a"}, call_id="c2", turn_id="t")
    guard.session("s").compacted(run_id="r")
    told(board, "compaction", number=1, tokens_before=900, tokens_after=None, cause="overflow", window=3)
    told(
        board,
        "ended",
        9,
        reason="done",
        answer="ok",
        message="",
        requests=3,
        input_tokens=10,
        output_tokens=2,
    )
    found = card(board, agent="a")
    assert [call.number for call in found.calls] == [1, 2, 3]
    assert len({call.signature for call in found.calls}) == 1
    assert found.calls[1].same is True
    assert found.counts.calls == 3
    assert found.counts.compactions == 1
    assert [note.kind for note in found.notes] == ["began", "compaction"]
    assert "900" in found.notes[1].text
    assert "hunter2" not in found.notes[0].text
    assert (found.trigger, found.parent, found.tokens) == ("spawn", "up", (10, 2))
    assert found.ending.reason == "done"


def test_happenings_alone_are_enough() -> None:
    """As they come out of a journal after a restart."""
    board = Board()
    told(board, "began", trigger="user", task="x", parent=None)
    told(board, "call", tool="read", arguments={"path": "a"}, call_id="1", turn_id=None)
    found = {"action": "warn", "level": "warning", "detector": "generic_repeat", "count": 10, "key": "k"}
    told(board, "verdict", call_id="1", message="m", error=None, would=None, **found)
    told(board, "outcome", call_id="1", ok=False, text="no")
    told(board, "ended", reason="interrupted", code=None, message="killed", answer=None)
    found = card(board, agent="a")
    assert (found.counts.warned, found.counts.failed) == (1, 1)
    assert (found.ending.reason, found.ending.text) == ("interrupted", "killed")


def test_a_call_that_the_run_was_ended_after_has_run() -> None:
    board = Board()
    told(board, "began", trigger="user", task="x", parent=None)
    told(board, "call", tool="read", arguments={"path": "a"}, call_id="1", turn_id=None)
    why = {"action": "abort", "detector": "post_compaction", "error": "compaction_loop_persisted"}
    told(board, "verdict", call_id="1", level="critical", count=3, message="m", key="k", would=None, **why)
    told(board, "outcome", call_id="1", ok=True, text="same")
    found = card(board, agent="a")
    assert (found.calls[0].state, found.calls[0].action, found.counts.refused) == ("ok", "abort", 0)
    assert (found.ending.reason, found.ending.code) == ("aborted", "compaction_loop_persisted")


def test_happenings_without_what_they_should_have_are_taken_as_they_are() -> None:
    board = Board()
    for kind in (
        "began",
        "text",
        "call",
        "verdict",
        "outcome",
        "compaction",
        "user_message",
        "notice",
        "ended",
    ):
        told(board, kind)
        told(
            board, kind, tool=3, call_id=[], text={}, reason=7, action="x", detector=[1], count="n", task=b""
        )
    assert card(board, agent="a").ending is not None


def test_without_arguments_no_text_of_a_run_is_kept() -> None:
    board, guard = boarded(agent="a", show_arguments=False)
    told(board, "began", trigger="user", task="very secret task", parent=None)
    told(board, "text", text="very secret words")
    told(board, "user_message", text="very secret wish")
    told(board, "user_message", text="very secret news", sender="other-session")
    run(guard, ("read", {"path": "very secret path"}, "x"))
    told(board, "ended", reason="done", answer="very secret answer", message="")
    found = card(board, agent="a")
    assert "very secret" not in repr([found.notes, found.ending, found.calls, vars(found)])
    assert found.calls[0].glimpse is None
    assert [note.kind for note in found.notes] == ["began", "text", "user", "agent"]


def test_arguments_are_masked_and_short_and_huge_ones_do_not_stay() -> None:
    board, guard = boarded()
    huge = {
        "password": "hunter2",
        "text": "x" * 1_000_000,
        "list": list(range(100_000)),
        "deep": [[[[[[1]]]]]],
    }
    run(guard, ("write", huge, "x"), ("k" * 1_000_000, {"a" * 1_000_000: 1}, "x"))
    found = card(board)
    assert len(repr(found.calls[0].glimpse._kept)) < 4000
    assert "hunter2" not in found.calls[0].glimpse.text
    assert len(found.calls[0].glimpse.text) <= 160
    assert len(found.calls[1].tool) <= 100


def test_runs_and_calls_are_bounded_and_runs_that_are_over_go_first() -> None:
    board, guard = boarded(most_runs=10, most_calls=30, all_calls=200)
    run(guard, SAME, run="first")
    for number in range(15):
        run(guard, *[("t", {"n": place}, place) for place in range(50)], run=f"r{number}")
        if number == 3:
            guard.session("s").forget(run_id="r3")
    cards = board.cards()
    assert len(cards) == 10
    assert max(len(found.calls) for found in cards) <= 30
    assert sum(len(found.calls) for found in cards) <= 200
    assert board._all == sum(len(found.calls) for found in cards)
    assert "r3" not in {found.run for found in cards}
    assert cards[0].counts.calls == 50


def test_hostile_ids_are_kept_short_and_harmless() -> None:
    board, guard = boarded()
    for text in ("x" * 100_000, "\x1b[31m", "\u202e", "half \ud83d"):
        verbs = guard.session(text)
        verbs.before(text, text, call_id=text, run_id=text, turn_id=text)
        verbs.after(text, result=text, run_id=text)
    cards = board.cards()
    assert len(cards) == 4
    for found in cards:
        assert found.calls[0].state == "ok"
        for name in (found.run, found.session, found.calls[0].tool):
            assert len(name) <= 100
            assert name.isprintable()
            name.encode()


def test_late_events_of_a_run_that_is_gone_make_no_new_one() -> None:
    board, guard = boarded()
    guard.session("s").after("1", result=1, run_id="r")
    guard.session("s").user_message(run_id="r")
    assert board.cards() == []


def test_threads_tell_while_others_read() -> None:
    board, guard = boarded(most_calls=40)
    changed: list[str] = []
    board.changed = changed.append

    def tell(name: str) -> None:
        run(guard, *[("t", {"n": number % 7}, number) for number in range(150)], run=name)

    threads = [threading.Thread(target=tell, args=(f"r{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for found in board.copies([one.name for one in board.cards()]):
            assert sum(1 for _ in found.calls) <= 40
    assert {found.counts.calls for found in board.cards()} == {150}
    assert len(set(changed)) == 4
