"""What is answered when something is wrong: `application/problem+json` (RFC 9457), whatever it is."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from loopwarden.gateway.wire import dump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import Send

CONTENT_TYPE: Final = "application/problem+json"

_TITLES: Final = {413: "Content Too Large", 422: "Unprocessable Content"}
"""Of RFC 9110; Python says the older ones before 3.13."""


class Problem(Exception):  # noqa: N818 - what a client is answered, not a fault of ours
    """A request that is not done.

    Args:
        status: HTTP status.
        detail: What was given, what is allowed, what to do; no payloads.
        errors: For 422: each fault with `field`, `message` and in a batch `index`.
        headers: More headers of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The document."""
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": _title(self.status),
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = list(self.errors)
        return dump(document)

    async def send(self, send: Send) -> None:
        """Answer with it."""
        await answer(send, self.body(), self.status, CONTENT_TYPE, self.headers)


def _title(status: int) -> str:
    try:
        return _TITLES.get(status) or HTTPStatus(status).phrase
    except ValueError:
        return "Error"


async def answer(
    send: Send,
    body: bytes,
    status: int = 200,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> None:
    """A whole answer."""
    sent = [
        (b"content-type", content_type.encode("latin-1")),
        (b"content-length", str(len(body)).encode()),
    ]
    if headers:
        sent += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})
