"""The document around what is shown: head, header, footer."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Final

import orjson

from loopwarden import __version__
from loopwarden.gateway.page.markup import attribute

SCRIPTS: Final = ("htmx.min.js", "htmx-sse.min.js", "idiomorph-ext.min.js", "page.js")

ASSETS: Final = {
    **dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8"),
    "page.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "LICENSES.txt": "text/plain; charset=utf-8",
}
"""The files of the page and their types."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer of the page."""

_HTMX: Final = {
    "allowEval": False,
    "allowScriptTags": False,
    "includeIndicatorStyles": False,
    "selfRequestsOnly": True,
    "historyCacheSize": 0,
    "refreshOnHistoryMiss": True,
    "defaultSwapStyle": "innerHTML",
    "scrollIntoViewOnBoost": False,
}

_SIGN: Final = (
    '<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M19 12a7 7 0 1 1-2.6-5.4"/>'
    '<path d="M15.5 2.5v6h6"/></svg>'
)

_KEYS: Final = (
    "<kbd>/</kbd> search · <kbd>j</kbd> <kbd>k</kbd> next and previous · <kbd>Enter</kbd> open · "
    "<kbd>u</kbd> back to the list"
)


@cache
def asset(name: str) -> bytes:
    """A file of the page.

    Raises:
        KeyError: There is none of that name.
    """
    if name not in ASSETS:
        raise KeyError(name)
    return resources.files("loopwarden.gateway.page").joinpath("assets", name).read_bytes()


@cache
def address(name: str) -> str:
    """Where the browser gets a file; changes with its content, so that it may be kept for ever."""
    return f"/page/assets/{name}?v={hashlib.sha256(asset(name)).hexdigest()[:12]}"


def document(title: str, body: str, *, live: str | None = None, home: bool = True) -> str:
    """A whole page.

    Args:
        title: As text.
        body: HTML of the part `main`.
        live: Address of the events that keep it up to date; `None`: it does not change.
        home: Whether there is a list to go to.
    """
    scripts = "".join(f'<script src="{address(name)}" defer></script>' for name in SCRIPTS)
    events = f' hx-ext="sse,morph" sse-connect={attribute(live)}' if live is not None else ""
    keys = f'<p class="keys">{_KEYS}</p>' if home else ""
    brand = '<a class="brand" href="/" data-home>' if home else '<span class="brand">'
    state = (
        '<p class="live" id="live" role="status" hidden><span class="dot"></span>'
        '<span id="live-words">connecting</span></p>'
        '<noscript><p class="live">Without JavaScript: reload the page for news.</p></noscript>'
        if live is not None
        else ""
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<meta name=\"htmx-config\" content='{orjson.dumps(_HTMX).decode()}'>"
        f'<title>{_title(title)}</title><link rel="icon" href="{address("icon.svg")}">'
        f'<link rel="stylesheet" href="{address("page.css")}">{scripts}</head><body>'
        '<a class="skip" href="#main">Skip to the content</a>'
        f"<header>{brand}{_SIGN}loopwarden{'</a>' if home else '</span>'}{state}</header>"
        f'<main id="main" tabindex="-1"{events}>{body}</main>'
        f"<footer>{keys}<p>loopwarden {__version__} · "
        '<a href="/page/assets/LICENSES.txt">licences</a></p></footer></body></html>\n'
    )


def _title(title: str) -> str:
    return attribute(title)[1:-1]
