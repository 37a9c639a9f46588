"""The runs of a guard at a gateway: every event is asked over HTTP, and the gateway decides."""

from __future__ import annotations

from loopwarden.remote.runs import DECIDED_THERE, RemoteRun, RemoteRuns

__all__ = ["DECIDED_THERE", "RemoteRun", "RemoteRuns"]
