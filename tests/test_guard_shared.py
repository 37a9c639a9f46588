"""One guard for many threads, and after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from tests.guards import SMALL, actions, calls, strict


def in_threads(count: int, work: Any) -> None:
    start = threading.Barrier(count)
    faults: list[BaseException] = []

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as fault:  # noqa: BLE001 - told below
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_threads_with_runs_of_their_own_do_not_meet() -> None:
    guard = strict()
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        found[number] = actions(calls(guard, 10, run_id=f"r{number}"))

    in_threads(16, work)
    expected = ["allow"] * 3 + ["warn"] * 2 + ["block"] * 4 + ["abort"]
    assert found == dict.fromkeys(range(16), expected)


def test_threads_in_one_run_are_all_counted() -> None:
    config = {**SMALL, "historySize": 2000, "warningThreshold": 799, "criticalThreshold": 1999}
    guard = strict({**config, "globalCircuitBreakerThreshold": 2500})

    def work(number: int) -> None:
        for place in range(50):
            call_id = f"{number}-{place}"
            guard.before("read", {}, call_id=call_id, run_id="r")
            guard.after(call_id, result="same", run_id="r")

    in_threads(16, work)
    assert guard.before("read", {}, call_id="last", run_id="r").count == 16 * 50


FORKED = """
    import os, signal, threading
    from loopwarden import LoopGuard

    guard = LoopGuard({"enabled": True, "warningThreshold": 3}, on_error="raise")
    for number in range(3):
        guard.before("read", {}, call_id=str(number), run_id="r")
        guard.after(str(number), result="x", run_id="r")
    held, done = threading.Event(), threading.Event()

    def hold():
        with guard._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(50)  # if it hangs, it ends
        verdict = guard.before("read", {}, call_id="c", run_id="r")
        os._exit(verdict.count)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    verdict = guard.before("read", {}, call_id="c", run_id="r")
    print(os.waitstatus_to_exitcode(status), verdict.count)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_process_goes_on_by_itself_even_if_a_thread_was_in_the_guard() -> None:
    shown = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(FORKED)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (shown.stdout.split(), shown.stderr) == (["3", "3"], "")


def test_calls_that_stay_open_bound_what_a_store_reads_and_writes() -> None:
    guard = strict()
    sizes = []
    for number in range(1200):
        guard.before("read", {"path": f"{number:04}"}, call_id=f"call-{number:04}", run_id="r")
        if number in (600, 1199):
            sizes.append(len(guard.save(run_id="r") or b""))
    assert sizes[1] < 1.1 * sizes[0] < 80_000


def test_two_hundred_calls_of_one_reply_may_be_open_at_once() -> None:
    guard = strict(SMALL | {"historySize": 2000})
    for turn in range(6):
        names = [f"{turn}-{number}" for number in range(200)]
        verdicts = [
            guard.before("read", {"path": name[2:]}, call_id=name, run_id="r", turn_id=str(turn))
            for name in names
        ]
        for name, verdict in zip(names, verdicts, strict=True):
            if verdict.action != "block":
                guard.after(name, result="same", run_id="r")
    assert {verdict.action for verdict in verdicts} == {"block", "abort"}
