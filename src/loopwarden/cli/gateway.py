"""`loopwarden gateway`: the guard as a service."""

from __future__ import annotations

import gc
import logging
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from loopwarden.cli.options import ConfigFile, idle, load_acting
from loopwarden.telemetry import log

if TYPE_CHECKING:
    import socket

    from loopwarden.config import Config
    from loopwarden.config.runtime import GatewayBlock
    from loopwarden.gateway.token import Token

NO_RECORD = "none"
_GARBAGE = 50_000
"""More objects than before after which garbage is looked for; Python's default is 700."""

_FRAMES = 20


def gateway(
    config: ConfigFile = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on; by default the configured one."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=0, max=65535, help="Port; 0 for any that is free."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for the token, the runs and their record."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="redis://... shares the runs with other gateways; else they are in FOLDER.",
        ),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Run record; by default runs.jsonl in FOLDER. `none`: none."),
    ] = None,
    log_as: Annotated[
        Literal["text", "json"], typer.Option("--log", metavar="FORM", help="Log lines as text or json.")
    ] = "text",
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Log every request, also those for verdicts that went well."),
    ] = False,
) -> None:
    """Serve the guard to agents in any language, over HTTP on this machine.

    At the first start a token is made, which every request has to bring; the file that holds it is named when
    the gateway starts. The log goes to standard error.

    Ends with SIGTERM or Ctrl-C: requests that are going on are answered, and everything is written.

    Exit code: 0 when it was ended, 2 for wrong use, a wrong configuration, an address that is taken, or a
    folder that another gateway uses.
    """
    _log(log_as, verbose)
    loaded = load_acting(config)
    for problem in loaded.warnings:
        log.logger.warning("config: %s", problem)
    if (reason := idle(loaded.settings().enabled)) is not None:
        log.logger.warning("%s", reason)
    from loopwarden.config.runtime import runtime_of
    from loopwarden.gateway.server import run

    block = runtime_of(loaded).gateway
    run(_main(loaded, block, host or block.host, port, state, store, record))


async def _main(
    config: Config,
    block: GatewayBlock,
    host: str,
    port: int | None,
    state: Path | None,
    store: str | None,
    record: str | None,
) -> None:
    from loopwarden.gateway.context import IN_FOLDER, Gateway
    from loopwarden.gateway.parts import all_parts
    from loopwarden.gateway.places import default_folder
    from loopwarden.gateway.server import listen, serve
    from loopwarden.loopback import is_loopback

    folder = state or (Path(block.state_folder) if block.state_folder else default_folder())
    try:
        opened = Gateway(
            config,
            folder=folder.expanduser().absolute(),
            store=store or block.store or IN_FOLDER,
            record=True if record is None else False if record == NO_RECORD else record,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--store") from None
    try:
        if not is_loopback(host):
            log.logger.warning(
                "listening on %s: other machines can reach the gateway, and what they say is not encrypted",
                host,
            )
        listening = listen(host, block.port if port is None else port)
        await serve(
            opened,
            listening,
            all_parts(opened),
            host=host,
            ready=lambda: _ready(listening, host, opened.token),
        )
    finally:
        opened.close()


def _ready(listening: socket.socket, host: str, token: Token) -> None:
    """Say where it is; with the token only where a person reads it.

    What was loaded up to here stays until the end, and is left out when garbage is looked for; and that is
    done less often than by default: the runs at hand, and requests that wait, are searched each time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
    number = listening.getsockname()[1]
    address = f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}"
    typer.echo(f"listening on {address}")
    typer.echo(f"token in {token.path}")
    if sys.stdout.isatty():
        typer.echo(f"page: {address}/?token={token.text}")
    sys.stdout.flush()


class _TextFormatter(logging.Formatter):
    """Of a fault says where it was, and not what the exception said: that may hold arguments of a call."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name in `logging.Formatter`
        frames = traceback.extract_tb(ei[2])[-_FRAMES:]
        where = [f"  {frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return "\n".join([f"  {ei[0].__name__ if ei[0] is not None else 'fault'}", *where])


def _log(form: Literal["text", "json"], verbose: bool) -> None:
    from loopwarden.telemetry.json_log import JsonFormatter
    from loopwarden.telemetry.unblocked import UnblockedHandler

    handler = UnblockedHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter() if form == "json" else _TextFormatter("%(asctime)s %(levelname)s %(message)s")
    )
    log.logger.addHandler(handler)
    log.logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    server = logging.getLogger("uvicorn")
    server.addHandler(handler)
    server.setLevel(logging.WARNING)
