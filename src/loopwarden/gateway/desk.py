"""Where events of clients are answered: each once, by the guard of its agent, and kept.

**Once.** An event that comes again is answered as before and does not count (`again.py`), and a batch that
comes again as a whole (`batches.py`). For each run the last `ANSWERS` answers are remembered, and
`ALL_ANSWERS` in all.

**Kept.** Runs live in memory, and those that changed are written behind, `PAUSE` seconds after. No more than
a twentieth of the time goes into that, so with many busy runs the pause grows (to about a second with 200). A
gateway that is killed loses what was told to it in the last pause, and no more; one that ends writes
everything. In a store that is shared every event is written before it is answered; one that keeps journals
also tells of events that come again (`together.py`), and nothing is remembered here.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeAlias

from loopwarden.errors import StoreError
from loopwarden.events import ALLOW
from loopwarden.gateway.again import Answers
from loopwarden.gateway.batches import Batches
from loopwarden.gateway.together import Together
from loopwarden.gateway.wire import dump
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loopwarden.events import Verdict
    from loopwarden.gateway.asked import Asked
    from loopwarden.gateway.guards import Guards
    from loopwarden.gateway.keeping import Keeping
    from loopwarden.gateway.observers import Mode
    from loopwarden.guard import GuardSession

PAUSE: Final = 0.1
_SHARE: Final = 19  # times as long as packing took is the pause, if that is longer
_TOGETHER: Final = 8  # runs that are packed before others get their turn

ANSWERS: Final = 1024
ALL_ANSWERS: Final = 200_000

_IN_A_ROW: Final = 50  # events of a batch before others get their turn

_THREADS: Final = 32

_Key: TypeAlias = "tuple[str | None, Mode, str | None, str | None]"
"""Agent, mode, session, run."""


class _Run:
    """A run of a client."""

    __slots__ = ("answers", "lock", "name", "run_id", "verbs")

    def __init__(self, verbs: GuardSession, run_id: str | None, name: str) -> None:
        self.verbs = verbs
        self.run_id = run_id
        self.name = name
        self.answers = Answers()
        self.lock: asyncio.Lock | None = None


class Desk:
    """Answers events. For one event loop.

    Args:
        guards: All guards.
        keeping: Where the runs outlive the gateway; `None` where the guards' store does that.
        most: Runs that are kept; those that were idle for longest go first.
        batch: Most events of a batch, all of which have to be remembered.

    Raises:
        StoreError: The database can't be read.
    """

    def __init__(self, guards: Guards, keeping: Keeping | None, *, most: int, batch: int) -> None:
        self._guards = guards
        self._keeping = keeping
        self._most = most
        self._answers = max(ANSWERS, batch)
        self._answered = 0
        self._runs: OrderedDict[_Key, _Run] = OrderedDict()
        self._stored: dict[str, None] = dict.fromkeys(keeping.names(most)) if keeping is not None else {}
        self._dirty: dict[str, _Run] = {}
        self._gone: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._batches = Batches()
        self._failing = False
        self._packing = 0.0
        self._together = Together(guards) if guards.journaled else None
        self._pool = ThreadPoolExecutor(_THREADS, "loopwarden-store") if guards.shared else None

    @property
    def runs(self) -> int:
        """Runs that are known."""
        if self._together is not None:
            return self._guards.at_hand()
        return len(self._runs) + len(self._stored)

    @property
    def failing(self) -> bool:
        """Whether what changed could not be written the last time."""
        return self._failing

    async def answer(self, asked: Asked) -> Verdict:
        """Answer one event."""
        if self._together is not None:
            return await self._together.answer(asked)
        run = self._find(asked)
        if self._pool is None:
            return self._answer(run, asked)
        if run.lock is None:
            run.lock = asyncio.Lock()
        async with run.lock:
            known = run.answers.find(asked)
            if known is not None:
                return known
            loop = asyncio.get_running_loop()
            verdict = await loop.run_in_executor(self._pool, _tell, run.verbs, asked)
            self._remember(run, asked, verdict)
            self._settle(run, asked)
            return verdict

    async def answer_all(self, batch: Sequence[Asked]) -> list[Verdict]:
        """Answer events, one after the other."""
        return await self._batches.once(batch, self._answer_all)

    async def _answer_all(self, batch: Sequence[Asked]) -> list[Verdict]:
        verdicts = []
        for number, asked in enumerate(batch):
            verdicts.append(await self.answer(asked))
            if number % _IN_A_ROW == _IN_A_ROW - 1:
                await asyncio.sleep(0)
        return verdicts

    def _answer(self, run: _Run, asked: Asked) -> Verdict:
        known = run.answers.find(asked)
        if known is not None:
            return known
        verdict = _tell(run.verbs, asked)
        self._remember(run, asked, verdict)
        self._settle(run, asked)
        return verdict

    # --- once

    def _remember(self, run: _Run, asked: Asked, verdict: Verdict) -> None:
        answers = run.answers
        self._answered -= len(answers)
        answers.put(asked, verdict, self._answers)
        self._answered += len(answers)
        if self._answered > ALL_ANSWERS:
            self._forget_answers()

    def _forget_answers(self) -> None:
        """Of the runs that were idle for longest."""
        for run in self._runs.values():
            self._answered -= len(run.answers)
            run.answers.clear()
            if self._answered <= ALL_ANSWERS // 2:
                return

    # --- runs

    def _find(self, asked: Asked) -> _Run:
        body = asked.body
        key = body.agent, body.mode, body.session, asked.run
        run = self._runs.get(key)
        if run is None:
            run = self._begin(key)
        else:
            self._runs.move_to_end(key)
        if asked.kind == "compacted" and body.continues is not None and body.continues != asked.run:
            self._continue(key, body.continues)
        return run

    def _begin(self, key: _Key) -> _Run:
        agent, mode, session, run_id = key
        name = dump(key).decode()
        run = self._runs[key] = _Run(self._guards.session(agent, mode, session), run_id, name)
        if name in self._stored:
            del self._stored[name]
            self._restore(run)
        while self.runs > self._most:
            self._drop_idlest()
        return run

    def _restore(self, run: _Run) -> None:
        if self._keeping is None:
            return
        try:
            found = self._keeping.read(run.name)
            if found is not None:
                run.verbs.restore(found[0], run_id=run.run_id)
                run.answers.restore(found[1])
                self._answered += len(run.answers)
        except StoreError as error:
            log.logger.warning("%s; the run starts afresh: run=%s", error, log.one_word(run.run_id))

    def _continue(self, key: _Key, continues: str) -> None:
        """The run with this name goes on under another one: have it at hand, and let go of its name."""
        old: _Key = (*key[:3], continues)
        if old not in self._runs:
            if dump(old).decode() not in self._stored:
                return
            self._begin(old)
        run = self._runs.pop(old)
        self._answered -= len(run.answers)
        self._let_go(run)

    def _drop_idlest(self) -> None:
        if self._stored:
            name = next(iter(self._stored))
            del self._stored[name]
            self._gone[name] = None
            self._changed.set()
            return
        _, run = self._runs.popitem(last=False)
        self._answered -= len(run.answers)
        if self._pool is None:  # a shared store has bounds of its own
            run.verbs.forget(run_id=run.run_id)
        self._let_go(run)

    def _settle(self, run: _Run, asked: Asked) -> None:
        if asked.kind == "forget":
            key = asked.body.agent, asked.body.mode, asked.body.session, asked.run
            if self._runs.get(key) is run:
                del self._runs[key]
                self._answered -= len(run.answers)
            self._let_go(run)
        elif self._keeping is not None:
            self._dirty[run.name] = run
            self._changed.set()

    def _let_go(self, run: _Run) -> None:
        if self._keeping is not None:
            self._dirty.pop(run.name, None)
            self._gone[run.name] = None
            self._changed.set()

    # --- kept

    async def keep(self) -> None:
        """Write behind, until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(max(PAUSE, _SHARE * self._packing))
            await asyncio.shield(asyncio.create_task(self.flush()))  # what it has begun it ends

    async def flush(self) -> None:
        """Write what changed. What can't be written stays for the next time; the log says so once."""
        if self._keeping is not None:
            async with self._flushing:
                await self._flush(self._keeping)

    async def _flush(self, keeping: Keeping) -> None:
        self._changed.clear()
        dirty, self._dirty = self._dirty, {}
        gone, self._gone = self._gone, {}
        states: list[tuple[str, bytes, bytes]] = []
        self._packing = 0.0
        for number, run in enumerate(dirty.values()):
            began = time.perf_counter()
            state = run.verbs.save(run_id=run.run_id)
            self._packing += time.perf_counter() - began
            if state is not None:
                states.append((run.name, state, run.answers.save()))
            if number % _TOGETHER == _TOGETHER - 1:
                await asyncio.sleep(0)
        if not states and not gone:
            return
        try:
            await asyncio.to_thread(keeping.write, states, gone)
        except StoreError as error:
            if not self._failing:
                log.logger.error("what the runs have come to can't be kept: %s", error)
            self._failing = True
            for name, run in dirty.items():
                if name not in self._gone:
                    self._dirty.setdefault(name, run)
            self._gone = gone | self._gone
            self._changed.set()
        else:
            if self._failing:
                log.logger.warning("what the runs have come to is kept again")
            self._failing = False

    async def close(self) -> None:
        """Write everything that is left, and give back what is held open."""
        await self.flush()
        if self._together is not None:
            await self._together.close()
        if self._pool is not None:
            self._pool.shutdown()
        if self._keeping is not None:
            self._keeping.close()


def _tell(verbs: GuardSession, asked: Asked) -> Verdict:
    body, run = asked.body, asked.run
    match asked.kind:
        case "before":
            return verbs.before(
                body.tool,
                body.arguments,
                call_id=body.call_id,
                run_id=run,
                turn_id=body.turn_id,
                at=body.at,
            )
        case "after":
            return verbs.after(
                body.call_id,
                result=body.result,
                error=body.error,
                run_id=run,
                unknown_tool=body.unknown_tool,
                timed_out=body.timed_out,
                at=body.at,
            )
        case "compacted":
            return verbs.compacted(run_id=run, continues=body.continues, at=body.at)
        case "user_message":
            return verbs.user_message(run_id=run, at=body.at)
        case "retract":
            return verbs.retract(body.call_ids, run_id=run, at=body.at)
    verbs.forget(run_id=run)
    return ALLOW
