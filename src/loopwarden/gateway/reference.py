"""The page of the reference about the API, from its OpenAPI document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from loopwarden.gateway.app import Part
from loopwarden.gateway.openapi import document
from loopwarden.gateway.runs_openapi import PATHS
from loopwarden.gateway.runs_openapi import schemas as schemas_of_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.gateway.openapi import Document


_AGENTS: Final = (
    "Agents, sessions and their runs are there where the configuration lists agents; else these endpoints"
    " answer 404, and say why."
)


def api_page(described: Document | None = None) -> str:
    """The page as Markdown.

    Args:
        described: An OpenAPI document; `None`: that of a gateway which runs agents.
    """
    if described is None:
        described = document([Part(paths=PATHS, schemas=schemas_of_runs())])
    schemas: Document = described["components"]["schemas"]
    lines = ["# The API of the gateway", "", described["info"]["description"], ""]
    lines += ["A running gateway serves this as an OpenAPI 3.1 document at `/openapi.json`.", ""]
    lines += [_AGENTS, ""]
    lines += ["| Request | Body | Answer | What |", "| --- | --- | --- | --- |"]
    for path, entry in described["paths"].items():
        for method, operation in entry.items():
            if method != "parameters":
                words = _cell(operation.get("summary", ""))
                body = _link(operation.get("requestBody", {}))
                lines.append(f"| `{method.upper()} {path}` | {body} | {_answer(operation)} | {words} |")
    in_batches = {f"{name}Event" for name in schemas}
    for name, schema in schemas.items():
        if name not in in_batches and "properties" in schema:
            lines += ["", f"## {name}", "", *_table(schema)]
    return "\n".join(lines) + "\n"


def _answer(operation: Document) -> str:
    """The schema of what is answered when all goes well, with its status."""
    for status, answer in operation.get("responses", {}).items():
        if status.startswith("2"):
            link = _link(answer)
            return f"{status} {link}".strip()
    return ""


def _link(holder: Document) -> str:
    """A link to the schema of a body; empty where it has none of its own."""
    for content in holder.get("content", {}).values():
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        if name:
            return f"[{name}](#{name.lower()})"
    return ""


def _table(schema: Document) -> Iterator[str]:
    if "description" in schema:
        yield schema["description"].splitlines()[0]
        yield ""
    needed = schema.get("required", [])
    yield "| Field | Type | Meaning |"
    yield "| --- | --- | --- |"
    for name, field in schema["properties"].items():
        must = "" if name in needed else _default(field)
        yield f"| `{name}` | {_cell(_type(field))}{must} | {_cell(field.get('description', ''))} |"


def _default(field: Document) -> str:
    return f", default `{json.dumps(field['default'])}`" if "default" in field else ", optional"


def _type(field: Document) -> str:
    """What may stand there, in a few words."""
    for key in ("anyOf", "oneOf"):
        if key in field:
            return " or ".join(dict.fromkeys(_type(one) for one in field[key]))
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "enum" in field:
        return " or ".join(f"`{json.dumps(one)}`" for one in field["enum"])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if field.get("type") == "array":
        return f"array of {_type(field.get('items', {}))}"
    words = str(field.get("type", "any value"))
    limits = [f"{field[key]}" for key in ("minLength", "maxLength") if key in field]
    if len(limits) > 1:
        return f"{words} of {limits[0]} to {limits[1]} characters"
    return f"{words} of at most {limits[0]} characters" if limits else words


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
