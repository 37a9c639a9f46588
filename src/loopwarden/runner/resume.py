"""A session goes on after its process died in the middle of a run: with what the guard knew of that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.errors import StoreError
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from loopwarden.guard import LoopGuard
    from loopwarden.runner.journal import Journal


def take_over(journal: Journal, guard: LoopGuard, session: str, run: str) -> str | None:
    """Give a run that is about to begin the evidence of the interrupted one before it in its session.

    Args:
        journal: What is known of the session.
        guard: The guard of the agent.
        session: Id of the session.
        run: Id of the new run.

    Returns:
        Id of the interrupted run; `None`: there is none, or nothing of it can be used.
    """
    try:
        newest = next(iter(journal.runs(session, limit=1)), None)
        if newest is None or newest.state != "interrupted":
            return None
        evidence = journal.evidence(newest.id)
        if evidence is None:
            return None
        guard.session(session).restore(evidence, run_id=run)
    except StoreError as error:
        log.logger.warning("the evidence of an interrupted run can't be used: %s", error)
        return None
    return newest.id
