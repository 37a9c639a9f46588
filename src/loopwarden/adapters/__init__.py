"""The guard inside agent frameworks: one framework, one file, one extra.

An adapter talks to `LoopGuard` only. What its host can and can't do stands in `ABILITIES`, and the docs
print it; where a host can't end a run, every further call is refused with a final message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a host lets a guard do.

    Attributes:
        host: The framework's name, as its users write it.
        package: Its package, with the lowest version that is tested.
        warns: Where the model reads a warning: with the result of the call, or nowhere.
        aborts: `raises`: an exception comes out of the run; `ends`: the run ends as the host prescribes;
            `refuses`: the host can't end a run, so every further call is refused.
        unknown_tools: Whether calls of tools that don't exist are seen: by the `call` itself, `later` at the
            host's second place, or `no`.
        compaction: How a compaction is seen: the host's own `signal`, `inferred` from a shrunken history,
            or `no`.
        call_ids: Whether the host gives calls an id; else calls are paired by order.
        run_ids: Whether the host gives runs an id; else one is made up for each run.
        turns: Whether calls of one model reply can be told to belong together.
    """

    host: str
    package: str
    warns: Literal["result", "no"]
    aborts: Literal["raises", "ends", "refuses"]
    unknown_tools: Literal["call", "later", "no"]
    compaction: Literal["signal", "inferred", "no"]
    call_ids: bool
    run_ids: bool
    turns: bool


def with_note(text: str, note: str) -> str:
    """A result that is text, with a warning after a blank line."""
    return f"{text}\n\n{note}"
