"""The few things that HTML is made with here."""

from __future__ import annotations

import html
from datetime import UTC, datetime
from typing import Final

from loopwarden.scan.words import duration

_WORDS: Final = {"warn": "warned", "block": "refused", "abort": "ended the run"}
_WOULD: Final = {"warn": "would warn", "block": "would refuse", "abort": "would end the run"}
_CLASSES: Final = {"warn": "warning", "block": "critical", "abort": "ended"}

_DAY: Final = 86_400


def text(value: str) -> str:
    """Text from outside as text, isolated from the direction of writing around it."""
    return f"<bdi>{html.escape(value)}</bdi>"


def attribute(value: str) -> str:
    """The value of an attribute, quotes included."""
    return f'"{html.escape(value, quote=True)}"'


def badge(kind: str, words: str) -> str:
    """A word on a coloured ground; both are ours."""
    return f'<span class="badge {kind}">{words}</span>'


def verdict_badge(action: str, would: str | None) -> str:
    """What the guard did, or would have done; empty for `allow`."""
    if would is not None:
        return badge(f"{_CLASSES[would]} observed", _WOULD[would])
    return badge(_CLASSES[action], _WORDS[action]) if action in _WORDS else ""


def age(at: float, now: float, *, suffix: str = " ago") -> str:
    """How long ago a moment was; the page's script keeps it right."""
    return (
        f'<time datetime="{_moment(at)}" title="{_moment(at)}" data-at="{at:.0f}" data-suffix="{suffix}">'
        f"{length(now - at)}{suffix}</time>"
    )


def length(seconds: float) -> str:
    """A length of time in whole units, as the page's script writes it: `3 s`, `5 min`, `2 h 10 min`."""
    seconds = max(seconds, 0.0)
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{int(seconds)} s"
    return duration(seconds) if seconds < _DAY else f"{int(seconds // _DAY)} d"


def clock(at: float) -> str:
    """Time of the day, in UTC; the page's script makes it local."""
    moment = datetime.fromtimestamp(at, UTC)
    return (
        f'<time datetime="{_moment(at)}" title="{_moment(at)}" data-clock="{at:.3f}">{moment:%H:%M:%S}</time>'
    )


def number(value: int, *, kind: str = "") -> str:
    """A number; zeros are faint, others have the colour of their kind."""
    return f'<span class="{kind if value else "zero"}">{value:,}</span>'


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
