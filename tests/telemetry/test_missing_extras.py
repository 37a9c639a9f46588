"""Without the packages of an extra."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("otel", "opentelemetry", "otel"),
        ("prometheus", "prometheus_client", "prometheus"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_command(module: str, package: str, extra: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import loopwarden.telemetry.{module}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith(f"run: pip install 'loopwarden[{extra}]'")
    assert "MissingExtraError" in ended.stderr
