"""Scans many files, in this process or in several; a worker that dies costs one file, not the scan."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING

from loopwarden.masking import clean
from loopwarden.scan.replay import scan_file
from loopwarden.scan.summary import FileReport
from loopwarden.transcripts.registry import by_name
from loopwarden.transcripts.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from loopwarden.scan.replay import ScanOptions
    from loopwarden.transcripts.discover import Candidate

_TICK_SECONDS = 0.2
_options: ScanOptions | None = None


def scan_files(
    candidates: Iterable[Candidate],
    options: ScanOptions,
    *,
    jobs: int = 1,
    on_file: Callable[[FileReport], None] | None = None,
    tick: Callable[[], None] | None = None,
) -> list[FileReport]:
    """The reports on all files, in the order given.

    Args:
        candidates: What was found to read.
        options: How it is scanned.
        jobs: Processes at work; 1 stays in this one.
        on_file: Told of each file as it is done, in any order.
        tick: Called a few times a second while there is something to wait for.
    """
    work = _Work(list(candidates), options, on_file, tick)
    places = range(len(work.candidates))
    alone = [place for place in places if jobs <= 1 or work.candidates[place].source.path is None]
    for place in alone:
        candidate = work.candidates[place]
        work.finish(place, scan_file(candidate.source, candidate.reader, options, tick))
    shared = sorted(set(places).difference(alone), key=lambda place: -work.candidates[place].size)
    for place in work.run_pool(shared, min(jobs, len(shared))):
        # A worker died and took the pool with it. Who did it shows when each runs alone.
        if work.run_pool([place], 1):
            source = work.candidates[place].source
            work.finish(
                place,
                FileReport(
                    path=clean(source.label, 1000),
                    size=source.size,
                    format=work.candidates[place].reader.name,
                    error="the process that read it was ended (out of memory?)",
                    why="unreadable",
                ),
            )
    return [work.done[place] for place in places]


class _Work:
    """The files of one scan and what became of them."""

    def __init__(
        self,
        candidates: list[Candidate],
        options: ScanOptions,
        on_file: Callable[[FileReport], None] | None,
        tick: Callable[[], None] | None,
    ) -> None:
        self.candidates = candidates
        self.done: dict[int, FileReport] = {}
        self._options = options
        self._on_file = on_file
        self._tick = tick

    def finish(self, place: int, report: FileReport) -> None:
        self.done[place] = report
        if self._on_file is not None:
            self._on_file(report)

    def run_pool(self, places: list[int], jobs: int) -> list[int]:
        """Scan these files in a pool of processes.

        Returns:
            The files that were not done because a process died.
        """
        if not places:
            return []
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_begin, initargs=(self._options,))
        try:
            futures = {pool.submit(_one, *self._named(place)): place for place in places}
            self._wait(futures)
        except BrokenProcessPool:
            pass  # raised where a file is handed over; what is not done is returned
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise
        pool.shutdown(wait=True, cancel_futures=True)
        return [place for place in places if place not in self.done]

    def _named(self, place: int) -> tuple[str, str, str]:
        candidate = self.candidates[place]
        return str(candidate.source.path), candidate.source.label, candidate.reader.name

    def _wait(self, futures: dict[Future[FileReport], int]) -> None:
        pending = set(futures)
        while pending:
            finished, pending = wait(pending, timeout=_TICK_SECONDS, return_when=FIRST_COMPLETED)
            for future in finished:
                if not isinstance(future.exception(), BrokenProcessPool):
                    self.finish(futures[future], future.result())
            if self._tick is not None:
                self._tick()


def _context() -> multiprocessing.context.BaseContext:
    """Forking starts fastest but is safe only from a process with one thread."""
    forks = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    return multiprocessing.get_context("fork" if forks else "spawn")


def _begin(options: ScanOptions) -> None:
    global _options  # noqa: PLW0603 - set once in each worker process, before any file
    _options = options
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers


def _one(path: str, label: str, reader: str) -> FileReport:
    if _options is None:
        raise RuntimeError("a worker was not set up")
    return scan_file(Source(Path(path), label=label), by_name(reader), _options)
