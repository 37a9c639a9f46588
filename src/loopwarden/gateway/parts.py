"""What plugs into the gateway beside the guard; the one list of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwarden.errors import MissingExtraError
from loopwarden.gateway.no_agents import no_agents
from loopwarden.gateway.page.part import ShownPage
from loopwarden.telemetry import log

if TYPE_CHECKING:
    from loopwarden.gateway.app import Part
    from loopwarden.gateway.context import Gateway


def all_parts(gateway: Gateway) -> list[Part]:
    """The parts of a gateway, made before it starts; they may add observers.

    Agents are run where the configuration lists some.

    Raises:
        StoreError: The journal can't be used.
    """
    page = ShownPage(gateway)
    parts = [page.part]
    if not gateway.runtime.agents:
        parts.append(no_agents("its configuration lists none (agents.list)"))
    else:
        try:
            from loopwarden.gateway.runs_api import RunningAgents
        except MissingExtraError as error:
            log.logger.warning("agents are not run: %s", error)
            parts.append(no_agents(str(error)))
        else:
            agents = RunningAgents(gateway, [page.board])
            page.runs_agents(agents.desk.cancel)
            parts.append(agents.part)
    return parts
