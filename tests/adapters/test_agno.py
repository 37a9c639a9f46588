"""The guard around the models of Agno."""

from __future__ import annotations

import pytest

pytest.importorskip("agno.models.base", reason="needs agno; see scripts/check-hosts")

from tests.adapters.agno_scripts import Agno
from tests.adapters.contract import Contract


class TestAgno(Contract):
    @pytest.fixture(params=["sync", "async", "stream", "async stream"])
    def host(self, request: pytest.FixtureRequest) -> Agno:
        return Agno(request.param)
