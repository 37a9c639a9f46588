"""Agents and the gateway in a configuration: defaults under each agent, and every fault at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


WORKS = """{ id: "a", model: "m", baseUrl: "http://127.0.0.1:8080/v1", workspace: WORK,
             heartbeat: { cron: "0 9 * * 1-5" },
             tools: { channels: { hook: { type: "webhook", url: "http://localhost:9/x" },
                                  log: { type: "file", path: "out/log" } } } }"""
"""An agent of four lines that can work; the folder goes in for `WORK`."""


@pytest.mark.parametrize(
    ("line", "old", "new", "said"),
    [
        (3, "0 9 * * 1-5", "61 * * * *", "five fields .*Bad minute"),
        (3, "0 9 * * 1-5", "0 9 31 2 *", "five fields .*Bad day-of-month"),
        (3, "0 9 * * 1-5", "x x x x x", "five fields"),
        (3, "0 9 * * 1-5", "0 9 * * 1-5 2030", "five fields"),
        (3, "0 9 * * 1-5", "@daily", "five fields"),
        (2, "http://127.0.0.1:8080/v1", "nohttp", "allowed: http://HOST"),
        (2, "http://127.0.0.1:8080/v1", "localhost:8080/v1", "allowed: http://HOST"),
        (2, "http://127.0.0.1:8080/v1", "http://", "allowed: http://HOST"),
        (2, "http://127.0.0.1:8080/v1", "http://x:99999/v1", "allowed: http://HOST"),
        (2, "http://127.0.0.1:8080/v1", "http://a b/v1", "allowed: http://HOST"),
        (4, "http://localhost:9/x", "http://example.com/", "on this machine"),
        (4, "http://localhost:9/x", "http://127.0.0.1.example.com/", "on this machine"),
        (4, "http://localhost:9/x", "http://10.0.0.1/", "on this machine"),
        (4, "http://localhost:9/x", "http://[::ffff:8.8.8.8]/", "on this machine"),
        (4, "http://localhost:9/x", "https://localhost/", "on this machine"),
        (4, "http://localhost:9/x", "http://u:p@localhost/", "on this machine"),
        (5, "out/log", "../x", "inside the workspace"),
        (5, "out/log", "/etc/passwd", "inside the workspace"),
        (5, "out/log", "out/link/log", "inside the workspace"),
        (5, "out/log", ".", "inside the workspace"),
        (2, "WORK", "WORK/none", "a folder that is there"),
        (2, "WORK", "WORK/file", "a folder that is there"),
        (2, "WORK", "~nobody-of-that-name/x", "a folder that is there"),
    ],
)
def test_what_can_not_work_is_refused_at_its_line(
    tmp_path: Path, line: int, old: str, new: str, said: str
) -> None:
    pytest.importorskip("cronsim")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/link").symlink_to("/tmp")
    (tmp_path / "file").touch()
    path = tmp_path / "c.json5"
    agent = WORKS.replace("WORK", '"WORK"').replace(old, new).replace("WORK", str(tmp_path))
    path.write_text(f"{{agents: {{list: [\n{agent}]}}}}")
    with pytest.raises(ConfigError, match=said) as raised:
        runtime_of(load_config(path))
    assert [one.line for one in raised.value.problems] == [line]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0 9 * * 1-5", "*/5 * * * *"),
        ("0 9 * * 1-5", "0 0 L * mon#1"),
        ("0 9 * * 1-5", "0 9 29 2 *"),
        ("http://127.0.0.1:8080/v1", "https://api.example.com"),
        ("http://localhost:9/x", "http://[::1]:9"),
        ("http://localhost:9/x", "http://127.1.2.3/"),
        ("out/log", "WORK/log"),
        ("out/log", "new/folder/log"),
    ],
)
def test_what_can_work_is_taken(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "c.json5"
    agent = WORKS.replace("WORK", '"WORK"').replace(old, new).replace("WORK", str(tmp_path))
    path.write_text(f"{{agents: {{list: [\n{agent}]}}}}")
    assert list(runtime_of(load_config(path)).agents) == ["a"]


def test_a_wrong_default_is_told_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "c.json5"
    path.write_text('{agents: {\ndefaults: {baseUrl: "nohttp"},\nlist: [{id: "a"}, {id: "b"}]}}')
    with pytest.raises(ConfigError) as raised:
        runtime_of(load_config(path))
    assert [(one.line, one.path) for one in raised.value.problems] == [(2, "agents.defaults.baseUrl")]


@pytest.mark.parametrize(
    ("block", "allowed"),
    [
        ({"gateway": {"port": 65_536}}, "a whole number from 0 to 65535"),
        ({"gateway": {"port": -1}}, "a whole number from 0 to 65535"),
        ({"gateway": {"port": "8377"}}, "a whole number from 0 to 65535"),
        ({"gateway": {"limits": {"runs": 0}}}, "a whole number from 1 to 1000000000"),
        ({"agents": {"list": [{"id": "a", "contextWindow": 1}]}}, "a whole number from 256 to 100000000"),
        ({"agents": {"list": [{"id": "a", "contextWindow": 1.5}]}}, "a whole number from 256 to 100000000"),
        ({"agents": {"defaults": {"subagents": {"maxDepth": 9}}}}, "a whole number from 0 to 8"),
        ({"agents": {"list": [{"id": "a", "tools": {"exec": {"timeoutSeconds": 0}}}]}}, "from 1 to 10000000"),
    ],
)
def test_the_bounds_that_are_told_are_those_that_hold(block: dict[str, Any], allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"allowed: .*{allowed}"):
        runtime_of(load_config(block))


def test_the_bounds_themselves_are_taken() -> None:
    agent = {"id": "a", "contextWindow": 256, "subagents": {"maxDepth": 0, "maxChildren": 100}}
    runtime_of(load_config({"gateway": {"port": 65_535}, "agents": {"list": [agent]}}))
