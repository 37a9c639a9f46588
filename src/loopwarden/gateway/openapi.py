"""The OpenAPI document: what the endpoints take and give, from the models that check it."""

from __future__ import annotations

import copy
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import models_json_schema

from loopwarden.gateway.bodies import BODIES, LONGEST_ID, ProblemBody, VerdictBody
from loopwarden.gateway.guard_api import BATCH_PATH, PATHS, RUN_BATCH_PATH, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from loopwarden.gateway.app import Part

Document = dict[str, Any]

PATH: Final = "/openapi.json"

_REF: Final = "#/components/schemas/{model}"
_ABOUT: Final = (
    "The guard of loopwarden for agents in any language. Tell it `before` each call of a tool and `after` it;"
    " act on the verdict. A run is named by `agent`, `mode`, `session` and its id: say the same ones with"
    " each event of it. An event that is sent again counts once: one with an `event_id` by that, a call or an"
    " outcome without one by its call id and the same body, a batch as a whole. While a call has no outcome,"
    " another body under its id is the same call seen again, and answered for the first one. Where the ids of"
    " calls are not unique in a run, send `event_id`."
)
_REFUSALS: Final = {
    "400": "The body is no JSON.",
    "401": "No token, or a wrong one.",
    "408": "The body took too long to arrive.",
    "413": "The body or the batch is too large.",
    "415": "The body is compressed.",
    "421": "`Host` names another server.",
    "422": "The body has a fault; `errors` says where. Nothing was done.",
    "429": "Too many requests from this address.",
    "500": "A fault in the gateway.",
    "503": "The store can't be reached.",
}


def document(parts: Iterable[Part] = ()) -> Document:
    """The document of the guard's endpoints and of what the parts say of theirs."""
    models: tuple[type[BaseModel], ...] = (*BODIES.values(), ProblemBody, VerdictBody)
    _, defined = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    schemas: Document = defined["$defs"]
    for kind, model in BODIES.items():
        schemas[f"{model.__name__}Event"] = _in_batch(schemas[model.__name__], kind)
    events = [{"$ref": _REF.format(model=f"{model.__name__}Event")} for model in BODIES.values()]
    schemas["Batch"] = {
        "type": "object",
        "properties": {"events": {"type": "array", "items": {"oneOf": events}}},
        "required": ["events"],
        "additionalProperties": False,
    }
    verdict = {"$ref": _REF.format(model="VerdictBody")}
    schemas["Verdicts"] = {
        "type": "object",
        "properties": {"verdicts": {"type": "array", "items": verdict}},
        "required": ["verdicts"],
    }
    paths = _paths()
    for part in parts:
        for path, operations in part.paths.items():
            paths[path] = paths.get(path, {}) | operations
        schemas |= part.schemas
    return {
        "openapi": "3.1.0",
        "info": {"title": "loopwarden gateway", "version": version("loopwarden"), "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def refusals(*statuses: str) -> Document:
    """Entries of `responses` for problems: those named, or all."""
    content = {"application/problem+json": {"schema": {"$ref": _REF.format(model="ProblemBody")}}}
    return {
        status: {"description": _REFUSALS[status], "content": content} for status in statuses or _REFUSALS
    }


def _paths() -> Document:
    run = {
        "name": "run",
        "in": "path",
        "required": True,
        "description": "Id of the run. One that is `.` or `..` can only be named in a batch.",
        "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_ID},
    }
    paths: Document = {}
    for kind, path in PATHS.items():
        model = BODIES[kind]
        paths[plain(path)] = {
            "parameters": [run],
            "post": _operation(
                kind, model.__doc__ or "", model.__name__, "VerdictBody", needed=_has_needed(kind)
            ),
        }
    paths[plain(RUN_BATCH_PATH)] = {
        "parameters": [run],
        "post": _operation(
            "run_events",
            "Events of one run, in order, all or none; a `run` in them must be the run of the path.",
            "Batch",
            "Verdicts",
        ),
    }
    paths[BATCH_PATH] = {
        "post": _operation(
            "events",
            "Events, in order, all or none; `run` null or missing: the unscoped session.",
            "Batch",
            "Verdicts",
        )
    }
    paths["/healthz"] = {"get": _open("health", "Is it well, and can its store be used?", "application/json")}
    paths["/metrics"] = {"get": _get("metrics", "Counters for Prometheus.", "text/plain")}
    paths[PATH] = {"get": _get("openapi", "This document.", "application/json")}
    return paths


def _has_needed(kind: str) -> bool:
    return any(field.is_required() for field in BODIES[kind].model_fields.values())


def _in_batch(schema: Document, kind: str) -> Document:
    """An event as it stands in a batch: it says what it is and whose."""
    event: Document = copy.deepcopy(schema)
    run = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
    event["title"] = f"{schema['title']}Event"
    event["properties"] = {
        "event": {"const": kind},
        "run": {
            "anyOf": [run, {"type": "null"}],
            "default": None,
            "description": "Null: the unscoped session. In a batch of one run: that run, or left out.",
        },
        **event["properties"],
    }
    event["required"] = ["event", *event.get("required", [])]
    return event


def _operation(name: str, summary: str, body: str, answer: str, *, needed: bool = True) -> Document:
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": needed, "content": _json(body)},
        "responses": {"200": {"description": "Answered.", "content": _json(answer)}, **refusals()},
    }


def _json(model: str) -> Document:
    return {"application/json": {"schema": {"$ref": _REF.format(model=model)}}}


def _get(name: str, summary: str, kind: str) -> Document:
    answer = {"description": "Here it is.", "content": {kind: {}}}
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": answer, **refusals("401", "421", "429", "500")},
    }


def _open(name: str, summary: str, kind: str) -> Document:
    answers = {
        "200": {"description": "It answers.", "content": {kind: {}}},
        "503": {
            "description": "The store can't be reached; all calls are let through.",
            "content": {kind: {}},
        },
    }
    return {
        "operationId": name,
        "summary": summary,
        "security": [],
        "responses": {**answers, **refusals("421", "500")},
    }
