"""Tests of an extra need its packages; the built wheel is tested without them."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = ("opentelemetry", "opentelemetry.sdk", "prometheus_client")

# all() stops at the first that is missing; a module in a missing package can't be looked for
collect_ignore = [] if all(find_spec(name) is not None for name in NEEDED) else ["test_metrics.py"]
