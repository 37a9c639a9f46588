"""The guard in a `ToolCallingAgent` of smolagents."""

from __future__ import annotations

import pytest

pytest.importorskip("smolagents", reason="needs smolagents; see scripts/check-hosts")

from tests.adapters.contract import Contract
from tests.adapters.smolagents_scripts import Smolagents


class TestSmolagents(Contract):
    @pytest.fixture(params=["run", "stream", "deltas", "thread"])
    def host(self, request: pytest.FixtureRequest) -> Smolagents:
        return Smolagents(request.param)
