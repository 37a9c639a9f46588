"""What plugs into the gateway beside the guard; the one list of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopwarden.gateway.app import Part
    from loopwarden.gateway.context import Gateway


def all_parts(gateway: Gateway) -> list[Part]:
    """The parts of a gateway, made before it starts; they may add observers."""
    from loopwarden.gateway.page.part import ShownPage

    page = ShownPage(gateway)
    return [page.part]
