"""The bodies that the endpoints of sessions and runs take."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

LONGEST_TEXT: Final = 100_000
"""Characters of a message."""

MOST_LISTED: Final = 1_000
"""Runs or sessions in one answer."""

_SESSION: Final = "[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}"
_SESSION_WORDS: Final = "a letter, a digit or `_`, then these and `.:-`, at most 200 characters"


def _session(text: str) -> str:
    if not re.fullmatch(_SESSION, text):
        raise ValueError(f"must be {_SESSION_WORDS}")
    return text


SessionId: TypeAlias = Annotated[
    str, AfterValidator(_session), Field(json_schema_extra={"pattern": f"^{_SESSION}$"})
]


class SessionBody(BaseModel):
    """A session of an agent."""

    model_config = ConfigDict(strict=True, extra="forbid")

    agent: Annotated[str, Field(min_length=1, max_length=1000)] = Field(description="Id of the agent.")
    session: SessionId | None = Field(
        default=None,
        description=f"Id of the session: {_SESSION_WORDS}; made up if not given.",
    )


class MessageBody(BaseModel):
    """What a person writes."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] = Field(
        description="What the agent reads."
    )
