"""A gateway as seen from outside: an address, a token, and questions answered soon or not at all."""

from __future__ import annotations

import os
import re
import time
import weakref
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import orjson

from loopwarden.errors import MissingExtraError, StoreError
from loopwarden.loopback import is_loopback
from loopwarden.state_folder import GATEWAY, TOKEN_FILE, folder

try:
    import httpx2
except ImportError as error:
    raise MissingExtraError("httpx2", "client") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

TOKEN: Final = "LOOPWARDEN_TOKEN"  # noqa: S105 - the name of a variable
"""The variable with the token of the gateway."""

CONNECT_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 3.0
"""For so long an answer is waited for, a second try after a lost connection included."""

LONGEST_ANSWER: Final = 1_048_576
"""Bytes of an answer."""

_CONNECTIONS: Final = 100
_KEPT_SECONDS: Final = 4.0  # below what servers keep an idle connection for
_FORM: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,1024}")
_SAID: Final = 300  # characters of what a gateway says about a fault
_UNAUTHORIZED: Final = frozenset({401, 403})
_THIS_ONE_ONLY: Final = frozenset({400, 409, 413, 422})
_OK: Final = 200
_LOST: Final = (
    httpx2.RemoteProtocolError,
    httpx2.ReadError,
    httpx2.WriteError,
    httpx2.CloseError,
)


class RefusedError(StoreError):
    """The gateway is well but does not take this one question."""


class Service:
    """Puts questions to a gateway. Safe to share between threads, and usable after a fork.

    Args:
        address: `http://HOST:PORT` or `https://...`; the token may stand in it: `http://:TOKEN@HOST:PORT`.
        clock: Seconds that don't go back.

    Raises:
        StoreError: The address is wrong.
    """

    def __init__(self, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        try:
            parts = urlsplit(address)
            port = f":{parts.port}" if parts.port is not None else ""
        except ValueError:
            raise StoreError("the address of the gateway is wrong; allowed: http://HOST:PORT") from None
        host = parts.hostname or ""
        if not host or parts.query or parts.fragment:
            raise StoreError("the address of the gateway is wrong; allowed: http://HOST:PORT")
        self.url = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path.rstrip('/')}"
        self._own_token = unquote(parts.password) if parts.password else None
        self._local = is_loopback(host)
        self._clock = clock
        self._token: str | None = None
        self._clients: dict[int, httpx2.Client] = {}  # by process: a child makes connections of its own
        weakref.finalize(self, _close, self._clients)
        self._client()

    def post(self, path: str, body: bytes) -> Any:
        """The answer to a question, which may arrive there twice.

        Raises:
            StoreError: There is none.
            RefusedError: The gateway does not take this question.
        """
        until = self._clock() + ANSWER_SECONDS
        try:
            try:
                status, data = self._once(path, body, until)
            except _LOST:
                status, data = self._once(path, body, until)
        except httpx2.ConnectError as error:
            raise StoreError(f"nothing answers at {self.url}: {_plain(error)}") from error
        except httpx2.TimeoutException as error:
            raise StoreError(f"no answer from {self.url} within {ANSWER_SECONDS:g} seconds") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise StoreError(f"{self.url}: {_plain(error) or type(error).__name__}") from error
        if status in _UNAUTHORIZED:
            self._token = None  # it may be another one by now
            where = f"set {TOKEN}, or write it into the address as http://:TOKEN@HOST:PORT"
            raise StoreError(f"{self.url} does not take the token ({status}): {where}")
        if status != _OK:
            kind = RefusedError if status in _THIS_ONE_ONLY else StoreError
            raise kind(f"{self.url} answers {status}: {_detail(data)}")
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            raise StoreError(f"{self.url} answers something that is no JSON") from None

    def close(self) -> None:
        """Close the connections of this process."""
        _close(self._clients)

    def _once(self, path: str, body: bytes, until: float) -> tuple[int, bytes]:
        left = max(until - self._clock(), 0.01)
        timeout = httpx2.Timeout(left, connect=min(left, CONNECT_SECONDS))
        data = bytearray()
        with self._client().stream("POST", self.url + path, content=body, timeout=timeout) as response:
            for piece in response.iter_raw():
                data += piece
                if len(data) > LONGEST_ANSWER:
                    raise StoreError(f"{self.url} answers more than {LONGEST_ANSWER} bytes")
                if self._clock() > until:
                    raise httpx2.ReadTimeout("the answer comes too slowly")
            return response.status_code, bytes(data)

    def _client(self) -> httpx2.Client:
        """The connections of this process; those of a parent stay its own."""
        process = os.getpid()
        client = self._clients.get(process)
        if client is None:
            made = httpx2.Client(
                auth=_Bearer(self._find_token),
                headers={
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                    "User-Agent": "loopwarden",
                },
                limits=httpx2.Limits(
                    max_connections=_CONNECTIONS,
                    max_keepalive_connections=_CONNECTIONS,
                    keepalive_expiry=_KEPT_SECONDS,
                ),
                trust_env=not self._local,  # a proxy does not see this machine
            )
            client = self._clients.setdefault(process, made)
            if client is not made:
                made.close()
        return client

    def _find_token(self) -> str | None:
        """From the address, the variable, or for a gateway of this machine the file that it made.

        Raises:
            StoreError: It can't be one; what it is is not told.
        """
        if self._token is None:
            found = self._own_token or os.environ.get(TOKEN, "").strip() or None
            if found is None and self._local:
                found = _token_in_file()
            if found is not None and not _FORM.fullmatch(found):
                raise StoreError(f"the token for {self.url} has letters that no token has; look at {TOKEN}")
            self._token = found
        return self._token


def _close(clients: dict[int, httpx2.Client]) -> None:
    client = clients.pop(os.getpid(), None)
    if client is not None:
        client.close()


class _Bearer(httpx2.Auth):
    """The token as a header; no other source of credentials is asked."""

    def __init__(self, find: Callable[[], str | None]) -> None:
        self._find = find

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        token = self._find()
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


def _token_in_file() -> str | None:
    """The token that the gateway of this user made at its first start."""
    try:
        with (folder(GATEWAY, "the token") / TOKEN_FILE).open(encoding="ascii") as file:
            return file.read(4096).strip() or None
    except (OSError, StoreError, ValueError):
        return None


def _detail(data: bytes) -> str:
    """What a gateway says about a fault (RFC 9457), safe to log."""
    try:
        problem = orjson.loads(data)
        said = problem.get("detail") or problem.get("title") or ""
    except (orjson.JSONDecodeError, AttributeError):
        said = ""
    return _plain(said) or "(no reason given)"


def _plain(said: object) -> str:
    text = str(said)[:_SAID]
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
