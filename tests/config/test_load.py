"""From written blocks to settings: layouts, layers, faults, and what holds for any input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.config import Config, load_config
from loopwarden.core.settings import Detectors, KindRule, Settings, ToolProfile
from loopwarden.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

DEFAULTS = Settings()


def problems(source: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load_config(source)
    return [str(problem) for problem in raised.value.problems]


def block_of(config: Config, agent: str | None = None) -> Settings:
    """The settings without profiles, of which there are many."""
    return replace(config.settings(agent), profiles=())


def profile_of(config: Config, pattern: str, agent: str | None = None) -> ToolProfile:
    (found,) = [one for one in config.settings(agent).profiles if one.pattern == pattern]
    return found


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"tools": {}},
        {"tools": {"exec": {"host": "x"}}, "models": {}},
        {"agents": {"defaults": {"model": "x"}}},
        {"gateway": {"port": 1}, "logging": {}},
        {"preset": "reference"},
    ],
)
def test_without_a_block_all_is_default(source: dict[str, Any]) -> None:
    config = load_config(source)
    assert block_of(config) == DEFAULTS
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("enabled", True, "enabled"),
        ("historySize", 40, "history_size"),
        ("warningThreshold", 11, "warning_threshold"),
        ("criticalThreshold", 19, "critical_threshold"),
        ("unknownToolThreshold", 9, "unknown_tool_threshold"),
        ("globalCircuitBreakerThreshold", 29, "global_circuit_breaker_threshold"),
        ("onCritical", "ask", "on_critical"),
        ("refusedCallLimit", 3, "refused_call_limit"),
        ("resetOnWrite", False, "reset_on_write"),
        ("idleResetSeconds", 600, "idle_reset_seconds"),
    ],
)
def test_every_field_arrives(field: str, value: object, name: str) -> None:
    config = load_config({field: value})
    assert block_of(config) == replace(DEFAULTS, **{name: value})  # type: ignore[arg-type]  # names of fields
    assert config.warnings == ()


def test_inner_blocks_arrive() -> None:
    given_ = {
        "detectors": {"pingPong": False, "failureStreak": False},
        "postCompactionGuard": {"windowSize": 5},
    }
    detectors = Detectors(ping_pong=False, failure_streak=False)
    assert block_of(load_config(given_)) == replace(DEFAULTS, detectors=detectors, post_compaction_window=5)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"preset": "sensitive"},
            {
                "warning_threshold": 5,
                "critical_threshold": 8,
                "global_circuit_breaker_threshold": 15,
                "unknown_tool_threshold": 5,
            },
        ),
        ({"preset": "unattended"}, {"enabled": True, "on_critical": "abort", "refused_call_limit": 5}),
        (
            {"preset": "unattended", "enabled": None, "refusedCallLimit": 9},
            {"on_critical": "abort", "refused_call_limit": 9},
        ),
    ],
)
def test_presets_lie_under_what_is_written(block: dict[str, Any], expected: dict[str, Any]) -> None:
    config = load_config(block)
    assert block_of(config) == replace(DEFAULTS, **expected)
    assert config.warnings == ()


def test_agents_lie_over_the_global_block_field_by_field() -> None:
    config = load_config(
        {
            "tools": {
                "loopDetection": {
                    "enabled": True,
                    "preset": "sensitive",
                    "warningThreshold": 6,
                    "detectors": {"cycle": False, "pingPong": False},
                    "idleResetSeconds": 5,
                    "toolProfiles": {"job": {"kind": "poll", "ignoreText": ["x"]}},
                }
            },
            "agents": {
                "list": [
                    {"id": "plain"},
                    {
                        "id": "own",
                        "tools": {
                            "allow": ["exec"],
                            "loopDetection": {
                                "preset": "reference",
                                "detectors": {"pingPong": True},
                                "idleResetSeconds": None,
                                "toolProfiles": {"job": {"ignoreText": []}, "other": {"exempt": True}},
                            },
                        },
                    },
                ],
                "entries": {"third": {"tools": {"loopDetection": {"enabled": False}}}},
            },
        }
    )
    shared = replace(
        DEFAULTS,
        enabled=True,
        warning_threshold=6,
        critical_threshold=8,
        global_circuit_breaker_threshold=15,
        unknown_tool_threshold=5,
        detectors=Detectors(cycle=False, ping_pong=False),
        idle_reset_seconds=5.0,
    )
    assert config.agent_ids == ("plain", "own", "third")
    for agent in (None, "plain", "never heard of"):
        assert block_of(config, agent) == shared
    assert block_of(config, "own") == replace(
        DEFAULTS, enabled=True, warning_threshold=6, detectors=Detectors(cycle=False)
    )
    assert block_of(config, "third") == replace(shared, enabled=False)
    assert profile_of(config, "job") == ToolProfile(pattern="job", kind="poll", ignore_text=("x",))
    assert profile_of(config, "job", "own") == ToolProfile(pattern="job", kind="poll", ignore_text=())
    assert profile_of(config, "other", "own").exempt is True
    assert config.warnings == ()


def test_observe_mode_differs_in_nothing_else() -> None:
    config = load_config({"enabled": True})
    assert config.settings(mode="observe") == replace(config.settings(), mode="observe")
    assert config.settings() is config.settings()


def test_shipped_profiles_come_first_and_are_merged_by_field() -> None:
    config = load_config({"toolProfiles": {"exec": {"warningThreshold": 12}, "mine": {"kind": "wait"}}})
    patterns = [one.pattern for one in config.settings().profiles]
    assert patterns[-2:] == ["exec", "mine"]
    assert len(patterns) == len(set(patterns))
    assert profile_of(config, "exec") == ToolProfile(pattern="exec", kind="exec", warning_threshold=12)


def test_a_kind_that_is_written_holds_for_all_calls() -> None:
    assert profile_of(load_config({}), "process").kind_rule is not None
    config = load_config({"toolProfiles": {"process": {"kind": "poll"}}})
    assert profile_of(config, "process") == ToolProfile(pattern="process", kind="poll")
    rule = {"argument": "op", "kinds": {"look": "read"}}
    config = load_config({"toolProfiles": {"process": {"kindByArgument": rule}}})
    assert profile_of(config, "process").kind_rule == KindRule(argument="op", kinds=(("look", "read"),))


def test_explain_names_the_origin_of_every_value() -> None:
    config = load_config(
        {
            "tools": {"loopDetection": {"preset": "unattended", "warningThreshold": 25}},
            "agents": {"list": [{"id": "a", "tools": {"loopDetection": {"historySize": 99}}}]},
        }
    )
    origins = {one.field: (one.value, one.origin) for one in config.explain("a")}
    assert origins["preset"] == ("unattended", "global")
    assert origins["enabled"] == (True, "preset unattended")
    assert origins["warningThreshold"] == (25, "global")
    assert origins["criticalThreshold"] == (26, "repaired (given 20, default)")
    assert origins["historySize"] == (99, "agent a")
    assert origins["detectors.cycle"] == (True, "default")
    assert origins["toolProfiles.exec.kind"] == ("exec", "default")
    assert {one.field for one in config.explain()} == origins.keys()


def test_a_config_is_given_back() -> None:
    config = load_config({})
    assert load_config(config) is config


def test_all_faults_at_once_with_lines(tmp_path: Path) -> None:
    path = tmp_path / "c.json5"
    path.write_text(
        """// comment
{
  tools: {
    loopDetection: {
      historySize: 10.5,
      warningThreshold: 4, warningThreshold: -3,
      criticalTreshold: 4,
      toolProfiles: { "a b": { ignoreText: ["ok",
        "(x+)+"] } },
    },
  },
  channels: { x: 1, x: 2 },
  agents: { list: [
    { id: "x", tools: { loopDetection: { detectors: { cycl: false } } } },
    { tools: {} },
    { id: "x" },
  ] },
}"""
    )
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    assert raised.value.source == str(path)
    found = [(one.line, one.path, one.suggestion) for one in raised.value.problems]
    assert found == [
        (5, "tools.loopDetection.historySize", None),
        (6, "tools.loopDetection.warningThreshold", None),
        (6, "tools.loopDetection.warningThreshold", None),
        (7, "tools.loopDetection.criticalTreshold", "criticalThreshold"),
        (9, 'tools.loopDetection.toolProfiles["a b"].ignoreText[1]', None),
        (14, "agents.list[0].tools.loopDetection.detectors.cycl", "cycle"),
        (15, "agents.list[1]", None),
        (16, "agents.list[2].id", None),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"warningThreshold": 0}, "warningThreshold: 0 is not allowed; allowed: a whole number, 1 or more"),
        (
            {"warningThreshold": True},
            "warningThreshold: true is not allowed; allowed: a whole number, 1 or more",
        ),
        (
            {"warningThreshold": "10"},
            'warningThreshold: "10" is not allowed; allowed: a whole number, 1 or more',
        ),
        (
            {"warningThreshold": 10.0},
            "warningThreshold: 10.0 is not allowed; allowed: a whole number, 1 or more",
        ),
        ({"enabled": "yes"}, 'enabled: "yes" is not allowed; allowed: true or false'),
        ({"detectors": [1, 2]}, "detectors: a list of 2 is not allowed; allowed: an object"),
        (
            {"onCritical": "stop"},
            'onCritical: "stop" is not allowed; allowed: "block", "abort", "ask" or "warn"',
        ),
        (
            {"idleResetSeconds": float("nan")},
            "idleResetSeconds: NaN is not allowed; allowed: a number above 0",
        ),
        (
            {"idleResetSeconds": b"1"},
            "idleResetSeconds: a Python bytes is not allowed; allowed: a number above 0",
        ),
        (
            {"historySize": 10**5000},
            f"historySize: a number beyond 2^53 is not allowed; allowed: a whole number up to {2**53 - 1}",
        ),
        (
            {"enabled": True, "agents": {}},
            "enabled: stands on top; in a file with tools or agents it belongs under tools.loopDetection",
        ),
        (
            {"tools": {"loop_detection": {}}},
            "tools.loop_detection: unknown key (did you mean 'loopDetection'?)",
        ),
        ({"tools": {}, "agent": {}}, "agent: unknown key (did you mean 'agents'?)"),
        ({"tools": None}, "tools: null is not allowed; allowed: an object"),
        (
            {"toolProfiles": {"a": {"kindByArgument": {"kinds": {"b": "read"}}}}},
            "toolProfiles.a.kindByArgument.argument: missing; it has to be there",
        ),
        (
            {"toolProfiles": {"b": {"identity": ["/~"]}}},
            "toolProfiles.b.identity[0]: \"/~\" is not allowed; a JSON pointer in which '~' stands alone",
        ),
        ({1: 2}, "(file): 1 is no key; allowed: strings"),
        (3, "(file): 3 is no configuration; give a path or a mapping"),
    ],
)
def test_a_fault_says_what_was_given_and_what_is_allowed(source: Any, expected: str) -> None:
    assert problems(source) == [expected]


def test_an_unknown_key_names_the_nearest() -> None:
    (message,) = problems({"history_sise": 3})
    assert message.startswith("history_sise: unknown key (with 3); known here: enabled, ")
    assert message.endswith("(did you mean 'historySize'?)")


def test_a_mapping_that_holds_itself_is_refused() -> None:
    own: dict[str, Any] = {}
    own["toolProfiles"] = own
    (message,) = problems(own)
    assert "nested deeper" in message


def test_an_error_stays_readable_whatever_is_in_the_file() -> None:
    said = problems({f"{number}{'k' * 500}": "v" * 500 for number in range(1000)})
    assert len(said) == 200
    assert all(len(one) < 700 for one in said)


def test_included_parts_are_not_passed_over_in_silence() -> None:
    config = load_config({"agents": {"$include": "./agents.json5"}})
    assert [one.path for one in config.warnings] == ["agents.$include"]


# what holds for any input
