"""The endpoints of agents where none are run: each says why there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from loopwarden.gateway import guard_api
from loopwarden.gateway.app import Part
from loopwarden.gateway.problems import Problem
from loopwarden.gateway.runs_openapi import PATHS

if TYPE_CHECKING:
    from typing import NoReturn

    from starlette.requests import Request


def no_agents(reason: str) -> Part:
    """The part that stands in for agents.

    Args:
        reason: Why there are none.
    """

    async def refuse(_: Request) -> NoReturn:
        raise Problem(404, f"this gateway runs no agents: {reason}")

    routes: list[BaseRoute] = [
        Route(path, refuse, methods=[name.upper() for name in entry if name != "parameters"])
        for path, entry in PATHS.items()
        if path != guard_api.plain(guard_api.RUN_BATCH_PATH)  # which is the guard's, too
    ]
    return Part(routes=routes)
