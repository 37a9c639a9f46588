"""A context that overflows: compaction, the retry, the armed guard, and the ends."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from tests.runner.agents import GUARD, Seen, runner_for
from tests.runner.model_errors import Failure
from tests.runner.model_server import SUMMARY, Call, ModelServer, Reply, Request, asks, overflows

if TYPE_CHECKING:
    from loopwarden.runner.seams import RunResult

numbers = count()


def look(query: str) -> str:
    return f"nothing about {query}"


def page(query: str) -> str:
    """A long result that is never the same."""
    return f"{query} {next(numbers)} " + "word " * 400


def asking(times: int, tool: str = "page") -> list[Reply]:
    return [asks(Call(tool, {"query": f"q{number}"})) for number in range(times)]


def test_an_overflow_is_compacted_and_the_run_goes_on() -> None:
    seen = Seen()
    script = [*asking(6), overflows(4000, 4200), *asking(2, "look"), Reply("Done with it.")]
    with ModelServer(script) as server:
        result = asyncio.run(runner_for(server, seen, page, look).run("main", "Read the pages."))
    assert (result.reason, result.answer) == ("done", "Done with it.")
    (compaction,) = seen.of("compaction")
    assert compaction["number"] == 1
    assert compaction["cause"] == "overflow"
    assert compaction["tokens_before"] == 4200
    assert compaction["tokens_after"] < 4200 * 0.9
    assert compaction["window"] == 3
    assert {one.run for one in seen.all} == {result.run}
    summary = server.requests[7]
    assert summary.asks_for_summary
    assert "Read the pages." in summary.said[-1]
    assert "q0" in summary.said[-1]
    retry = server.requests[8]
    assert retry.messages[0] == server.requests[0].messages[0], "the instructions"
    assert retry.tools == server.requests[0].tools
    assert SUMMARY in retry.said[0]
    assert "Read the pages." in retry.said[0] + retry.said[-1]
    assert list(retry.results)[-1] == list(server.requests[6].results)[-1], "the newest call is kept"
    assert len(json.dumps(retry.messages)) < len(json.dumps(server.requests[6].messages)) / 2
    assert result.requests == 6 + 1 + 3


LM_STUDIO = (
    "Trying to keep the first 4200 tokens when context the overflows. However, the model is loaded with "
    "context length of only 4000 tokens, which is not enough."
)
VLLM = "This model's maximum context length is 4000 tokens. However, you requested 4200 tokens."
PIECE = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Well"}}]}


def streamed(*objects: object, event: str = "") -> Reply:
    """A stream of these objects, which begins well."""
    sent = "".join(f"{event}data: {json.dumps(one)}\n\n" for one in objects)
    return Reply(raw=("text/event-stream", f"data: {json.dumps(PIECE)}\n\n{sent}data: [DONE]\n\n"))


STREAMS = {
    "LM Studio, before": Reply(error=Failure(400, {"error": LM_STUDIO})),
    "LM Studio": streamed({"error": {"message": LM_STUDIO}}, event="event: error\n"),
    "LM Studio, a text": streamed({"error": LM_STUDIO}, event="event: error\n"),
    "vLLM": streamed({"object": "error", "message": VLLM, "type": "BadRequestError", "code": 400}),
    "an event of its own": streamed({"message": VLLM}, event="event: error\n"),
    "alone": Reply(
        raw=("text/event-stream", f"data: {json.dumps({'object': 'error', 'message': VLLM})}\n\n")
    ),
}


@pytest.mark.parametrize("overflow", STREAMS.values(), ids=STREAMS.keys())
def test_an_overflow_in_the_stream_is_one_too(overflow: Reply) -> None:
    seen = Seen()
    with ModelServer([*asking(6), overflow, Reply("Done with it.")]) as server:
        result = asyncio.run(runner_for(server, seen, page, look).run("main", "Read the pages."))
    assert (result.reason, result.answer) == ("done", "Done with it.")
    (compaction,) = seen.of("compaction")
    assert compaction["tokens_before"] >= 4000


@pytest.mark.parametrize(
    ("fault", "reason", "words"),
    [
        (streamed({"object": "error", "message": "out of memory", "code": 500}), "done", "500"),
        (streamed({"object": "error", "message": "no such tool", "code": 400}), "failed", "no such tool"),
        (streamed({"object": "error"}), "done", "connection"),
    ],
    ids=["500", "400", "bare"],
)
def test_another_error_in_the_stream_is_what_it_is(fault: Reply, reason: str, words: str) -> None:
    seen = Seen()
    with ModelServer([fault, Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "Look."))
    assert result.reason == reason
    assert words in " ".join([result.message or "", *(data["text"] for data in seen.of("notice"))])
    assert not seen.of("compaction")


def test_the_same_calls_after_a_compaction_end_the_run() -> None:
    seen = Seen()
    script = [*asking(6), overflows(4000, 4200), *[asks(Call("look", {"query": "a"}))] * 9]
    guard = {"postCompactionGuard": {"windowSize": 3}}  # `enabled` unset: only this guard acts
    with ModelServer(script) as server:
        result = asyncio.run(runner_for(server, seen, page, look, guard=guard).run("main", "Read."))
    assert (result.reason, result.code) == ("aborted", "compaction_loop_persisted")
    assert "look" in (result.message or "")
    assert "3" in (result.message or "")
    calls = [data for data in seen.of("call") if data["tool"] == "look"]
    assert len(calls) == 3
    assert seen.of("verdict")[-1]["error"] == "compaction_loop_persisted"
    assert seen.of("ended")[0]["code"] == "compaction_loop_persisted"


def test_changing_results_after_a_compaction_do_not_end_it() -> None:
    seen = Seen()
    script = [*asking(6), overflows(4000, 4200), *[asks(Call("page", {"query": "a"}))] * 9, Reply("ok")]
    with ModelServer(script) as server:
        result = asyncio.run(runner_for(server, seen, page, guard={}).run("main", "Read."))
    assert (result.reason, result.answer) == ("done", "ok")


def test_each_compaction_arms_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="loopwarden")
    seen = Seen()
    script = [*asking(6), overflows(4000, 4200), *asking(6), overflows(4000, 4200), Reply("ok")]
    with ModelServer(script) as server:
        result = asyncio.run(runner_for(server, seen, page, guard={}).run("main", "Read."))
    assert result.reason == "done"
    armed = [record for record in caplog.records if "guard armed for 3 attempts" in record.getMessage()]
    assert len(armed) == len(seen.of("compaction")) == 2


def test_the_guard_is_armed_by_none_where_it_is_off() -> None:
    seen = Seen()
    script = [*asking(6), overflows(4000, 4200), *[asks(Call("look", {"query": "a"}))] * 5, Reply("ok")]
    with ModelServer(script) as server:
        runner = runner_for(server, seen, page, look, guard={"enabled": False})
        assert asyncio.run(runner.run("main", "Read.")).reason == "done"
    assert seen.of("compaction")[0]["window"] == 0


def test_long_work_may_be_compacted_as_often_as_it_takes() -> None:
    seen = Seen()
    script = [reply for _ in range(5) for reply in [*asking(6), overflows(4000, 4200)]] + [Reply("ok")]
    with ModelServer(script) as server:
        result = asyncio.run(runner_for(server, seen, page, guard={}).run("main", "Read."))
    assert (result.reason, result.answer) == ("done", "ok")
    assert [one["number"] for one in seen.of("compaction")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("guard", "reason", "code"),
    [({}, "aborted", "compaction_loop_persisted"), ({"enabled": False}, "failed", None)],
)
def test_overflows_after_each_compaction_end_the_run(
    guard: dict[str, bool], reason: str, code: str | None
) -> None:
    seen = Seen()
    script = [
        *asking(40),
        *(overflows(window, window + 100) for window in (16_000, 8_000, 4_000, 2_000, 1_000)),
    ]
    with ModelServer([*script, Reply("ok")]) as server:
        result = asyncio.run(runner_for(server, seen, page, guard=guard).run("main", "Read."))
    assert (result.reason, result.code) == (reason, code)
    assert len(seen.of("compaction")) == 3


def test_a_context_that_overflows_whatever_is_left_out_ends_the_run() -> None:
    async def both() -> RunResult:
        await runner.run("main", "Make a plan.", session_id="one")
        return await runner.run("main", "Go on.", session_id="one")

    def script(request: Request) -> Reply:
        if request.asks_for_summary:
            return Reply("short")
        return Reply("a long plan " * 900) if len(server.requests) == 1 else overflows(9000, 9001)

    seen = Seen()
    with ModelServer(script) as server:
        runner = runner_for(server, seen, look)
        result = asyncio.run(both())
    assert (result.reason, result.code) == ("failed", None)
    assert "freed no room" in (result.message or "")
    assert len(seen.of("compaction")) <= 2


def test_a_compaction_that_frees_nothing_ends_the_run() -> None:
    seen = Seen()
    with ModelServer([overflows(100, 120)]) as server:
        result = asyncio.run(runner_for(server, seen, look).run("main", "word " * 100))
    assert (result.reason, result.code) == ("failed", None)
    assert "freed no room" in (result.message or "")
    assert seen.of("compaction") == []
    assert len(server.requests) == 1, "there is nothing to sum up"


def test_ahead_of_the_overflow() -> None:
    seen = Seen()
    with ModelServer([*asking(12), Reply("ok")], window=4000) as server:
        runner = runner_for(server, seen, page, guard={}, agent={"contextWindow": 4000})
        result = asyncio.run(runner.run("main", "Read."))
    assert (result.reason, result.answer) == ("done", "ok")
    assert seen.of("compaction")[0]["cause"] == "ahead"
    assert all(data["tokens_before"] <= 4000 for data in seen.of("compaction"))


def test_a_summary_that_overflows_itself_is_asked_for_of_less() -> None:
    lengths: list[int] = []

    def script(request: Request) -> Reply:
        if request.asks_for_summary:
            lengths.append(request.tokens)
            return Reply("in short") if request.tokens < 1500 else overflows(1500, request.tokens)
        tools = len(request.results)
        if len(server.requests) == 8:
            return overflows(9000, 9100)
        return asks(Call("page", {"query": f"q{tools}"})) if len(server.requests) < 8 else Reply("ok")

    seen = Seen()
    with ModelServer(script) as server:
        result = asyncio.run(runner_for(server, seen, page, guard={}).run("main", "Read."))
    assert (result.reason, result.answer) == ("done", "ok")
    assert len(lengths) > 1
    assert lengths == sorted(lengths, reverse=True)


def test_the_session_goes_on_with_what_was_compacted() -> None:
    async def both() -> None:
        await runner.run("main", "Read the pages.", session_id="s")
        await runner.run("main", "And now?", session_id="s")

    script = [*asking(6), overflows(4000, 4200), Reply("Read."), Reply("Nothing.")]
    with ModelServer(script) as server:
        runner = runner_for(server, Seen(), page, guard=GUARD)
        asyncio.run(both())
    last = server.requests[-1]
    assert SUMMARY in last.said[0]
    assert last.said[-1] == "And now?"


def test_a_warning_on_a_failed_call_survives_a_compaction_ahead() -> None:
    """What the model is still to be told stands in the history before that is made shorter."""

    def fails(query: str) -> str:
        raise RuntimeError(f"no {query} " + "word " * 150)

    seen = Seen()
    with ModelServer([*[asks(Call("fails", {"query": "a"}))] * 4, Reply("ok")]) as server:
        runner = runner_for(server, seen, fails, agent={"contextWindow": 900})
        assert asyncio.run(runner.run("main", "Try.")).reason == "done"
    (warned, *_) = [data for data in seen.of("verdict") if data["action"] == "warn"]
    (compaction,) = [one for one in seen.all if one.kind == "compaction"]
    calls = [one for one in seen.all if one.kind == "call" and one.number < compaction.number]
    assert calls[-1].data["call_id"] == warned["call_id"], "the next request is the one that does not fit"
    retry = next(request for request in server.requests if SUMMARY in "".join(request.said))
    assert warned["message"] in retry.results[warned["call_id"]]
