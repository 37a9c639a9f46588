"""Who may see the page: a cookie that the token is exchanged for, and forms that only the page can send.

The cookie is made from the token, so that it outlives a restart and ends when the token is replaced.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from loopwarden.gateway.token import Token

_YEAR: Final = 365 * 86_400


class Entry:
    """Checks cookies, forms and tokens.

    Args:
        token: The gateway's token.

    Attributes:
        csrf: Stands in every form of the page.
    """

    def __init__(self, token: Token) -> None:
        self._token = token
        self.csrf = hmac.new(token.text.encode(), b"loopwarden page form", sha256).hexdigest()

    def knows(self, request: Request) -> bool:
        """Whether a request comes from somebody who may see the page: by cookie, or by the token."""
        cookie = request.cookies.get(self._token.cookie_name, "")
        if hmac.compare_digest(cookie.encode("utf-8", "replace"), self._token.cookie.encode()):
            return True
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self._token.is_text(given.strip())

    def welcome(self, request: Request, response: Response) -> None:
        """Give the browser the cookie."""
        response.set_cookie(
            self._token.cookie_name,
            self._token.cookie,
            max_age=_YEAR,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def is_own_form(self, request: Request, csrf: str) -> bool:
        """Whether a form was sent by the page.

        The browser says where it comes from in `Sec-Fetch-Site`, older ones in `Origin` (`null` in a form of
        a page that sends no referrer, as ours does); the form's own token decides.
        """
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return False
        origin = request.headers.get("origin", "null")
        if origin not in {"null", f"{request.url.scheme}://{request.headers.get('host', '')}"}:
            return False
        return hmac.compare_digest(csrf.encode("utf-8", "replace"), self.csrf.encode())
