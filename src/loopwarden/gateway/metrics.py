"""What the gateway counts, for Prometheus: bounded in number, whatever clients send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loopwarden.errors import MissingExtraError

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ImportError as missing:
    raise MissingExtraError("prometheus-client", "gateway") from missing

from loopwarden.telemetry.prometheus import PrometheusListener

if TYPE_CHECKING:
    from collections.abc import Callable

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_STATUSES: Final = frozenset(
    {200, 202, 204, 303, 304, 400, 401, 404, 405, 408, 409, 413, 421, 422, 429, 500, 503}
)


class Metrics:
    """Counters of one gateway, in a registry of their own.

    Attributes:
        listener: For the guards: counts what they find.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.listener = PrometheusListener(registry=self.registry)
        self._requests = Counter(
            "loopwarden_gateway_requests",
            "Requests that were answered, by what was asked for and the status.",
            ("route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "loopwarden_gateway_request_seconds",
            "Time to the end of an answer; streams are left out.",
            ("route",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._verdicts = Counter(
            "loopwarden_gateway_verdicts",
            "Verdicts on events of clients.",
            ("event", "action"),
            registry=self.registry,
        )
        self._limited = Counter(
            "loopwarden_gateway_rate_limited",
            "Requests that were refused because an address sent too many.",
            registry=self.registry,
        )
        self._counted: dict[tuple[str, int], Counter] = {}
        self._timed: dict[str, Histogram] = {}
        self._said: dict[tuple[str, str], Counter] = {}

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Show a number that is asked for when somebody looks."""
        Gauge(f"loopwarden_gateway_{name}", text, registry=self.registry).set_function(value)

    def request(self, route: str, status: int, seconds: float | None) -> None:
        """A request was answered.

        Args:
            route: Template of the path, one of the app's.
            status: HTTP status.
            seconds: How long it took; `None` for a stream.
        """
        key = route, status if status in _STATUSES else 0
        counter = self._counted.get(key)
        if counter is None:
            counter = self._counted[key] = self._requests.labels(route, str(key[1] or "other"))
        counter.inc()
        if seconds is not None:
            timer = self._timed.get(route)
            if timer is None:
                timer = self._timed[route] = self._seconds.labels(route)
            timer.observe(seconds)

    def verdict(self, event: str, action: str) -> None:
        """An event was answered."""
        counter = self._said.get((event, action))
        if counter is None:
            counter = self._said[event, action] = self._verdicts.labels(event, action)
        counter.inc()

    def limited(self) -> None:
        """A request was refused because an address sent too many."""
        self._limited.inc()

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
