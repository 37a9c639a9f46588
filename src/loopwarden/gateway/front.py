"""What every request passes first and last: host, rate, token; count, log, faults."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from loopwarden.gateway.guard_api import plain
from loopwarden.gateway.limits import Rate
from loopwarden.gateway.problems import Problem
from loopwarden.telemetry import log
from loopwarden.telemetry.log import FACTS, one_word

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from loopwarden.gateway.context import Gateway

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_QUIET: Final = frozenset({"/healthz", "/metrics"})
_ALWAYS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""Headers of every answer that doesn't say otherwise."""

_REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
"""What the server puts where a path is not UTF-8; it may also have been meant."""

_STREAM: Final = b"text/event-stream"
_LONGEST_PATH: Final = 200


class Front:
    """The outermost part of the app.

    Args:
        app: What answers requests.
        gateway: Whose it is.
        public: Paths that need no token; one that ends in a slash (other than `/`) stands for all below it.
        hosts: Names that `Host` may have; `None`: any.
    """

    def __init__(
        self, app: ASGIApp, gateway: Gateway, *, public: Collection[str], hosts: Collection[str] | None
    ) -> None:
        self._app = app
        self._metrics = gateway.metrics
        self._token = gateway.token
        self._public = frozenset(public)
        self._below = tuple(path for path in public if len(path) > 1 and path.endswith("/"))
        self._hosts = hosts
        per_second = gateway.runtime.gateway.limits.requests_per_second
        self._rate = Rate(per_second)
        self._rate_of_strangers = Rate(per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            return
        began = time.perf_counter()
        status = 0
        stream = False

        async def sent(message: Message) -> None:
            nonlocal status, stream
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = dict(message["headers"])
                stream = headers.get(b"content-type", b"").startswith(_STREAM)
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in _ALWAYS if name not in headers),
                ]
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, sent)
        except Problem as problem:
            if status == 0:
                await problem.send(sent)
        except Exception:  # noqa: BLE001 - one request, not the gateway
            log.logger.exception("fault in the gateway")
            if status == 0:
                await Problem(500, "fault in the gateway; its log says more").send(sent)
        finally:
            seconds = time.perf_counter() - began
            route = plain(getattr(scope.get("route"), "path", None) or "other")
            self._metrics.request(route, status, None if stream else seconds)
            self._note(scope, status, seconds)

    def _check(self, scope: Scope) -> None:
        """Raise `Problem` for a request that is not to be looked at."""
        if self._hosts is not None and _host(scope["headers"]) not in self._hosts:
            raise Problem(421, "the header `Host` names another server; ask for 127.0.0.1 or localhost")
        path = scope["path"]
        if path == "/healthz":
            return
        client = scope.get("client")
        admitted = self._token.admits(scope["headers"])
        rate = (
            self._rate if admitted else self._rate_of_strangers
        )  # who has no token takes nothing from others
        if rate.take(client[0] if client else ""):
            self._metrics.limited()
            raise Problem(
                429,
                "too many requests from this address (gateway.limits.requestsPerSecond)",
                headers={"retry-after": "1"},
            )
        if not admitted and not self._is_public(path):
            raise Problem(
                401,
                "a token is needed: `Authorization: Bearer TOKEN`, with the token from the file `token` in"
                " the state folder of the gateway",
                headers={"www-authenticate": 'Bearer realm="loopwarden"'},
            )
        if _REPLACED in path and not _is_text(scope.get("raw_path") or b""):  # else ids would become one
            raise Problem(400, "the path is not UTF-8 where it has %-signs")

    def _is_public(self, path: str) -> bool:
        return path in self._public or path.startswith(self._below)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """An access line: no query, no header. Where all is well with a frequent one, for debugging only."""
        path: str = scope["path"]
        frequent = status < 300 and (path in _QUIET or path.startswith(("/v1/runs/", "/v1/events")))  # noqa: PLR2004 - HTTP
        severity = 10 if frequent else 20
        if not log.logger.isEnabledFor(severity):
            return
        shown = one_word(path[:_LONGEST_PATH])
        facts: dict[str, Any] = {
            "event": "request",
            "method": scope["method"],
            "path": shown,
            "status": status,
            "milliseconds": round(seconds * 1000, 3),
        }
        log.logger.log(
            severity,
            "request method=%s path=%s status=%d ms=%.1f",
            one_word(scope["method"]),
            shown,
            status,
            seconds * 1000,
            extra={FACTS: facts},
        )


def _is_text(raw_path: bytes) -> bool:
    try:
        unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        return False
    return True


def _host(headers: list[tuple[bytes, bytes]]) -> str:
    """Name in `Host`, in lower case, without port and brackets; empty for none, or for several."""
    found = [value for name, value in headers if name == b"host"]
    if len(found) != 1:
        return ""
    text = found[0].decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text
