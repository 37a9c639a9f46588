"""What a detector says of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopwarden.events import DetectorId, Level


class Finding:
    """A pattern that reached one of its thresholds.

    Attributes:
        detector: Who found it.
        level: `warning` or `critical`.
        count: How often the pattern was seen.
        threshold: The number that `count` reached.
        key: Names the loop, the same as long as it is the same loop.
        seen: What was seen, one sentence for the model; never the repeated arguments.
        signatures: The calls that make the loop; empty where the loop is not made of certain calls.
        tools: The tools of the loop, the present call's first, without repeats.
    """

    __slots__ = ("count", "detector", "key", "level", "seen", "signatures", "threshold", "tools")

    def __init__(
        self,
        detector: DetectorId,
        level: Level,
        count: int,
        threshold: int,
        key: str,
        seen: str,
        signatures: tuple[bytes, ...] = (),
        tools: tuple[str, ...] = (),
    ) -> None:
        self.detector = detector
        self.level = level
        self.count = count
        self.threshold = threshold
        self.key = key
        self.seen = seen
        self.signatures = signatures
        self.tools = tools


def short(signature: bytes) -> str:
    """A signature as it stands in keys."""
    return signature[:8].hex()
