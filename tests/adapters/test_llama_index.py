"""The guard around the steps of LlamaIndex."""

from __future__ import annotations

import pytest

pytest.importorskip(
    "llama_index.core.agent.workflow", reason="needs llama-index-core; see scripts/check-hosts"
)

from tests.adapters.contract import Contract
from tests.adapters.llama_index_scripts import LlamaIndex


class TestLlamaIndex(Contract):
    @pytest.fixture(params=["stream", "plain", "workflow"])
    def host(self, request: pytest.FixtureRequest) -> LlamaIndex:
        return LlamaIndex(request.param)
