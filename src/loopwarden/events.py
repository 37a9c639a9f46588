"""The words: what can happen in an agent's run, and what is answered.

Everything that feeds the guard (live code, a recorded transcript, a hook, a test) says it in these
five events. They hold arguments and results as the host gave them; only the core turns them into
digests, and it keeps nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Action: TypeAlias = Literal["allow", "warn", "block", "abort"]
"""What to do with a call.

`allow`: run it. `warn`: run it and give the model the message with the result. `block`: do not run
it; the message is its result. `abort`: do not run it and end the run.
"""

Level: TypeAlias = Literal["warning", "critical"]
"""How sure the detector is: `warning` (a pattern repeats), `critical` (it repeats without progress)."""

AbortCode: TypeAlias = Literal["compaction_loop_persisted", "tool_loop_persisted"]
"""Why a run was ended.

`compaction_loop_persisted`: the same call and outcome went on after a compaction, or compactions
followed each other without any work. `tool_loop_persisted`: the breaker fired, or too many calls
were refused.
"""

DetectorId: TypeAlias = Literal[
    "unknown_tool_repeat",
    "global_circuit_breaker",
    "known_poll_no_progress",
    "ping_pong",
    "generic_repeat",
    "cycle",
    "unknown_tool_churn",
    "repeated_failure",
    "failure_streak",
    "stagnation",
    "post_compaction",
]
"""Names of the detectors, the same in files, JSON, docs and `loopwarden explain`.

The first ten are the rolling detectors in their order of precedence; `post_compaction` is the guard
that is armed by a compaction.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The model asks for a tool.

    Attributes:
        tool: Name of the tool as the model wrote it.
        arguments: Any value; mostly a mapping.
        call_id: The host's id. An id whose call is still open is the same call seen again; after its
            outcome or refusal it may name a new one.
        run_id: The run this call belongs to; `None` is the unscoped session.
        turn_id: The model reply that asked for it; calls of one reply share it. `None`: a turn of its own.
        at: Seconds on any clock that does not go back; `None` if unknown.
    """

    tool: str
    arguments: object = None
    call_id: str
    run_id: str | None = None
    turn_id: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A call ended.

    Attributes:
        call_id: Id of the call; one that is not open is ignored.
        result: What the tool gave, any value. A mapping with `content` (list of parts), `details` and
            `isError` is read as such; anything else is compared whole.
        error: Text of the error if the call failed instead of giving a result, else `None`.
        unknown_tool: Name of the tool that does not exist, where the host says so by structure; `None`
            leaves it to the error text.
        timed_out: Whether the host says by structure that the call ran out of time.
        run_id: Run of the call.
        at: Seconds, as in `ToolCall`.
    """

    call_id: str
    result: object = None
    error: str | None = None
    unknown_tool: str | None = None
    timed_out: bool = False
    run_id: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The context overflowed, the history was summarised, and the model is asked again.

    Attributes:
        run_id: The run that goes on from here.
        continues: Id of the run that it continues, where the retry has a new run id.
        at: Seconds, as in `ToolCall`.
    """

    run_id: str | None = None
    continues: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """A person wrote to the agent while `run_id` was going on (`None`: the unscoped session)."""

    run_id: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """A model reply failed and is made again: its calls are rolled back.

    Attributes:
        call_ids: Ids of the calls of that reply; unknown ones are ignored.
        run_id: Run of the calls.
        at: Seconds, as in `ToolCall`.
    """

    call_ids: tuple[str, ...]
    run_id: str | None = None
    at: float | None = None


Event: TypeAlias = ToolCall | Outcome | Compaction | UserMessage | Retraction
"""Anything that can happen in a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The guard's answer to one event.

    Attributes:
        action: What to do now. In observe mode always `allow`.
        level: How sure the detector is; `None` when nothing was found.
        detector: Which detector spoke; `None` when nothing was found.
        count: How often the pattern was seen, the present call included where the detector says so.
        threshold: The number that `count` reached.
        tool: Tool of the call; `None` for events that are no call.
        paired_tools: The other tools of an alternation or a cycle, in order, without repeats.
        message: Text for the model (never the repeated arguments); `None` when there is nothing to say. Where
            nothing is done (observe mode) only what was seen.
        key: Names the loop: the same for every verdict on the same loop of a run.
        error: Code of the abort when `action` (or `would`) is `abort`.
        would: In observe mode the action that would have been taken; `None` in enforce mode and when it
            would have been `allow`.
        announce: Tell the model now: on the first crossing of a threshold, then as the loop grows by ten.
    """

    action: Action = "allow"
    level: Level | None = None
    detector: DetectorId | None = None
    count: int = 0
    threshold: int = 0
    tool: str | None = None
    paired_tools: tuple[str, ...] = ()
    message: str | None = None
    key: str | None = None
    error: AbortCode | None = None
    would: Action | None = None
    announce: bool = False


ALLOW = Verdict()
"""The verdict on everything that raises no question."""
