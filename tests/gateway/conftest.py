"""One gateway for the tests that don't end it; each test has runs of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

    from tests.gateway.processes import GatewayProcess


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
    pytest.importorskip("httpx2", reason="the extra client is not installed")
    from tests.gateway.processes import gateways

    yield from gateways(tmp_path_factory.mktemp("gateway") / "state")


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[httpx2.Client]:
    with gateway.client() as found:
        yield found
