"""Agents and the gateway in a configuration: defaults under each agent, and every fault at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loopwarden import load_config
from loopwarden.config.runtime import runtime_of, seconds_of
from loopwarden.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_defaults_lie_under_every_agent_field_by_field() -> None:
    runtime = runtime_of(
        load_config(
            {
                "agents": {
                    "defaults": {"model": "one", "tools": {"exec": {"policy": "ask", "timeoutSeconds": 5}}},
                    "list": [
                        {"id": "a", "tools": {"exec": {"allow": ["ls*"]}, "loopDetection": {"enabled": True}}}
                    ],
                    "entries": {"b": {"model": "two"}},
                }
            }
        )
    )
    a, b = runtime.agents["a"], runtime.agents["b"]
    assert (a.model, b.model) == ("one", "two")
    assert (a.tools.exec.policy, a.tools.exec.timeout_seconds, a.tools.exec.allow) == ("ask", 5, ["ls*"])
    assert runtime.gateway.host == "127.0.0.1"


def test_an_empty_configuration_has_no_agents() -> None:
    assert runtime_of(load_config({})).agents == {}


def test_every_fault_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.json5"
    path.write_text("""{
      agents: {
        defaults: { tools: { exec: { polic: "ask" } } },
        list: [
          { id: "a", modl: "x", tools: { exec: { policy: "no" } } },
          { id: "b", heartbeat: {} },
          { id: "c", tools: { channels: { x: { type: "file" } } } },
          { id: "d", heartbeat: { every: "1 hour" } },
        ],
      },
      gateway: { limits: { runs: 0 } },
    }""")
    with pytest.raises(ConfigError) as raised:
        runtime_of(load_config(path))
    assert [(one.line, one.path, one.suggestion) for one in raised.value.problems] == [
        (3, "agents.defaults.tools.exec.polic", "policy"),
        (5, "agents.list[0].tools.exec.policy", None),
        (5, "agents.list[0].modl", "model"),
        (6, "agents.list[1].heartbeat", None),
        (7, "agents.list[2].tools.channels.x", None),
        (8, "agents.list[3].heartbeat.every", None),
        (11, "gateway.limits.runs", None),
    ]


def test_a_file_for_the_guard_alone_may_hold_what_is_wrong_for_the_runner() -> None:
    config = load_config({"tools": {}, "gateway": {"auth": {"mode": "token"}}})
    with pytest.raises(ConfigError, match="auth"):
        runtime_of(config)


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("15m", 900), ("2h", 7200), ("1d", 86_400)])
def test_durations(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0m", "5", "m", "-5m", "5 m", "1.5h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="allowed"):
        seconds_of(text)
