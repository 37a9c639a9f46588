"""What the page shows of a run, in rows: calls, loops, and what happened between the calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from loopwarden.events import Action, DetectorId, Level
    from loopwarden.gateway.glimpse import Glimpse

CallState: TypeAlias = Literal["open", "ok", "failed", "refused", "retracted"]
"""`open`: no outcome yet. `retracted`: the model's reply was rolled back; it counts for nothing."""

NoteKind: TypeAlias = Literal[
    "began",
    "user",
    "agent",
    "text",
    "compaction",
    "notice",
    "paused",
    "resumed",
    "released",
    "held",
    "cancel",
    "ended",
]
"""`began`: the task. `user`: a person wrote. `agent`: another agent did. `text`: the model said something.
`notice`: for the person. `paused`, `resumed`, `released`, `held`, `cancel`: what somebody did on the page."""

RunEnd: TypeAlias = Literal["done", "aborted", "cancelled", "failed", "interrupted", "over"]
"""As `runner.happenings.End`; `over`: the host said that the run is over, not how it went."""


@dataclass(slots=True, kw_only=True)
class Call:
    """A call.

    Attributes:
        number: Counts up from 1 in the run.
        id: The host's id, or a digest of a long one.
        tool: Name, harmless and short.
        signature: Tells calls apart; the same for calls that the guard takes for the same.
        glimpse: Arguments; `None` where they are not shown.
        turn: The reply that asked for it, if known.
        at: Seconds since the epoch.
        ended: The same for its outcome.
        state: How it went.
        action: What the guard did.
        would: What it would have done where it only observes.
        detector: Which detector spoke, and
        count: how often it saw the pattern.
        loop: Name of the loop.
        same: Whether the outcome equals the last one of this signature; `None`: there was none, or unknown.
        skipped: The guard was paused.
        released: A person had let the loop through.
        by_guard: Whether the guard told of it.
        by_watch: Whether the runner did.
    """

    number: int
    id: str
    tool: str
    signature: bytes
    glimpse: Glimpse | None
    turn: str | None
    at: float
    ended: float | None = None
    state: CallState = "open"
    action: Action = "allow"
    would: Action | None = None
    detector: DetectorId | None = None
    count: int = 0
    loop: str | None = None
    same: bool | None = None
    skipped: bool = False
    released: bool = False
    by_guard: bool = False
    by_watch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What happened between two calls.

    Attributes:
        kind: What.
        at: Seconds since the epoch.
        after: Number of the call before it; 0: the run began with it.
        text: Harmless and short; empty where there is nothing to say.
    """

    kind: NoteKind
    at: float
    after: int
    text: str = ""


@dataclass(slots=True, kw_only=True)
class Loop:
    """A loop of a run.

    Attributes:
        name: See `names.loop_name`.
        detector: Who found it.
        level: How sure it is by now.
        tools: The tools of the loop.
        count: How often the pattern was seen.
        threshold: The number that was reached.
        action: The last answer, or what would have been answered.
        observed: Whether the guard only observes.
        message: The last text for the model.
        warned: Warnings given.
        refused: Calls refused.
        signatures: Of the calls that were answered so, up to 64.
    """

    name: str
    detector: DetectorId
    level: Level | None = None
    tools: tuple[str, ...] = ()
    count: int = 0
    threshold: int = 0
    action: Action = "allow"
    observed: bool = False
    message: str = ""
    warned: int = 0
    refused: int = 0
    signatures: dict[bytes, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a run is over.

    Attributes:
        reason: In a word.
        at: Seconds since the epoch.
        code: The guard's code where it ended the run.
        text: More of it; empty where nothing is known.
        loop: Name of the loop that the guard ended it for.
    """

    reason: RunEnd
    at: float
    code: str | None = None
    text: str = ""
    loop: str | None = None


@dataclass(slots=True, kw_only=True)
class Armed:
    """The post-compaction guard while it looks.

    Attributes:
        window: Outcomes that it looks at.
        left: How many of them are still to come.
        seen: Triples of one reply, which have one place in the window.
    """

    window: int
    left: int
    seen: set[tuple[str, bytes, bytes]] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Counts:
    """Sums over a run.

    Attributes:
        calls: Calls, refused ones included.
        failed: Calls that failed.
        warned: Calls that ran with a warning.
        refused: Calls that were refused.
        would_warn: Calls that would have been warned about, where the guard only observes.
        would_refuse: Calls that would have been refused.
        compactions: Compactions.
    """

    calls: int = 0
    failed: int = 0
    warned: int = 0
    refused: int = 0
    would_warn: int = 0
    would_refuse: int = 0
    compactions: int = 0
