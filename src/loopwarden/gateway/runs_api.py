"""Sessions and runs of agents over HTTP."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from loopwarden.errors import StoreError
from loopwarden.gateway.app import Part
from loopwarden.gateway.faults import Made, checked, parsed, wrong
from loopwarden.gateway.limits import read_body
from loopwarden.gateway.problems import Problem
from loopwarden.gateway.run_bodies import MOST_LISTED, MessageBody, SessionBody
from loopwarden.gateway.run_desk import Closing, RunDesk, TooManyRuns
from loopwarden.gateway.run_events import events
from loopwarden.gateway.runs_openapi import PATHS, schemas
from loopwarden.gateway.wire import dump

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request

    from loopwarden.gateway.context import Gateway
    from loopwarden.runner.happenings import Watcher
    from loopwarden.runner.kept import KeptRun, KeptSession

    Answer: TypeAlias = Callable[[Request], Awaitable[Response]]

RETRY_SECONDS: Final = 5
"""When to ask again where too many runs go on."""

_LISTED: Final = 100
_DIGITS: Final = 16
_STATES: Final = ("open", "done", "aborted", "cancelled", "failed", "interrupted")


class RunsApi:
    """The endpoints.

    Args:
        gateway: Whose they are.
        desk: The agents.
    """

    def __init__(self, gateway: Gateway, desk: RunDesk) -> None:
        self._desk = desk
        self._agents = gateway.runtime.agents
        self._most = gateway.runtime.gateway.limits.body_bytes

    def routes(self) -> list[BaseRoute]:
        """The routes."""
        found: dict[tuple[str, str], Answer] = {
            ("GET", "/v1/agents"): self.agents,
            ("POST", "/v1/sessions"): self.open_session,
            ("GET", "/v1/sessions"): self.sessions,
            ("GET", "/v1/sessions/{session}"): self.session,
            ("POST", "/v1/sessions/{session}/messages"): self.message,
            ("GET", "/v1/runs"): self.runs,
            ("GET", "/v1/runs/{run}"): self.run,
            ("GET", "/v1/runs/{run}/events"): self.events,
            ("POST", "/v1/runs/{run}/cancel"): self.cancel,
        }
        return [Route(path, _told(answer), methods=[method]) for (method, path), answer in found.items()]

    async def agents(self, _: Request) -> Response:
        """The agents of the configuration."""
        beats = self._desk.heartbeats.next
        return _json(
            {
                "agents": [
                    {
                        "agent": agent.id,
                        "name": agent.name,
                        "model": agent.model,
                        "next_heartbeat": beats.get(agent.id),
                    }
                    for agent in self._agents.values()
                ]
            }
        )

    async def open_session(self, request: Request) -> Response:
        """A session begins, or is there already."""
        body = await self._body(request, SessionBody)
        self._known(body.agent)
        session = body.session or f"session-{token_hex(8)}"
        found = self._desk.journal.session(session)
        if found is not None and found.agent != body.agent:
            raise Problem(409, f"the session is one of agent {found.agent!r}; name another one")
        self._desk.journal.open_session(session, body.agent)
        kept = self._kept(session)
        return _json(self._session(kept), 200 if found is not None else 201)

    async def sessions(self, request: Request) -> Response:
        """All sessions, those used last first."""
        found = self._desk.journal.sessions(_limit(request))
        return _json({"sessions": [self._session(session) for session in found]})

    async def session(self, request: Request) -> Response:
        """One session, with its newest runs."""
        kept = self._kept(request.path_params["session"])
        runs = self._desk.journal.runs(session=kept.id, limit=_LISTED)
        return _json(self._session(kept) | {"newest_runs": [run_json(run) for run in runs]})

    async def message(self, request: Request) -> Response:
        """A person writes: to the run that goes on in the session, else a new one begins."""
        body = await self._body(request, MessageBody)
        kept = self._kept(request.path_params["session"])
        self._known(kept.agent)
        run, joined = await self._desk.begin(kept.id, kept.agent, body.text)
        return _json({"run": run, "session": kept.id, "joined": joined}, 202)

    async def runs(self, request: Request) -> Response:
        """Runs, newest first."""
        asked = request.query_params
        state = asked.get("state")
        if state is not None and state not in _STATES:
            raise Problem(422, f"state={state[:40]!r}; allowed: {', '.join(_STATES)}")
        found = self._desk.journal.runs(asked.get("session"), asked.get("agent"), state, _limit(request))
        return _json({"runs": [run_json(run) for run in found]})

    async def run(self, request: Request) -> Response:
        """One run."""
        return _json(run_json(self._kept_run(request)))

    async def events(self, request: Request) -> Response:
        """What happened in a run, and what happens, as server-sent events."""
        run = self._kept_run(request)
        return events(self._desk, run, _after(request))

    async def cancel(self, request: Request) -> Response:
        """End a run; one that is over stays as it is."""
        run = self._kept_run(request)
        cancelled = self._desk.cancel(run.id)
        return _json({"run": run.id, "cancelled": cancelled, "state": run.state}, 202 if cancelled else 200)

    def _session(self, session: KeptSession) -> dict[str, Any]:
        going = [run for run, where in self._desk.open_runs.items() if where == session.id]
        return {
            "session": session.id,
            "agent": session.agent,
            "began": session.began,
            "touched": session.touched,
            "runs": session.runs,
            "open_runs": going,
        }

    def _kept(self, session: str) -> KeptSession:
        found = self._desk.journal.session(session)
        if found is None:
            raise Problem(404, "there is no such session; POST /v1/sessions makes one")
        return found

    def _kept_run(self, request: Request) -> KeptRun:
        found = self._desk.journal.run(request.path_params["run"])
        if found is None:
            raise Problem(404, "there is no such run of an agent of this gateway")
        return found

    def _known(self, agent: str) -> None:
        if agent not in self._agents:
            known = ", ".join(map(repr, self._agents)) or "none"
            message = f"{agent[:100]!r} is not configured; there are: {known}"
            raise wrong([{"field": "agent", "message": message}])

    async def _body(self, request: Request, model: type[Made]) -> Made:
        return checked(parsed(await read_body(request.scope, request.receive, self._most)), model)


class RunningAgents:
    """The agents as a part of the gateway.

    Args:
        gateway: What they plug into.
        watch: Told of everything that happens in runs, as the live page is; and before of what happened in
            the newest runs that are written down.

    Attributes:
        desk: What runs them.
        part: What plugs in.

    Raises:
        StoreError: The journal can't be used.
    """

    def __init__(self, gateway: Gateway, watch: Sequence[Watcher] = ()) -> None:
        self.desk = RunDesk(gateway, watch)
        self.desk.retell(watch)
        self.part = Part(
            routes=RunsApi(gateway, self.desk).routes(),
            paths=PATHS,
            schemas=schemas(),
            running=self.desk.running,
        )


def run_json(run: KeptRun) -> dict[str, Any]:
    """A run as it is answered."""
    return {
        "run": run.id,
        "session": run.session,
        "agent": run.agent,
        "trigger": run.trigger,
        "parent": run.parent,
        "task": run.task,
        "began": run.began,
        "ended": run.ended,
        "state": run.state,
        "code": run.code,
        "message": run.message,
        "answer": run.answer,
        "requests": run.requests,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "events": run.kept,
    }


def _told(answer: Answer) -> Answer:
    """What can't be done now becomes a problem that says so."""

    async def told(request: Request) -> Response:
        try:
            return await answer(request)
        except (TooManyRuns, Closing) as error:
            raise Problem(503, str(error), headers={"retry-after": str(RETRY_SECONDS)}) from None
        except StoreError as error:
            raise Problem(503, f"the journal can't be read: {error}") from None

    return told


def _json(value: Any, status: int = 200) -> Response:
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(dump(value), status, headers, "application/json")


def _limit(request: Request) -> int:
    return _number(request.query_params.get("limit"), "limit", 1, MOST_LISTED, _LISTED)


def _after(request: Request) -> int:
    """The number of the last event that a reader knows; a browser says it in a header when it comes back."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    return _number(given, "Last-Event-ID", 0, 2**53, 0)


def _number(given: str | None, name: str, least: int, most: int, default: int) -> int:
    if not given:
        return default
    if not (given.isascii() and given.isdigit() and len(given) <= _DIGITS and least <= int(given) <= most):
        raise Problem(422, f"{name}: must be a whole number from {least} to {most}")
    return int(given)
