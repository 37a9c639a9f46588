"""The bodies of the guard's endpoints: what is checked, and what the OpenAPI document says."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

LONGEST_ID: Final = 1000
"""Characters of an id."""

LONGEST_NAME: Final = 10_000
"""Characters of the name of a tool: a model may write anything there, and it is to be judged."""

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
Seconds: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Kind: TypeAlias = Literal["before", "after", "compacted", "user_message", "retract", "forget"]


class Body(BaseModel):
    """What every event may say."""

    model_config = ConfigDict(strict=True, extra="forbid")

    session: Id | None = Field(default=None, description="Session of the run.")
    agent: Id | None = Field(
        default=None, description="Whose settings; one that is not configured has the global ones."
    )
    mode: Literal["enforce", "observe"] = Field(
        default="enforce", description="`observe`: only say what would be done."
    )
    at: Seconds | None = Field(default=None, description="Seconds on a clock that does not go back.")
    event_id: Id | None = Field(
        default=None,
        description="Names the event: sent again, it is answered as before and counts once.",
    )


class Before(Body):
    """The model asks for a tool: may it run?"""

    tool: Annotated[str, Field(max_length=LONGEST_NAME)] = Field(description="As the model wrote it.")
    arguments: Any = Field(default=None, description="Any JSON value.")
    call_id: Id = Field(description="The host's id of the call.")
    turn_id: Id | None = Field(default=None, description="The model reply; calls of one reply share it.")


_BOTH: Final[dict[str, Any]] = {
    "required": ["result", "error"],
    "properties": {"result": {"not": {"type": "null"}}, "error": {"type": "string"}},
}


class After(Body):
    """A call ended."""

    model_config = ConfigDict(json_schema_extra={"not": _BOTH})

    call_id: Id = Field(description="Id of the call; one that is not open is ignored.")
    result: Any = Field(default=None, description="What the tool gave, any JSON value.")
    error: str | None = Field(default=None, description="Text of the error, in place of a result: not both.")
    unknown_tool: Annotated[str, Field(max_length=LONGEST_NAME)] | None = Field(
        default=None, description="Name of the tool, where it does not exist."
    )
    timed_out: bool = Field(default=False, description="Whether the call ran out of time.")

    @model_validator(mode="after")
    def _one_of_two(self) -> After:
        if self.error is not None and self.result is not None:
            raise ValueError("must give `result` or `error`, not both")
        return self


class Compacted(Body):
    """The history was compacted, and the model is asked again."""

    continues: Id | None = Field(default=None, description="The run that goes on under this run's name.")


class UserMessage(Body):
    """A person wrote."""


class Retract(Body):
    """A model reply failed and is made again: its calls are rolled back."""

    call_ids: Annotated[list[Id], Field(max_length=10_000)] = Field(description="Its calls.")


class Forget(Body):
    """A run is over: its state is dropped."""


BODIES: Final[dict[str, type[Body]]] = {
    "before": Before,
    "after": After,
    "compacted": Compacted,
    "user_message": UserMessage,
    "retract": Retract,
    "forget": Forget,
}
"""By the name of the event in a batch."""


class VerdictBody(BaseModel):
    """The guard's answer."""

    action: Literal["allow", "warn", "block", "abort"] = Field(
        description="`allow`: run it. `warn`: run it, and give the model the message with the result where"
        " `announce` is true. `block`: don't run it; the message is its result. `abort`: end the run."
    )
    level: Literal["warning", "critical"] | None = Field(description="How sure the detector is.")
    detector: str | None = Field(description="Which detector spoke; null: nothing was found.")
    count: int = Field(description="How often the pattern was seen.")
    threshold: int = Field(description="The number that `count` reached.")
    tool: str | None = Field(description="Tool of the call.")
    paired_tools: list[str] = Field(description="The other tools of an alternation or a cycle.")
    message: str | None = Field(description="Text for the model.")
    key: str | None = Field(description="Names the loop within its run.")
    error: Literal["compaction_loop_persisted", "tool_loop_persisted"] | None = Field(
        description="Code of the abort."
    )
    would: Literal["allow", "warn", "block", "abort"] | None = Field(
        description="In observe mode the action that would have been taken."
    )
    announce: bool = Field(description="Whether the model is to be told now.")


class FaultBody(BaseModel):
    """One fault of a body."""

    field: str = Field(description="Where, as `events.3.call_id`.")
    message: str = Field(description="What is wrong and what is allowed.")
    index: int | None = Field(default=None, description="In a batch, the event.")


class ProblemBody(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FaultBody] = []
