"""`loopwarden mcp`: the guard between an MCP client and an MCP server."""

from __future__ import annotations

import logging
import sys
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from loopwarden.cli.options import ConfigFile, idle, load_acting
from loopwarden.mcp_proxy.hints import RUN_GAP
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from loopwarden.guard import LoopGuard

DEFAULT_RECORD = "default"


def mcp(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="The server's program and its arguments.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A server that speaks streamable HTTP, in place of COMMAND."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:VALUE",
            help="Header for the server at URL. In both, ${VARIABLE} is read from the environment.",
        ),
    ] = None,
    config: ConfigFile = None,
    agent: Annotated[
        str | None, typer.Option(metavar="ID", help="Use the settings of this agent in the configuration.")
    ] = None,
    mode: Annotated[
        Literal["enforce", "observe"],
        typer.Option(metavar="MODE", help="enforce: act. observe: only log what would be done."),
    ] = "enforce",
    run_gap: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Without a call for so long, the next one begins a new run. 0: never.",
        ),
    ] = RUN_GAP,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Name of the session; made up if not given.")
    ] = None,
    store: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Where the runs are kept: memory:, sqlite:PATH, redis://..."),
    ] = "memory:",
    record: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Keep a record of the runs; `default` for the one that `loopwarden runs` reads.",
        ),
    ] = None,
) -> None:
    """Stand between an MCP client and a server, and guard its tools.

    Starts the server and hands every line on as it is. Of calls of tools, a warning is added to the result as
    one more text, and a refused call is answered with an error result in place of the server. Where the run
    is to be ended, every further call is refused: a proxy can't end more than that.

    As the server's command in a client's configuration: loopwarden mcp -- COMMAND ARGUMENT...

    Messages go to standard error.

    Exit code: that of the server (128 and the signal, if one ended it), or 2 for wrong use.
    """
    from loopwarden.guard import LoopGuard

    if (command is None) == (url is None):
        raise typer.BadParameter("give either a COMMAND or --url", param_hint="COMMAND")
    if header and url is None:
        raise typer.BadParameter("headers go with --url", param_hint="--header")
    _log_to_stderr()
    loaded = load_acting(config, agent)
    if mode == "enforce" and (reason := idle(loaded.settings(agent).enabled)) is not None:
        typer.echo(f"loopwarden: {reason}", err=True)
    try:
        guard = LoopGuard(
            loaded,
            agent_id=agent,
            mode=mode,
            store=store,
            record=True if record == DEFAULT_RECORD else record,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--store") from None
    try:
        code = _serve(guard, session or f"mcp-{token_hex(8)}", run_gap, command, url, header or [])
    finally:
        guard.close()
    raise typer.Exit(code)


def _serve(
    guard: LoopGuard,
    session: str,
    run_gap: float,
    command: list[str] | None,
    url: str | None,
    headers: list[str],
) -> int:
    from loopwarden.mcp_proxy.calls import Relay
    from loopwarden.mcp_proxy.channel import Client
    from loopwarden.mcp_proxy.hints import Naming

    verbs = guard.session(session)
    relay = Relay(verbs, Naming(verbs, run_gap))
    if command is not None:
        from loopwarden.mcp_proxy import stdio

        return stdio.serve(stdio.start(command), relay, Client())
    from loopwarden.mcp_proxy import http
    from loopwarden.mcp_proxy.endpoint import Endpoint
    from loopwarden.mcp_proxy.headers import Headers, read_headers

    shown = Headers(read_headers(headers))
    return http.serve(Endpoint(url or "", shown), shown, relay, Client())


def _log_to_stderr() -> None:
    from loopwarden.telemetry.unblocked import UnblockedHandler

    handler = UnblockedHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("loopwarden: %(message)s"))
    log.logger.addHandler(handler)
