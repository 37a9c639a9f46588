"""The guard over HTTP, for agents in any language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import BaseRoute, Route

from loopwarden.gateway.asked import read_batch, read_one
from loopwarden.gateway.limits import read_body
from loopwarden.gateway.problems import answer
from loopwarden.gateway.wire import dump

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from loopwarden.gateway.context import Gateway

_KIND: Final = ":id}"


class _IdConvertor(Convertor[str]):
    """An id in a path: any characters, slashes and ends of lines too (which `path` leaves out)."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _IdConvertor())


def plain(path: str) -> str:
    """A path as OpenAPI writes it."""
    return path.replace(_KIND, "}")


PATHS: Final = {
    "before": "/v1/runs/{run:id}/before",
    "after": "/v1/runs/{run:id}/after",
    "compacted": "/v1/runs/{run:id}/compacted",
    "user_message": "/v1/runs/{run:id}/user-message",
    "retract": "/v1/runs/{run:id}/retract",
    "forget": "/v1/runs/{run:id}/forget",
}
"""By the name of the event."""

BATCH_PATH: Final = "/v1/events"
RUN_BATCH_PATH: Final = "/v1/runs/{run:id}/events"


class _One:
    """One event of one run."""

    def __init__(self, gateway: Gateway, kind: str) -> None:
        self._gateway = gateway
        self._kind = kind
        self._most = gateway.runtime.gateway.limits.body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = read_one(self._kind, scope["path_params"]["run"], await read_body(scope, receive, self._most))
        verdict = await self._gateway.desk.answer(asked)
        self._gateway.metrics.verdict(self._kind, verdict.action)
        await answer(send, dump(verdict))


class _Batch:
    """Many events: of one run, or each with its own."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limits = gateway.runtime.gateway.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await read_body(scope, receive, self._limits.body_bytes)
        batch = read_batch(raw, self._limits.batch_events, scope["path_params"].get("run"))
        verdicts = await self._gateway.desk.answer_all(batch)
        for asked, verdict in zip(batch, verdicts, strict=True):
            self._gateway.metrics.verdict(asked.kind, verdict.action)
        await answer(send, dump({"verdicts": verdicts}))


def routes(gateway: Gateway) -> list[BaseRoute]:
    """The routes of the guard."""
    batch = _Batch(gateway)
    found: list[BaseRoute] = [
        Route(path, _One(gateway, kind), methods=["POST"]) for kind, path in PATHS.items()
    ]
    found += [Route(path, batch, methods=["POST"]) for path in (BATCH_PATH, RUN_BATCH_PATH)]
    return found
