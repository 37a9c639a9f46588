"""The published JSON Schema agrees with what is accepted."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from loopwarden.config import load_config
from loopwarden.config.builtin import preset
from loopwarden.config.json_schema import json_schema
from loopwarden.errors import ConfigError

SCHEMA = json_schema()

GOOD: list[dict[str, Any]] = [
    {},
    {"$schema": "x", "enabled": None, "idleResetSeconds": None},
    {"enabled": True, "idleResetSeconds": 0.5, "historySize": 1},
    dict(preset("reference")),
    {"toolProfiles": {"a*": {"kind": "poll", "ignoreText": ["x+"], "identity": []}}},
    {"toolProfiles": {"p": {"kindByArgument": {"argument": "a", "kinds": {"": "wait"}}}}},
    {"tools": {"loopDetection": {"preset": "sensitive"}, "exec": {"x": 1}}, "gateway": {"port": 1}},
    {"agents": {"list": [{"id": "a", "tools": {"loopDetection": {"onCritical": "ask"}}}], "defaults": {}}},
    {"agents": {"entries": {"a": {"tools": {"loopDetection": {}}}}}},
    {"$schema": "x", "gateway": {"port": 1}},
]

BAD: list[dict[str, Any]] = [
    {"unknown": 1},
    {"historySize": 0},
    {"historySize": True},
    {"historySize": "10"},
    {"historySize": 10.5},
    {"historySize": None},
    {"idleResetSeconds": 0},
    {"onCritical": "stop"},
    {"detectors": {"cycle": None}},
    {"detectors": []},
    {"postCompactionGuard": {"window": 1}},
    {"toolProfiles": {"": {}}},
    {"toolProfiles": {"a": {"kind": "shell"}}},
    {"toolProfiles": {"a": {"kindByArgument": None}}},
    {"toolProfiles": {"a": {"kindByArgument": {"argument": "x", "kinds": {}}}}},
    {"tools": {"loopDetection": {"x": 1}}},
    {"tools": 1},
    {"agents": {"list": [{}]}},
    {"agents": {"list": [{"id": ""}]}},
    {"gateway": {"port": 1}, "enabled": True},
    {"agents": {"entries": {"a": {"tools": {"loopDetection": 1}}}}},
]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("config", GOOD)
def test_accepted_by_both(config: dict[str, Any]) -> None:
    jsonschema.validate(config, SCHEMA)
    load_config(config)


@pytest.mark.parametrize("config", BAD)
def test_refused_by_both(config: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(config, SCHEMA)
    with pytest.raises(ConfigError):
        load_config(config)


def test_every_field_says_what_it_does() -> None:
    for name, block in SCHEMA["$defs"].items():
        if name in ("Tools", "Agent", "File"):
            continue
        for field, described in block["properties"].items():
            assert described.get("description"), f"{name}.{field}"
