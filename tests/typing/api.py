"""The public API as a type checker sees it. Never run: mypy reads it (scripts/check)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_type

from loopwarden import (
    Config,
    ConfigError,
    LoopAborted,
    LoopGuard,
    LoopwardenError,
    MissingExtraError,
    StoreError,
    ToolCall,
    TranscriptError,
    Verdict,
    load_config,
)
from loopwarden.records import Entry, RunRecorder, RunSummary, read, summaries
from loopwarden.stores import open_store
from loopwarden.telemetry.otel import OpenTelemetryListener
from loopwarden.telemetry.prometheus import PrometheusListener

if TYPE_CHECKING:
    from loopwarden.events import Event


def make() -> LoopGuard:
    LoopGuard({"enabled": True})
    LoopGuard("openclaw.json5")
    config = load_config("openclaw.json5")
    assert_type(config, Config)

    def listener(verdict: Verdict, event: Event) -> None:
        assert_type(verdict.detector is None, bool)
        assert_type(event.run_id, str | None)

    LoopGuard(config, store="sqlite:runs.db", max_runs=100, idle_seconds=3600.0).close()
    LoopGuard(config, store=open_store("memory:"))
    LoopGuard(config, record="runs.jsonl")
    LoopGuard(config, record=True)
    LoopGuard(config, record=RunRecorder("runs.db", agent="a", payloads=True))
    LoopGuard(config, on_verdict=[OpenTelemetryListener(), PrometheusListener()])
    return LoopGuard(config, agent_id="safe-runner", mode="observe", on_verdict=[listener])


def reading() -> None:
    for entry in read("runs.jsonl"):
        assert_type(entry, Entry)
        assert_type(entry.run, str | None)
    assert_type(summaries(read()), list[RunSummary])


def judge(guard: LoopGuard) -> str | None:
    verdict = guard.before("read", {"path": "a"}, call_id="c1", run_id="r1", turn_id="t1", at=12.5)
    assert_type(verdict, Verdict)
    assert_type(verdict.action, Literal["allow", "warn", "block", "abort"])
    assert_type(verdict.level, Literal["warning", "critical"] | None)
    assert_type(verdict.count, int)
    assert_type(verdict.paired_tools, tuple[str, ...])
    assert_type(verdict.message, str | None)
    assert_type(guard.after("c1", result={"ok": True}, run_id="r1"), Verdict)
    assert_type(guard.after("c1", error="no such file", run_id="r1"), Verdict)
    guard.compacted(run_id="r1", continues=None)
    guard.user_message(run_id="r1")
    guard.retract(["c1"], run_id="r1")
    guard.forget(run_id="r1")
    assert_type(guard.session("s1").before("read", {"path": "a"}, call_id="c2"), Verdict)
    return verdict.message


def wrap(guard: LoopGuard) -> None:
    @guard.tool
    def search(query: str, limit: int = 3) -> list[str]:
        return [query] * limit

    @guard.tool
    async def fetch(url: str) -> bytes:
        return url.encode()

    async def use() -> None:
        assert_type(search("a", limit=2), list[str])
        assert_type(await fetch("https://example.org"), bytes)


def catch(guard: LoopGuard) -> object:
    try:
        judge(guard)
    except LoopAborted as signal:
        return assert_type(signal.verdict, Verdict)
    except ConfigError as error:
        return [(problem.path, problem.line, problem.suggestion) for problem in error.problems]
    except TranscriptError as error:
        return assert_type(error.source, str)
    except MissingExtraError as error:
        return assert_type(error.extra, str)
    except (StoreError, LoopwardenError) as error:
        return str(error)
    return ToolCall(tool="read", call_id="c1")
