"""What every adapter has to do, as one suite: a host's test module gives a `Host` and inherits `Contract`.

    class TestMyHost(Contract):
        @pytest.fixture(params=["sync", "async", "stream"])
        def host(self, request):
            return MyHost(request.param)

Where a host can't do something, its `ABILITIES` say so and the contract asks less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.adapters.writing_guard import CONFIG, WritingGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from loopwarden import LoopAborted, LoopGuard
    from loopwarden.adapters import Abilities

# --- what a host's test module implements


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The scripted model asks for a tool."""

    tool: str
    call_id: str
    query: str = "a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the scripted model does.

    Attributes:
        replies: One entry a model reply: the calls it asks for. After the last one it says "done".
        tools: Functions `(query: str) -> str` by name: what the agent has. They count by themselves.
        compact_before: Index of the reply before whose request the history is compacted, by whatever the
            host compacts with; `None`: never.
    """

    replies: list[list[Ask]]
    tools: dict[str, Callable[[str], str]]
    compact_before: int | None = None


@dataclass(slots=True, kw_only=True)
class Ran:
    """What came of a run.

    Attributes:
        answers: Every result that the model was shown, by call id (for a host without ids, the id of the
            `Ask` it answers); each as the plain text that the model reads, each different one once.
        requests: How often the model was asked.
        text: The final answer, `None` where the run did not end by itself.
        raised: What came out of the run, as the host raised it.
        aborted: What the adapter's documented way makes of `raised` (or of a run that ended): the signal.
    """

    answers: dict[str, list[str]] = field(default_factory=dict)
    requests: int = 0
    text: str | None = None
    raised: BaseException | None = None
    aborted: LoopAborted | None = None


class Host(Protocol):
    """Runs an agent of the host, with the host's own or a hand-made model that makes no connection.

    Attributes:
        abilities: The adapter's `ABILITIES`.
        errors_are_text: The host turns a tool's exception into a text that the adapter sees as a result.
        survives_errors: After a tool's exception the model is asked again.
        survives_unknown_tools: After a call of an unknown tool the model is asked again.
    """

    abilities: Abilities
    errors_are_text: bool
    survives_errors: bool
    survives_unknown_tools: bool

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        """One run of a fresh agent; `None`: without the adapter. Never raises what the run raised."""
        ...


# --- the tools, and scripts


class ToolFailure(Exception):  # noqa: N818 - a failure of a tool, as tests name it
    """What the tool `fails` raises."""


@dataclass(slots=True)
class Tools:
    """`look` always says the same, `fresh` never does, `fails` raises; `ran` counts who ran with what."""

    ran: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self) -> dict[str, Callable[[str], str]]:
        def look(query: str) -> str:
            """Look something up."""
            self.ran.append(("look", query))
            return f"nothing about {query}"

        def fresh(query: str) -> str:
            """Give something new."""
            self.ran.append(("fresh", query))
            return f"{query}: item {len(self.ran)}"

        def fails(query: str) -> str:
            """Fail."""
            self.ran.append(("fails", query))
            raise ToolFailure(f"no {query} here")

        return {"look": look, "fresh": fresh, "fails": fails}


def asking(count: int, tool: str = "look", query: str = "a") -> list[list[Ask]]:
    """`count` replies, each asks once for the same."""
    return [[Ask(tool=tool, query=query, call_id=f"c{number}")] for number in range(1, count + 1)]


# --- the contract


class Contract:
    """Inherit, give the fixture `host`; add what only this host has."""

    @pytest.fixture
    def tools(self) -> Tools:
        return Tools()

    @pytest.fixture
    def guard(self) -> WritingGuard:
        return WritingGuard()

    def test_allow_changes_nothing(self, host: Host, tools: Tools, guard: WritingGuard) -> None:
        replies = [*asking(3), [Ask(tool="look", call_id=query, query=query) for query in "bc"]]
        guarded = host.run(guard, Script(replies=replies, tools=tools()))
        ran = len(tools.ran)
        assert guarded == host.run(None, Script(replies=replies, tools=tools()))
        assert (guarded.text, guarded.raised, ran) == ("done", None, 5)
        assert {told.verdict.action for told in guard.told} == {"allow"}

    def test_every_call_is_told_once_with_its_outcome(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        two = [Ask(tool="look", call_id="c1"), Ask(tool="fresh", call_id="c2", query="b")]
        replies = [two, [Ask(tool="fresh", call_id="c3", query="b")]]
        host.run(guard, Script(replies=replies, tools=tools()))
        before, after = guard.of("before"), guard.of("after")
        assert sorted((told.tool, told.arguments) for told in before) == [
            ("fresh", {"query": "b"}),
            ("fresh", {"query": "b"}),
            ("look", {"query": "a"}),
        ]
        assert len({told.call_id for told in before}) == len(before) == len(after) == len(tools.ran)
        assert sorted(told.call_id or "" for told in after) == sorted(told.call_id or "" for told in before)
        if host.abilities.call_ids:
            assert {told.call_id for told in before} == {"c1", "c2", "c3"}
        assert all(told.error is None and told.unknown_tool is None for told in after)
        assert "nothing about a" in str([told.result for told in after])

    def test_a_run_has_one_id_and_the_next_another(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        ids = []
        for _ in range(2):
            guard.told.clear()
            host.run(guard, Script(replies=asking(2), tools=tools()))
            runs = {(told.session_id, told.run_id) for told in guard.told}
            assert len(runs) == 1
            ids += runs
        assert ids[0] != ids[1]
        assert all(run_id is not None for _, run_id in ids)

    def test_calls_of_one_reply_share_a_turn(self, host: Host, tools: Tools, guard: WritingGuard) -> None:
        if not host.abilities.turns:
            pytest.skip("the host does not tell replies apart")
        pairs = [("c1", "c2"), ("c3", "c4")]
        replies = [[Ask(tool="look", call_id=one, query=one) for one in pair] for pair in pairs]
        host.run(guard, Script(replies=replies, tools=tools()))
        turns: dict[str | None, list[object]] = {}
        for told in guard.of("before"):
            turns.setdefault(told.turn_id, []).append(told.arguments)
        assert None not in turns
        assert [len(calls) for calls in turns.values()] == [2, 2]

    def test_a_warning_reaches_the_model_once_with_the_result(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        ran = host.run(guard, Script(replies=asking(5), tools=tools()))
        actions = [told.verdict.action for told in guard.of("before")]
        assert actions == ["allow", "allow", "allow", "warn", "warn"]
        message = guard.of("before")[3].verdict.message
        assert message
        assert {len(answers) for answers in ran.answers.values()} == {1}
        plain = ran.answers["c1"][0]
        warned = ran.answers["c4"][0]
        assert [ran.answers[f"c{number}"] for number in (2, 3, 5)] == [[plain]] * 3
        assert (ran.text, len(tools.ran)) == ("done", 5)
        assert "nothing about a" in plain
        if host.abilities.warns == "result":
            assert message in warned
            assert "nothing about a" in warned
        else:
            assert warned == plain

    def test_a_warning_is_no_progress(self, host: Host, tools: Tools, guard: WritingGuard) -> None:
        """The result is told to the guard as the tool gave it, so that the loop is refused in the end."""
        host.run(guard, Script(replies=asking(6), tools=tools()))
        assert [told.verdict.action for told in guard.of("before")][5] == "block"
        assert len({str(told.result) for told in guard.of("after")}) == 1

    def test_a_refused_call_does_not_run_and_gets_one_answer(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        replies = [*asking(7), [Ask(tool="look", call_id="d1", query="b")]]
        ran = host.run(guard, Script(replies=replies, tools=tools()))
        refused = [told for told in guard.of("before") if told.verdict.action == "block"]
        assert len(refused) == 2
        assert not {told.call_id for told in refused} & {told.call_id for told in guard.of("after")}
        assert [query for _, query in tools.ran] == ["a"] * 5 + ["b"]
        for name, told in zip(("c6", "c7"), refused, strict=True):
            assert len(ran.answers[name]) == 1
            assert told.verdict.message
            assert told.verdict.message in ran.answers[name][0]
        assert "nothing about b" in ran.answers["d1"][0]
        assert (ran.text, ran.raised) == ("done", None)

    def test_a_refused_call_beside_an_allowed_one(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        pair = [Ask(tool="look", call_id="d1"), Ask(tool="fresh", call_id="d2", query="b")]
        ran = host.run(guard, Script(replies=[*asking(5), pair], tools=tools()))
        assert tools.ran[5:] == [("fresh", "b")]
        assert [len(ran.answers[name]) for name in ("d1", "d2")] == [1, 1]
        assert "b: item" in ran.answers["d2"][0]
        assert ran.text == "done"

    def test_an_abort_ends_the_run(self, host: Host, tools: Tools) -> None:
        guard = WritingGuard(CONFIG | {"onCritical": "abort"})
        ran = host.run(guard, Script(replies=asking(9), tools=tools()))
        assert len(tools.ran) == 5
        self._aborted(host, ran, "tool_loop_persisted")
        if host.abilities.aborts != "refuses":
            assert ran.requests == 6

    def test_identical_calls_after_a_compaction_end_the_run(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        if host.abilities.compaction == "no":
            pytest.skip("the host does not compact, or does not say so")
        script = Script(replies=asking(8), tools=tools(), compact_before=2)
        ran = host.run(guard, script)
        assert len(guard.of("compacted")) == 1
        assert len(tools.ran) == 5
        self._aborted(host, ran, "compaction_loop_persisted")

    def test_without_a_compaction_nothing_is_armed(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        host.run(guard, Script(replies=asking(6, "fresh"), tools=tools()))
        assert guard.of("compacted") == []

    def test_the_tools_own_exception_travels_on(self, host: Host, tools: Tools, guard: WritingGuard) -> None:
        guarded = host.run(guard, Script(replies=asking(1, "fails"), tools=tools()))
        plain = host.run(None, Script(replies=asking(1, "fails"), tools=tools()))
        assert type(guarded.raised) is type(plain.raised)
        assert str(guarded.raised) == str(plain.raised)
        assert (guarded.answers, guarded.text) == (plain.answers, plain.text)
        assert len(tools.ran) == 2
        (after,) = guard.of("after")
        if not host.errors_are_text:
            assert after.error is not None
            assert "no a here" in str(after.error)

    def test_a_failing_tool_is_refused_in_the_end(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        if not host.survives_errors:
            pytest.skip("the host ends the run at a tool's exception")
        host.run(guard, Script(replies=asking(6, "fails"), tools=tools()))
        assert len(tools.ran) == 5
        assert len(guard.of("before")) == 6

    def test_unknown_tools_are_seen(self, host: Host, tools: Tools, guard: WritingGuard) -> None:
        if host.abilities.unknown_tools == "no":
            pytest.skip("the host does not show calls of unknown tools")
        count = 2 if host.survives_unknown_tools else 1
        host.run(guard, Script(replies=asking(count, "nope"), tools=tools()))
        assert [told.tool for told in guard.of("before")] == ["nope"] * count
        assert [told.unknown_tool for told in guard.of("after")] == ["nope"] * count
        assert tools.ran == []

    def test_observing_changes_nothing(self, host: Host, tools: Tools) -> None:
        guard = WritingGuard(mode="observe")
        observed = host.run(guard, Script(replies=asking(12), tools=tools()))
        plain = host.run(None, Script(replies=asking(12), tools=tools()))
        assert observed == plain
        assert "abort" in {told.verdict.would for told in guard.told}

    def test_a_fault_in_the_guard_never_breaks_the_agent(
        self, host: Host, tools: Tools, guard: WritingGuard
    ) -> None:
        plain = host.run(None, Script(replies=asking(7), tools=tools()))
        del guard._runs
        assert host.run(guard, Script(replies=asking(7), tools=tools())) == plain

    def _aborted(self, host: Host, ran: Ran, error: str) -> None:
        if host.abilities.aborts == "refuses":
            assert ran.raised is None
            return
        if host.abilities.aborts == "raises":
            assert ran.raised is not None
        assert ran.aborted is not None
        assert ran.aborted.verdict.error == error
        assert ran.text is None
