"""`loopwarden runs`: list, show, export."""

from __future__ import annotations

import csv
import gc
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden import LoopGuard
from loopwarden.records import Entry, RunRecorder, read
from loopwarden.records.places import open_record
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by every test
from tests.records.scene import agent, clock, recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOSE = {"enabled": True, "historySize": 8, "warningThreshold": 3, "criticalThreshold": 5}


@pytest.fixture(params=["runs.jsonl", "runs.db"])
def record(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Three runs: one that was ended by the guard, one with re-reads, one that is going on."""
    path = tmp_path / str(request.param)
    recorder = RunRecorder(path, agent="clerk", now=clock())
    guard = LoopGuard({**LOOSE, "refusedCallLimit": 3}, on_error="raise", record=recorder)
    agent(guard, "aaaaaaaaaa", run_id="first")
    guard.forget(run_id="first")
    agent(guard.session("s"), "abc|adeb", run_id="second")
    guard.session("s").forget(run_id="second")
    agent(guard, "x", run_id="third")
    yield path
    recorder.close()


def ids(record: Path) -> list[str]:
    return list(dict.fromkeys(entry.id for entry in read(record)))


def test_list(record: Path) -> None:
    code, out, err = run("runs", "list", "--record", record)
    rows = [line.split(maxsplit=1) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [name for name, _ in rows] == ["ID", *ids(record)]
    assert [rest for _, rest in rows] == [
        "BEGUN                RUN       CALLS  WARNINGS  REFUSALS  RE-READS  END      DETECTORS",
        "2026-07-01 12:00:00  first     8      2         2         -         aborted  generic_repeat",
        "2026-07-01 12:00:07  s/second  7      0         0         2 of 4    ended    -",
        "2026-07-01 12:00:11  third     0+     0         0         -         open     -",
    ]


def test_list_as_json(record: Path) -> None:
    code, out, _ = run("runs", "list", "--record", record, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["record"] == str(record)
    first = data["runs"][0]
    assert first["reason"].startswith("read was called")
    assert {name: first[name] for name in first if name not in {"id", "reason"}} == {
        "session": None,
        "run": "first",
        "agent": "clerk",
        "mode": "enforce",
        "begun": "2026-07-01T12:00:00.000Z",
        "last": "2026-07-01T12:00:06.000Z",
        "end": "aborted",
        "error": "tool_loop_persisted",
        "calls": 8,
        "detections": 5,
        "warnings": 2,
        "refusals": 2,
        "announcements": 3,
        "compactions": 0,
        "next_calls": 0,
        "rereads": 0,
        "detectors": {"generic_repeat": 5},
    }


def test_since(record: Path) -> None:
    code, out, _ = run("runs", "list", "--record", record, "--since", "2026-07-01T12:00:08Z", "--json")
    assert [one["run"] for one in json.loads(out)["runs"]] == ["second", "third"]
    assert run("runs", "list", "--record", record, "--since", "2030-01-01") == (0, "no runs\n", "")
    code, _, err = run("runs", "list", "--record", record, "--since", "long ago")
    assert code == 2
    assert "30m, 12h" in err


def test_show(record: Path) -> None:
    name = ids(record)[1]
    code, out, err = run("runs", "show", "second", "--record", record)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"run s/second, id {name}, agent clerk, mode enforce, begun 2026-07-01T12:00:07.000Z, 7 calls, ended",
        "12:00:07.000       0  begun",
        "12:00:08.000       3  compaction 1",
        "12:00:09.000       7  after compaction 1: 2 of the next 4 calls repeat one from before",
        "12:00:10.000       7  ended (forgotten)",
    ]
    assert run("runs", "show", name[:6], "--record", record)[1] == out


def test_show_what_was_found(record: Path) -> None:
    _, out, _ = run("runs", "show", "first", "--record", record)
    title, reason, *lines = out.splitlines()
    assert title.endswith(", 8 calls, aborted (tool_loop_persisted)")
    assert reason.startswith("read was called 7 times")
    assert [line[22:] for line in lines] == [
        "begun",
        "warning: generic_repeat, read, 3 times (threshold 3), call c3, the model was told",
        "warning: generic_repeat, read, 4 times (threshold 3), call c4",
        "refused: generic_repeat, read, 5 times (threshold 5), call c5",
        "refused: generic_repeat, read, 6 times (threshold 5), call c6",
        "aborted: generic_repeat, read, 7 times (threshold 5), call c7",
        "ended (forgotten)",
    ]


def test_show_as_json(record: Path) -> None:
    code, out, _ = run("runs", "show", "first", "--record", record, "--json")
    data = json.loads(out)
    assert (code, data["run"]["id"], len(data["entries"])) == (0, ids(record)[0], 7)


def test_the_newest_of_runs_of_the_same_name_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    guard = recording(path)
    for strip in ("a", "ab", "abc"):
        agent(guard, strip)
        guard.forget(run_id="r")
    first, second, third = ids(path)
    code, out, err = run("runs", "show", "r", "--record", path)
    assert code == 0
    assert f"id {third}" in out
    assert err == f"the newest of 3 runs of this name; older: {first}, {second}\n"


def test_a_run_that_is_not_there(record: Path) -> None:
    code, out, err = run("runs", "show", "nobody", "--record", record)
    assert (code, out) == (2, "")
    assert "'nobody' is no run of this record; see loopwarden runs list" in " ".join(err.split())
    assert run("runs", "show", "", "--record", record)[0] == 2


def test_observed_paired_and_other_entries_in_words(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    guard = recording(path, {"enabled": True, "warningThreshold": 3}, mode="observe", payloads=True)
    for number in range(4):
        guard.before("ab"[number % 2], {"n": 1}, call_id=f"c{number}", run_id="r")
    guard.user_message(run_id="r")
    guard.retract(["c3"], run_id="r")
    guard.compacted(run_id="q", continues="r")
    _, out, _ = run("runs", "show", "q", "--record", path)
    observed = "warning (observed; would warn): ping_pong"
    assert [line[22:] for line in out.splitlines()[1:]] == [
        "begun",
        f"{observed}, a and b, 3 times (threshold 3), call c2, the model was told, arguments n: 1",
        f"{observed}, b and a, 4 times (threshold 3), call c3, arguments n: 1",
        "a person wrote",
        "calls rolled back: 1",
        "compaction 1, goes on from run r",
    ]


def test_export(record: Path) -> None:
    whole = [entry.as_dict() for entry in read(record)]
    plain: list[dict[str, Any]] = json.loads(json.dumps(whole))
    code, out, err = run("runs", "export", "--record", record)
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == plain
    assert json.loads(run("runs", "export", "--record", record, "--format", "json")[1]) == plain
    rows = list(csv.DictReader(io.StringIO(run("runs", "export", "--record", record, "--format", "csv")[1])))
    assert [(row["id"], row["kind"], int(row["calls"])) for row in rows] == [
        (entry["id"], entry["kind"], entry["calls"]) for entry in plain
    ]
    late = run("runs", "export", "--record", record, "--since", "2026-07-01T12:00:11Z")[1]
    assert [json.loads(line)["run"] for line in late.splitlines()] == ["third"]


def test_a_spreadsheet_is_given_no_formulas(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for run_id in ("=HYPERLINK(1)", "@x", "-1", "+1"):
        open_record(path).write([Entry(id="abcd", kind="begun", time="2026-07-01T12:00:00.000Z", run=run_id)])
    out = run("runs", "export", "--record", path, "--format", "csv")[1]
    assert [row["run"][0] for row in csv.DictReader(io.StringIO(out))] == ["'"] * 4


def test_the_default_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.jsonl"
    monkeypatch.setenv("LOOPWARDEN_RECORD", str(path))
    code, out, err = run("runs", "list")
    assert (code, out) == (2, "")
    assert err == (
        f"loopwarden: {path}: no such file (nothing was recorded yet; LoopGuard(record=...) switches it on)\n"
    )
    guard = recording(path)
    agent(guard, "ab")
    assert "  open  " in run("runs", "list")[1]
    del guard
    gc.collect()
    assert "  closed  " in run("runs", "list")[1]


def test_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo\n")
    code, out, err = run("runs", "export", "--record", path)
    assert (code, out) == (2, "")
    assert err == f"loopwarden: {path}: no run record; none of its 2 lines is an entry\n"
