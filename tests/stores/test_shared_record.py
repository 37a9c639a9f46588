"""One record of a run that several guards take turns in, and its end while the store is down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden import LoopGuard
from loopwarden.records import RunRecorder, read
from tests.guards import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import Server


def kinds(path: Path) -> list[str]:
    return [entry.kind for entry in read(path)]


def one_call(guard: LoopGuard, name: str, path: str) -> None:
    guard.before("read", {"path": path}, call_id=name, run_id="r")
    guard.after(name, result=f"text of {path}", run_id="r")


def test_a_run_of_several_programs_is_recorded_once(address: str, tmp_path: Path) -> None:
    record = tmp_path / "runs.jsonl"
    guards = [LoopGuard(SMALL, store=address, record=record, on_error="raise") for _ in range(2)]
    for number, path in enumerate("abc"):
        one_call(guards[number % 2], f"c{number}", path)
    guards[1].compacted(run_id="r")
    for number, path in enumerate("aeb"):
        one_call(guards[number % 2], f"d{number}", path)
    guards[0].forget(run_id="r")
    for guard in guards:
        guard.close()
    assert kinds(record) == ["begun", "compaction", "rereads", "ended"]
    assert [entry.calls for entry in read(record)] == [0, 3, 6, 6]


def test_a_run_ends_in_the_record_while_the_store_is_down(passing: Server, tmp_path: Path) -> None:
    record = tmp_path / "runs.jsonl"
    guard = LoopGuard(SMALL, store=passing.url, record=RunRecorder(record))
    one_call(guard, "c", "a")
    passing.stop()
    guard.forget(run_id="r")
    assert kinds(record) == ["begun", "ended"]
    guard.close()
