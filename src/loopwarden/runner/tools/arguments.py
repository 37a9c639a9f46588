"""What all tools take: small closed objects, named as OpenClaw names them."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

RETRIES: Final = 10_000
"""Calls in a row with wrong arguments that the host bears; the guard ends such a row long before."""


class Arguments(BaseModel):
    """Arguments of a tool: camelCase, nothing else; `"5"` is taken for 5, as models write it."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)
