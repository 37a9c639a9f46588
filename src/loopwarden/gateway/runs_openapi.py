"""What the OpenAPI document says of sessions and runs."""

from __future__ import annotations

from typing import Any, Final

from pydantic.json_schema import models_json_schema

from loopwarden.gateway.openapi import refusals
from loopwarden.gateway.run_bodies import MOST_LISTED, MessageBody, SessionBody

_REF: Final = "#/components/schemas/{model}"
_TEXT: Final[dict[str, Any]] = {"type": "string"}
_COUNT: Final[dict[str, Any]] = {"type": "integer"}
_MOMENT: Final[dict[str, Any]] = {"type": "number", "description": "Seconds since the epoch."}
_STATE: Final[dict[str, Any]] = {
    "enum": ["open", "done", "aborted", "cancelled", "failed", "interrupted"],
    "description": "`open` while it goes on, else why it ended: the agent was done, the guard ended it"
    " (`code`), a person did, the model or the runner failed, the process died in the middle.",
}


def schemas() -> dict[str, Any]:
    """The schemas by name."""
    _, defined = models_json_schema(
        [(model, "validation") for model in (SessionBody, MessageBody)], ref_template=_REF
    )
    session = {
        "session": _said(_TEXT, "Id of the session."),
        "agent": _said(_TEXT, "Whose it is."),
        "began": _MOMENT,
        "touched": _said(_MOMENT, "When something last happened in it."),
        "runs": _said(_COUNT, "Runs that are known of it."),
        "open_runs": _said(_list(_TEXT), "Ids of those that go on."),
    }
    run = {
        "run": _said(_TEXT, "Id of the run."),
        "session": _said(_TEXT, "Its session."),
        "agent": _said(_TEXT, "Its agent."),
        "trigger": {"enum": ["user", "heartbeat", "spawn", "send"], "description": "What began it."},
        "parent": _or_null(_TEXT, "The run that began it."),
        "task": _said(_TEXT, "What the agent was told."),
        "began": _MOMENT,
        "ended": _or_null(_MOMENT, "Seconds since the epoch; null while it goes on."),
        "state": _STATE,
        "code": _or_null(_TEXT, "The guard's code of an aborted run."),
        "message": _or_null(_TEXT, "Why it ended, for people."),
        "answer": _or_null(_TEXT, "The agent's last word."),
        "requests": _said(_COUNT, "Requests of the model."),
        "input_tokens": _said(_COUNT, "Tokens that it read."),
        "output_tokens": _said(_COUNT, "Tokens that it wrote."),
        "events": _said(_COUNT, "Events that are kept of it; 0 where they were too old."),
    }
    agent = {
        "agent": _said(_TEXT, "Id of the agent."),
        "name": _or_null(_TEXT, "What people call it."),
        "model": _or_null(_TEXT, "Its model."),
        "next_heartbeat": _or_null(_MOMENT, "When its next scheduled run begins."),
    }
    event = {
        "kind": _said(
            _TEXT,
            "`began`, `text`, `call`, `verdict`, `outcome`, `compaction`, `user_message`, `notice`, `ended`.",
        ),
        "agent": _TEXT,
        "session": _TEXT,
        "run": _TEXT,
        "time": _MOMENT,
        "number": _said(_COUNT, "Counts up within the run; the id of the event."),
        "data": {"type": "object", "description": "What goes with the kind."},
    }
    made: dict[str, Any] = defined["$defs"]
    return made | {
        "Session": _object(session),
        "SessionAndRuns": _object(session | {"newest_runs": _list(_ref("Run"))}),
        "Run": _object(run),
        "Happening": _object(event),
        "Agent": _object(agent),
        "Agents": _object({"agents": _list(_ref("Agent"))}),
        "Sessions": _object({"sessions": _list(_ref("Session"))}),
        "Runs": _object({"runs": _list(_ref("Run"))}),
        "Sent": _object(
            {
                "run": _said(_TEXT, "The run that reads it."),
                "session": _TEXT,
                "joined": {"type": "boolean", "description": "Whether it was going on already."},
            }
        ),
        "Cancelled": _object(
            {
                "run": _TEXT,
                "cancelled": {"type": "boolean", "description": "Whether it was going on."},
                "state": _STATE,
            }
        ),
    }


