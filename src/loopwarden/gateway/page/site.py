"""The routes of the page."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from loopwarden.gateway.page import run_view, runs_view
from loopwarden.gateway.page.choosing import Choice
from loopwarden.gateway.page.entry import Entry
from loopwarden.gateway.page.shell import ASSETS, HEADERS, asset, document
from loopwarden.gateway.stream import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from loopwarden.gateway.board import Board
    from loopwarden.gateway.stream import Stream
    from loopwarden.gateway.token import Token

_FORM_BYTES: Final = 4096
_CACHED: Final = 64
_CACHED_SECONDS: Final = 1.0

_SETTLE_SECONDS: Final = 1.0
"""How long the answer to a form waits for what was decided to be kept; it holds at once."""

_LOGIN: Final = (
    '<section class="empty"><h1>Who are you?</h1>'
    "<p>Open the address that <code>loopwarden gateway</code> printed when it started, or paste its token. "
    'If you came here by a link and are known already: <a href="/">go on</a>.</p>{fault}'
    '<form method="post" action="/page/login" class="login"><label for="token">Token</label>'
    '<input id="token" name="token" type="password" autocomplete="current-password" required>'
    '<button class="primary">Open</button></form></section>'
)


PUBLIC: Final = frozenset({"/", "/events", "/page/"})
"""Where the page checks itself who asks: the token is exchanged for a cookie there, and a browser without one
is shown a form."""


class Site:
    """The live page of a gateway.

    No access log may hold the query of `/`, which the token comes in once.

    Args:
        board: What to show.
        stream: Tells browsers what changed; the board's `changed` is set to it.
        token: The gateway's token.
        cancel: Ends a run of the runner by its id, as `Runner.cancel`; `None`: there is no runner.
        settle: Waits until what was decided is kept, for some seconds at most; `None`: nobody keeps it.
        clock: Seconds since the epoch.

    Attributes:
        cancel: As given.
    """

    def __init__(
        self,
        board: Board,
        stream: Stream,
        *,
        token: Token,
        cancel: Callable[[str], bool] | None = None,
        settle: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.cancel = cancel
        self._settle = settle
        self._board = board
        self._stream = stream
        self._token = token
        self._entry = Entry(token)
        self._clock = clock
        self._made: dict[tuple[Choice, int, str], tuple[float, str]] = {}
        board.changed = stream.touch

    def routes(self) -> list[BaseRoute]:
        """For the gateway's application."""
        return [
            Route("/", self._home),
            Route("/events", self._known(self._events)),
            Route("/page/runs", self._known(self._runs)),
            Route("/page/run/{name}", self._known(self._run)),
            Route("/page/run/{name}/live", self._known(self._live)),
            Route("/page/run/{name}/{deed}", self._known(self._deed), methods=["POST"]),
            Route("/page/login", self._login, methods=["POST"]),
            Route("/page/assets/{name}", _asset),
        ]

    async def _home(self, request: Request) -> Response:
        token = request.query_params.get("token")
        if token is not None:
            if not self._token.is_text(token):
                return self._strange("That is not the token of this gateway.")
            rest = Choice.of(request.query_params).query()
            return self._in(request, f"/{rest}")
        if not self._entry.knows(request):
            return self._strange()
        choice, now = Choice.of(request.query_params), self._clock()
        live = f"/events?after={self._stream.now}"
        body = runs_view.page(
            self._board, choice, now, gateway=_address(request), token_file=self._token.path
        )
        return _page(document("Runs · loopwarden", body, live=live))

    async def _login(self, request: Request) -> Response:
        form = await _form(request)
        if not self._token.is_text(form.get("token", "").strip()):
            return self._strange("That is not the token of this gateway.")
        return self._in(request, "/")

    async def _events(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type="text/event-stream")
        run = request.query_params.get("run")
        topics = {EVERYTHING: "runs"} if run is None else {run[:64]: "run"}
        last = request.headers.get("last-event-id") or request.query_params.get("after")
        response = self._stream.response(topics, last)
        for name, value in HEADERS.items():
            response.headers[name] = value
        return response

    async def _runs(self, request: Request) -> Response:
        choice = Choice.of(request.query_params)
        response = _page(self._list(choice, _address(request)))
        if request.headers.get("hx-trigger") == "filter":  # kept over a reload, or sent to somebody else
            response.headers["HX-Replace-Url"] = f"/{choice.query()}"
        return response

    def _list(self, choice: Choice, address: str) -> str:
        """Made once for all tabs that ask for the same within a second and without a change between."""
        key, now = (choice, self._board.revision, address), self._clock()
        made = self._made.get(key)
        if made is None or not 0 <= now - made[0] < _CACHED_SECONDS:
            if len(self._made) >= _CACHED:
                self._made.clear()
            part = runs_view.part(self._board, choice, now, gateway=address, token_file=self._token.path)
            made = self._made[key] = now, part
        return made[1]

    async def _run(self, request: Request) -> Response:
        name, first = request.path_params["name"], _before(request)
        after = self._stream.now
        card = self._board.card(name)
        if card is None:
            return _page(document("Unknown run · loopwarden", _GONE), 404)
        if card.name != name:
            return RedirectResponse(f"/page/run/{card.name}", 303, HEADERS)
        body = run_view.page(
            card,
            self._board.cards(),
            self._board.decisions,
            self._clock(),
            csrf=self._entry.csrf,
            can_cancel=self.cancel is not None,
            first=first,
        )
        live = f"/events?run={card.name}&after={after}"
        return _page(document(f"{runs_view.title_of(card)} · loopwarden", body, live=live))

    async def _live(self, request: Request) -> Response:
        return self._part(request.path_params["name"], _before(request))

    def _part(self, name: str, first: int | None = None) -> Response:
        card = self._board.card(name)
        if card is None:
            return _page(_GONE)
        if card.name != name:  # it goes on under another id
            return Response(status_code=204, headers={**HEADERS, "HX-Redirect": f"/page/run/{card.name}"})
        body = run_view.part(
            card,
            self._board.cards(),
            self._board.decisions,
            self._clock(),
            csrf=self._entry.csrf,
            can_cancel=self.cancel is not None,
            first=first,
        )
        return _page(body)

    async def _deed(self, request: Request) -> Response:
        form = await _form(request)
        if not self._entry.is_own_form(request, form.get("csrf", "")):
            return _page(document("Refused · loopwarden", _FOREIGN), 403)
        name = request.path_params["name"]
        card = self._board.card(name)
        if card is None:
            return _page(document("Unknown run · loopwarden", _GONE), 404)
        done = self._do(request.path_params["deed"], card.name, card.run_id, form.get("loop", ""))
        if not done:
            return _page(document("Not done · loopwarden", _NOT_DONE), 409)
        if self._settle is not None:
            await asyncio.to_thread(self._settle, _SETTLE_SECONDS)
        if "hx-request" in request.headers:
            return self._part(card.name)
        return RedirectResponse(f"/page/run/{card.name}", 303, HEADERS)

    def _do(self, deed: str, name: str, run_id: str | None, loop: str) -> bool:
        board, decisions = self._board, self._board.decisions
        card = board.card(name)
        found = None if card is None else card.loops.get(loop)
        detector = "" if found is None else found.detector
        match deed:
            case "pause":
                decisions.pause(name)
                board.did(name, "paused")
            case "resume":
                decisions.resume(name)
                board.did(name, "resumed")
            case "release" if found is not None:
                decisions.release(name, loop)
                board.did(name, "released", detector, loop=loop)
            case "hold" if found is not None or decisions.is_released(name, loop):
                decisions.hold(name, loop)
                board.did(name, "held", detector, loop=loop)
            case "cancel" if self.cancel is not None and run_id is not None:
                if not self.cancel(run_id):
                    return False
                board.did(name, "cancel")
            case _:
                return False
        return True

    def _known(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def checked(request: Request) -> Response:
            return await endpoint(request) if self._entry.knows(request) else self._strange()

        return checked

    def _strange(self, fault: str = "") -> Response:
        said = f'<p class="callout critical" role="alert">{fault}</p>' if fault else ""
        return _page(document("loopwarden", _LOGIN.format(fault=said), home=False), 401)

    def _in(self, request: Request, where: str) -> Response:
        response = RedirectResponse(where, 303, HEADERS)
        self._entry.welcome(request, response)
        return response


_GONE: Final = (
    '<section class="empty"><h1>Unknown run</h1><p>It is not on the board: it was long ago, or the gateway '
    'was restarted since. <a href="/" data-back>Show the runs that there are</a></p></section>'
)
_FOREIGN: Final = (
    '<section class="empty"><h1>Refused</h1><p>This form was not sent by this page. '
    '<a href="/" data-back>Back to the runs</a></p></section>'
)
_NOT_DONE: Final = (
    '<section class="empty"><h1>Not done</h1><p>There was nothing to do any more: the run may be over. '
    '<a href="/" data-back>Back to the runs</a></p></section>'
)


def _page(body: str, status: int = 200) -> Response:
    return HTMLResponse(body.encode("utf-8", "replace"), status, HEADERS)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return Response("there is no such file\n", 404, HEADERS, "text/plain")
    kept = "public, max-age=31536000, immutable" if "v" in request.query_params else "no-cache"
    return Response(asset(name), 200, {**HEADERS, "Cache-Control": kept}, ASSETS[name])


async def _form(request: Request) -> Mapping[str, str]:
    """The fields of a small form; empty where it is too long or none."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM_BYTES:
            return {}
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError:  # more fields than that
        return {}
    return {name: values[-1] for name, values in fields.items()}


def _address(request: Request) -> str:
    """Of the gateway, as the browser knows it."""
    return str(request.base_url).rstrip("/")


def _before(request: Request) -> int | None:
    text = request.query_params.get("before", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004 - fewer calls
