"""The bodies that the endpoints of sessions and runs take."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

LONGEST_TEXT: Final = 100_000
"""Characters of a message."""

MOST_LISTED: Final = 1_000
"""Runs or sessions in one answer."""

_SESSION: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$"


class SessionBody(BaseModel):
    """A session of an agent."""

    model_config = ConfigDict(strict=True, extra="forbid")

    agent: Annotated[str, Field(min_length=1, max_length=1000)] = Field(description="Id of the agent.")
    session: Annotated[str, Field(pattern=_SESSION)] | None = Field(
        default=None,
        description="Id of the session: a letter or digit, then these and `_.:-`; made up if not given.",
    )


class MessageBody(BaseModel):
    """What a person writes."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] = Field(
        description="What the agent reads."
    )
