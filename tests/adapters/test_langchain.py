"""LangChain's agents and LangGraph's `ToolNode` against the contract, and what only they have."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain", reason="needs langchain")

from tests.adapters.contract import Contract
from tests.adapters.langchain_agents import AgentHost, NodeHost


class TestLangChain(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> AgentHost:
        return AgentHost(request.param)


class TestLangGraph(Contract):
    @pytest.fixture(params=["sync", "async", "stream"])
    def host(self, request: pytest.FixtureRequest) -> NodeHost:
        return NodeHost(request.param)
