"""The JSON Schema of a configuration file, made from the models."""

from __future__ import annotations

from typing import Any, Final

from loopwarden.config.runtime import AgentBlock, GatewayBlock
from loopwarden.config.schema import LoopDetection

SCHEMA_ID: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a configuration file, as editors take it.

    A file with `tools` or `agents` on top, or `gateway` and no field of the guard's block, is laid out as
    OpenClaw's (whose other keys are left alone); any other is a bare `tools.loopDetection` block. What the
    runner and the gateway read is offered, not demanded: OpenClaw has other fields in those places.
    """
    block = LoopDetection.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions = block.pop("$defs", {})
    block["properties"]["$schema"] = {"type": "string", "description": "The schema, for editors."}
    tools = {"type": "object", "properties": {"loopDetection": {"$ref": "#/$defs/LoopDetection"}}}
    agent: dict[str, Any] = {"type": "object", "properties": {"tools": {"$ref": "#/$defs/Tools"}}}
    agent_fields, gateway_fields, more = _loose()
    agent["anyOf"] = [agent_fields, {}]
    definitions |= more
    listed = {
        "allOf": [{"$ref": "#/$defs/Agent"}],
        "properties": {
            "id": {"type": "string", "minLength": 1, "description": "The agent that this is about."}
        },
        "required": ["id"],
    }
    agents = {
        "type": "object",
        "properties": {
            "defaults": {"$ref": "#/$defs/Agent"},
            "list": {"type": "array", "items": listed, "description": "Agents with blocks of their own."},
            "entries": {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/Agent"},
                "description": "The same by agent id, as newer OpenClaw files have it.",
            },
        },
    }
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {"tools": {"$ref": "#/$defs/Tools"}, "agents": agents},
    }
    whole["properties"]["gateway"] = {"anyOf": [gateway_fields, {}]}
    fields = [name for name in block["properties"] if name != "$schema"]
    gateway_alone = {
        "required": ["gateway"],
        "not": {"anyOf": [{"required": [name]} for name in fields]},
    }
    return {
        "$schema": SCHEMA_ID,
        "title": "loopwarden configuration",
        "type": "object",
        "if": {"anyOf": [{"required": ["tools"]}, {"required": ["agents"]}, gateway_alone]},
        "then": {"$ref": "#/$defs/File"},
        "else": {"$ref": "#/$defs/LoopDetection"},
        "$defs": definitions | {"LoopDetection": block, "Tools": tools, "Agent": agent, "File": whole},
    }


def _loose() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The fields of an agent, those of the gateway, and the definitions that both refer to."""
    agent = AgentBlock.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    gateway = GatewayBlock.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions = agent.pop("$defs", {}) | gateway.pop("$defs", {})
    definitions["ToolsBlock"]["properties"]["loopDetection"] |= {"$ref": "#/$defs/LoopDetection"}
    return agent, gateway, definitions