def _said(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {**schema, "description": text}


def _or_null(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"anyOf": [{"type": schema["type"]}, {"type": "null"}], "description": text}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _ref(model: str) -> dict[str, Any]:
    return {"$ref": _REF.format(model=model)}


def _does(name: str, summary: str, answers: dict[str, str], *more: str, body: str = "") -> dict[str, Any]:
    """An operation; `answers` are the schemas by status."""
    found: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {
            status: {"description": "Answered.", "content": _json(model)} for status, model in answers.items()
        }
        | refusals("401", "421", "429", "500", "503", *more)
        | _OTHER.get(name, {}),
    }
    if body:
        found["requestBody"] = {"required": True, "content": _json(body)}
        found["responses"] |= refusals("400", "408", "413", "415", "422")
    return found


def _json(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": _ref(model)}}


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/problem+json": {"schema": _ref("ProblemBody")}}}


_NO_SESSION: Final = {"404": _problem("There is no such session.")}
_NO_RUN: Final = {"404": _problem("There is no such run.")}
_OTHER: Final[dict[str, dict[str, Any]]] = {
    "open_session": {"409": _problem("The session is one of another agent.")},
    "session": _NO_SESSION,
    "message": _NO_SESSION,
    "run": _NO_RUN,
    "run_stream": _NO_RUN
    | {
        "200": {
            "description": "Events; the `data` of each is a Happening. It ends after the event `ended`.",
            "content": {"text/event-stream": {"schema": _ref("Happening")}},
        },
        "204": {"description": "The run is over, and there is no later event."},
    },
    "cancel": _NO_RUN,
}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _asked(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema}


_LIMIT: Final = _asked("limit", {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": 100})
_LAST: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Number of the last event that is known; the query `after` says the same.",
    "schema": _COUNT,
}

PATHS: Final[dict[str, Any]] = {
    "/v1/agents": {"get": _does("agents", "The agents of the configuration.", {"200": "Agents"})},
    "/v1/sessions": {
        "get": _does("sessions", "Sessions, those used last first.", {"200": "Sessions"}, "422")
        | {"parameters": [_LIMIT]},
        "post": _does(
            "open_session",
            "Begin a session of an agent; 200 where it is there already.",
            {"200": "Session", "201": "Session"},
            body="SessionBody",
        ),
    },
    "/v1/sessions/{session}": {
        "parameters": [_in_path("session")],
        "get": _does("session", "A session with its newest runs.", {"200": "SessionAndRuns"}),
    },
    "/v1/sessions/{session}/messages": {
        "parameters": [_in_path("session")],
        "post": _does(
            "message",
            "Write to the agent. Where a run goes on in the session that run reads it (`joined`), else a new"
            " one begins.",
            {"202": "Sent"},
            body="MessageBody",
        ),
    },
    "/v1/runs": {
        "get": _does("runs", "Runs, newest first.", {"200": "Runs"}, "422")
        | {"parameters": [_asked("session", _TEXT), _asked("agent", _TEXT), _asked("state", _STATE), _LIMIT]},
    },
    "/v1/runs/{run}": {
        "parameters": [_in_path("run")],
        "get": _does("run", "A run.", {"200": "Run"}),
    },
    "/v1/runs/{run}/events": {
        "get": _does("run_stream", "What happened in a run, and what happens.", {}, "422")
        | {"parameters": [_LAST]},
    },
    "/v1/runs/{run}/cancel": {
        "parameters": [_in_path("run")],
        "post": _does(
            "cancel",
            "End a run: 202 where it was going on, 200 where it was over.",
            {"200": "Cancelled", "202": "Cancelled"},
        ),
    },
}
