"""The LiteLLM proxy: the contract, with a small agent in front of the real proxy, over all three APIs."""

from __future__ import annotations

import os

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else the host asks for it when it is imported

pytest.importorskip("litellm", reason="needs litellm[proxy]; see scripts/check-hosts")

from tests.adapters.contract import Contract
from tests.adapters.litellm_scripts import Agent, Behind, behind
from tests.adapters.litellm_wire import FORMATS

__all__ = ["behind"]


class TestLiteLLM(Contract):
    """Over chat completions, Anthropic's messages and Responses, streamed and not."""

    @pytest.fixture(params=[f"{form}{way}" for form in FORMATS for way in ("", "-stream")])
    def host(self, request: pytest.FixtureRequest, behind: Behind) -> Agent:
        form, _, way = request.param.partition("-")
        return Agent(FORMATS[form], bool(way), behind)
