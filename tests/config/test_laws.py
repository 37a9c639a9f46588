"""What holds for any configuration."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loopwarden.config import Config, load_config
from loopwarden.core.settings import Settings, ToolProfile
from loopwarden.errors import ConfigError


def block_of(config: Config) -> Settings:
    """The settings without profiles, of which there are many."""
    return replace(config.settings(), profiles=())


KEYS = (
    "tools loopDetection agents list entries id enabled preset historySize warningThreshold detectors "
    "cycle postCompactionGuard windowSize toolProfiles kind kindByArgument argument kinds ignoreText "
    "idleResetSeconds $schema $include gateway"
)
names = st.sampled_from(KEYS.split()) | st.text(max_size=6)
leaves = st.none() | st.booleans() | st.integers(-2, 40) | st.floats() | st.text(max_size=6) | st.just("poll")
json_values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=400)
@given(json_values.filter(lambda value: not isinstance(value, str) and value is not None))
def test_any_value_is_a_configuration_or_an_error_that_says_why(value: Any) -> None:
    try:
        config = load_config(value)
    except ConfigError as error:
        said = [str(problem) for problem in error.problems]
        assert said
        assert all(said)
    else:
        assert config.settings().critical_threshold > config.settings().warning_threshold


thresholds = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.none() | st.booleans(),
        "preset": st.sampled_from(["reference", "sensitive", "unattended"]),
        "historySize": st.integers(1, 60),
        "warningThreshold": st.integers(1, 60),
        "criticalThreshold": st.integers(1, 60),
        "globalCircuitBreakerThreshold": st.integers(1, 60),
        "detectors": st.dictionaries(st.sampled_from(["cycle", "pingPong"]), st.booleans()),
        "postCompactionGuard": st.dictionaries(st.just("windowSize"), st.integers(1, 9)),
        "toolProfiles": st.dictionaries(
            st.sampled_from(["exec", "a", "a*", "*"]),
            st.dictionaries(st.sampled_from(["warningThreshold", "criticalThreshold"]), st.integers(1, 60)),
        ),
    },
)


@given(thresholds)
def test_an_empty_agent_block_is_the_global_block(block: dict[str, Any]) -> None:
    config = load_config(
        {"tools": {"loopDetection": block}, "agents": {"list": [{"id": "a", "tools": {"loopDetection": {}}}]}}
    )
    assert config.settings("a") == config.settings() == load_config(block).settings()
    assert len(config.warnings) == len(load_config(block).warnings)


@given(thresholds, thresholds)
def test_an_agents_fields_count_as_if_they_stood_in_the_global_block(
    block: dict[str, Any], own: dict[str, Any]
) -> None:
    both = load_config(
        {
            "tools": {"loopDetection": block},
            "agents": {"list": [{"id": "a", "tools": {"loopDetection": own}}]},
        }
    )
    merged: dict[str, Any] = json.loads(json.dumps(block))
    for name, value in own.items():
        merged[name] = _over(merged.get(name), value)
    profiles = both.settings("a").profiles
    alone = load_config(merged).settings()
    assert replace(both.settings("a"), profiles=()) == replace(alone, profiles=())
    assert set(profiles) == set(alone.profiles)


def _over(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {name: _over(below.get(name), value) for name, value in above.items()}
    return above


@given(thresholds)
def test_what_was_repaired_needs_no_repair(block: dict[str, Any]) -> None:
    config = load_config(block)
    again = load_config(_written(config))
    assert not [one for one in again.warnings if "is used" in one.message]
    assert block_of(again) == block_of(config)
    silent = {ToolProfile(pattern=pattern) for pattern in block.get("toolProfiles", {})}
    assert set(again.settings().profiles) | silent == set(config.settings().profiles) | silent


def _written(config: Config) -> dict[str, Any]:
    """A block that says everything that `explain` says."""
    block: dict[str, Any] = {"toolProfiles": {}}
    for one in config.explain():
        outer, _, field = one.field.rpartition(".")
        if outer.startswith("toolProfiles."):
            block["toolProfiles"].setdefault(outer.removeprefix("toolProfiles."), {})[field] = one.value
        elif outer:
            block.setdefault(outer, {})[field] = one.value
        else:
            block[field] = one.value
    return block
