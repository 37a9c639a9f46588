"""The application: the guard's endpoints, and the parts that plug in beside them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loopwarden.errors import MissingExtraError

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Match, Route
except ImportError as missing:
    raise MissingExtraError("starlette", "gateway") from missing

from loopwarden.gateway import guard_api, openapi
from loopwarden.gateway.front import LOCAL_HOSTS, Front
from loopwarden.gateway.metrics import CONTENT_TYPE as METRICS_TYPE
from loopwarden.gateway.problems import CONTENT_TYPE, Problem
from loopwarden.gateway.wire import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from loopwarden.gateway.context import Gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something that plugs into the gateway: the runner's endpoints, the page.

    Attributes:
        routes: Its routes. An endpoint may raise `Problem`.
        public: Paths that need no token; the part asks `gateway.token` itself. One that ends in a slash
            (other than `/`) stands for all below it.
        paths: What the OpenAPI document says of them: its `paths`.
        schemas: Schemas that `paths` refers to, by name.
        running: Entered before the first request, left after the last one.
    """

    routes: Sequence[BaseRoute] = ()
    public: frozenset[str] = frozenset()
    paths: dict[str, Any] = field(default_factory=dict)
    schemas: dict[str, Any] = field(default_factory=dict)
    running: Callable[[], AbstractAsyncContextManager[Any]] | None = None


def create_app(
    gateway: Gateway, parts: Sequence[Part] = (), *, hosts: frozenset[str] | None = LOCAL_HOSTS
) -> ASGIApp:
    """The application of a gateway.

    Args:
        gateway: What it works on.
        parts: What plugs in; their routes come after the guard's.
        hosts: Names that the header `Host` may have; `None`: any.
    """
    health = _Health(gateway)
    described = dump(openapi.document(parts))

    async def description(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def metrics(_: Request) -> Response:
        return Response(gateway.metrics.text(), media_type=METRICS_TYPE)

    routes = [
        *guard_api.routes(gateway),
        Route("/healthz", health.answer, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route(openapi.PATH, description, methods=["GET"]),
        *(route for part in parts for route in part.routes),
    ]
    app = Starlette(
        routes=routes, exception_handlers={HTTPException: _http, Problem: _problem, Exception: _fault}
    )
    app.router.redirect_slashes = False
    public = frozenset[str]().union(*(part.public for part in parts))
    return Front(app, gateway, public=public, hosts=hosts)


class _Health:
    """Whether all is well. Who asks while a shared store is being asked gets the same answer."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._asking: asyncio.Task[bool] | None = None

    async def answer(self, _: Request) -> Response:
        gateway = self._gateway
        if gateway.guards.shared:
            store = await self._reachable()
            ok = store
        else:
            store = not gateway.desk.failing
            ok = True  # the guard answers all the same
        body = dump({"ok": ok, "store": store, "closing": gateway.closing.is_set()})
        return Response(body, status_code=200 if ok else 503, media_type="application/json")

    async def _reachable(self) -> bool:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(self._gateway.guards.reachable))
        return await asyncio.shield(self._asking)


def _answer(problem: Problem) -> Response:
    return Response(
        problem.body(), status_code=problem.status, headers=problem.headers, media_type=CONTENT_TYPE
    )


def _problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)  # noqa: S101 - what it is registered for
    return _answer(problem)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    headers = dict(error.headers or {})
    if "Allow" in headers:
        headers["Allow"] = _allowed(request)
    detail = {
        404: "there is nothing at this path; /openapi.json lists what there is",
        405: f"{request.method} is not done here",
    }.get(error.status_code, error.detail)
    return _answer(Problem(error.status_code, detail, headers=headers))


def _allowed(request: Request) -> str:
    """Methods of all routes of a path; the router says only those of the first."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


def _fault(_: Request, __: Exception) -> Response:
    return _answer(Problem(500, "fault in the gateway; its log says more"))
