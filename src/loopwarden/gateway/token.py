"""The token: who may speak to the gateway.

It is made when a gateway starts for the first time on its folder, and stays. Programs send it as
`Authorization: Bearer TOKEN`; the browser gets a cookie that is derived from it, so that what other servers
on the same host are sent along is not the token itself.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from loopwarden.errors import StoreError
from loopwarden.state_folder import TOKEN_FILE

if TYPE_CHECKING:
    from pathlib import Path

_BYTES: Final = 32
_FORM: Final = re.compile(rb"[A-Za-z0-9_-]{32,200}")
_LONGEST: Final = 1024
_BEARER: Final = b"bearer "
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)


class Token:
    """A token, and the cookie that goes with it.

    Args:
        text: The token.
        path: File that it stands in.
    """

    def __init__(self, text: str, path: Path) -> None:
        self.text = text
        self.path = path
        self._bearer = text.encode()
        self.cookie = hmac.new(self._bearer, b"loopwarden page", sha256).hexdigest()
        self.cookie_name = f"loopwarden-{sha256(self._bearer).hexdigest()[:8]}"

    def is_text(self, given: str) -> bool:
        """Whether this is the token; takes as long whatever is wrong with it."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._bearer)

    def admits(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Whether a request with these headers (names in lower case) may be answered.

        Either the token as Bearer, or our cookie. With the cookie, an `Origin` must be the host that is
        asked: a browser sends it along with whatever a page of somebody else posts.
        """
        cookies, origin, host = b"", None, b""
        for name, value in headers:
            if name == b"authorization":
                return value[:7].lower() == _BEARER and hmac.compare_digest(value[7:].strip(), self._bearer)
            if name == b"cookie":
                cookies = value
            elif name == b"origin":
                origin = value
            elif name == b"host":
                host = value
        if not cookies or not self._in_cookies(cookies):
            return False
        return origin is None or origin.partition(b"://")[2] == host

    def _in_cookies(self, header: bytes) -> bool:
        wanted = self.cookie_name.encode()
        for one in header.split(b";"):
            name, _, value = one.strip().partition(b"=")
            if name == wanted:
                return hmac.compare_digest(value, self.cookie.encode())
        return False


def token_in(folder: Path) -> Token:
    """The token of a folder, made if it is missing.

    Only for who holds the folder's lock.

    Raises:
        StoreError: It can't be made or read, other people could have read it, or it is damaged.
    """
    path = folder / TOKEN_FILE
    try:
        if not os.path.lexists(path):
            _make(path)
        return Token(_read(path), path)
    except OSError as error:
        raise StoreError(f"the token {path} can't be used: {error.strerror or error}") from None


def _make(path: Path) -> None:
    """Whole or not at all: written beside its place and put there by its name."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_urlsafe(_BYTES).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _read(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | _NO_FOLLOW), "rb") as stream:
        if os.name != "nt":
            found = os.fstat(stream.fileno())
            if found.st_uid != os.geteuid():
                raise StoreError(f"the token {path} belongs to another user; without it a new one is made")
            if found.st_mode & 0o077:
                raise StoreError(f"other people may read the token {path}; remove it, and a new one is made")
        text = stream.read(_LONGEST).strip()
    if not _FORM.fullmatch(text):
        raise StoreError(f"the token {path} is damaged; remove it, and a new one is made")
    return text.decode()
