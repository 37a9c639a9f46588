"""What sessions hold while runs begin and end beside each other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from loopwarden import LoopGuard
from loopwarden.config.runtime import ListedAgent
from loopwarden.runner.live import Live
from loopwarden.runner.workbench import Workbenches

if TYPE_CHECKING:
    from pathlib import Path

    from loopwarden.runner.tools import Bench


async def nobody(*_: str) -> None:
    raise AssertionError("nobody is called")


def bench(benches: Workbenches, session: str, folder: Path) -> Bench:
    agent = ListedAgent(id="main", workspace=str(folder))
    live = Live(agent, LoopGuard(), session=session, run="r", depth=0, parent=None, watchers=())
    return benches.bench(live, spawn=nobody, send=nobody)  # type: ignore[arg-type] - never called


async def ending(benches: Workbenches, session: str, folder: Path) -> None:
    """A session in which a command is just being ended."""
    processes = bench(benches, session, folder).processes
    command = await processes.start("sleep 600", folder)
    processes.drop(command)


def test_a_session_that_begins_anew_while_another_one_is_tidied_up_can_run_commands(tmp_path: Path) -> None:
    async def main() -> None:
        benches = Workbenches(None)
        await ending(benches, "a", tmp_path)
        bench(benches, "b", tmp_path)
        tidying = asyncio.create_task(benches.tidy(frozenset()))
        await asyncio.sleep(0)
        assert not tidying.done(), "the command of session a is waited for"
        again = bench(benches, "b", tmp_path).processes
        await tidying
        command = await again.start("echo there", tmp_path)
        await command.over.wait()
        assert command.output.text() == "there\n"
        await benches.close()

    asyncio.run(main())


def test_two_that_tidy_up_at_once_do_not_meet(tmp_path: Path) -> None:
    async def main() -> None:
        benches = Workbenches(None)
        await ending(benches, "a", tmp_path)
        bench(benches, "b", tmp_path)
        await asyncio.gather(benches.tidy(frozenset()), benches.tidy(frozenset()))
        await benches.close()

    asyncio.run(main())


def test_a_busy_session_keeps_its_commands(tmp_path: Path) -> None:
    async def main() -> None:
        benches = Workbenches(None)
        kept = bench(benches, "a", tmp_path).processes
        await benches.tidy(frozenset({"a"}))
        assert bench(benches, "a", tmp_path).processes is kept
        await benches.tidy(frozenset())
        assert bench(benches, "a", tmp_path).processes is not kept
        await benches.close()

    asyncio.run(main())


def test_a_person_is_asked_one_question_at_a_time_whichever_run_has_it(tmp_path: Path) -> None:
    benches = Workbenches(None)
    first, second = bench(benches, "a", tmp_path), bench(benches, "b", tmp_path)
    assert first.asking is second.asking
    assert first.asking is not bench(Workbenches(None), "a", tmp_path).asking
