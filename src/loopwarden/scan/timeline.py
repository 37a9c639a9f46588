"""A run's calls as one strip: a colour for each signature, so that a loop is seen at a glance.

Calls of a loop have strong colours, other repeated ones pale colours, single ones grey. Below the strip
stand what the guard would have said and, as lines, the loops from their first call to their last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from loopwarden.scan.loops import END

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator

    from loopwarden.scan.summary import Run

_Kind = TypeVar("_Kind")

WIDTH: Final = 1000
"""Most marks of a strip; of longer runs each mark stands for several calls."""

STRONG: Final = 8
PALE: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A timeline that is ready to be drawn.

    Attributes:
        marks: How many marks.
        step: How many calls a mark stands for.
        pieces: Kind of call (index in `names`), length in marks, weight of the guard's answer.
        names: What each kind of call is called.
        colours: Class of each kind.
        spans: Loops: first mark, mark after the last, class.
        cuts: Marks before which the history was summarised.
    """

    marks: int
    step: int
    pieces: tuple[tuple[int, int, int], ...]
    names: tuple[str, ...]
    colours: tuple[str, ...]
    spans: tuple[tuple[int, int, str], ...]
    cuts: tuple[int, ...]

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script needs to say what a place is."""
        return {"calls": self.marks, "step": self.step, "pieces": self.pieces, "names": self.names}


def colours(run: Run) -> dict[int, str]:
    """Class of each signature that is not grey: those in loops first, then by how often they come.

    Where a loop's calls vary, all calls of one tool in it have one colour.
    """
    chosen: dict[int, str] = {}
    given: dict[tuple[bool, int], str] = {}
    for loop in run.loops:
        varied = loop.pattern == "varied"
        for signature in (*(step.signature for step in loop.steps), *loop.signatures):
            if signature not in chosen:
                of = (True, run.timeline.tool_of[signature]) if varied else (False, signature)
                chosen[signature] = given.setdefault(of, f"s{len(given) % STRONG + 1}")
    counts = Counter(run.timeline.signatures)
    pale = 0
    for signature, count in counts.most_common():
        if count == 1:
            break
        if signature not in chosen:
            chosen[signature] = f"m{pale % PALE + 1}"
            pale += 1
    return chosen


def strip(run: Run) -> Strip:
    """The timeline of a run."""
    timeline = run.timeline
    signatures, weights = timeline.signatures, timeline.weights
    step = max(1, -(-run.calls // WIDTH))
    chosen = colours(run)
    arguments = {
        step_.signature: f"{step_.tool}({step_.arguments})" for loop in run.loops for step_ in loop.steps
    }
    kinds: dict[tuple[str, str], int] = {}
    marks: list[tuple[int, int]] = []
    for start in range(0, run.calls, step):
        bucket = signatures[start : start + step]
        signature = bucket[0] if step == 1 else _leading(bucket, chosen)
        tool = timeline.tools[timeline.tool_of[signature]]
        kind = chosen.get(signature, "u"), arguments.get(signature, tool)
        marks.append((kinds.setdefault(kind, len(kinds)), max(weights[start : start + step])))
    pieces = []
    for (kind_number, weight), group in groupby(marks):
        pieces.append((kind_number, sum(1 for _ in group), weight))
    return Strip(
        marks=len(marks),
        step=step,
        pieces=tuple(pieces),
        names=tuple(name for _, name in kinds),
        colours=tuple(colour for colour, _ in kinds),
        spans=tuple(
            (max(loop.first.number - 1, 0) // step, max(loop.last.number - 1, 0) // step + 1, loop.level)
            for loop in run.loops
            if loop.calls
        ),
        cuts=tuple(dict.fromkeys(number // step for number in timeline.compactions)),
    )


def _leading(bucket: array[int], chosen: dict[int, str]) -> int:
    """The signature that a mark for several calls shows: the commonest, those of loops before others."""
    counts: Counter[int] = Counter(bucket)
    return max(counts, key=lambda signature: (chosen.get(signature, "").startswith("s"), counts[signature]))


def svg(strip_: Strip, label: str, *, small: bool = False) -> str:
    """The strip as inline SVG without styles of its own; classes give the colours.

    Args:
        strip_: What to draw.
        label: Text alternative, escaped already.
        small: Only the colours, without answers, loops and compactions.
    """
    shapes: defaultdict[str, list[str]] = defaultdict(list)
    height = 10 if small else 12
    least = strip_.marks // 250
    for place, length, colour in _joined((length, strip_.colours[kind]) for kind, length, _ in strip_.pieces):
        shapes[colour].append(f"M{place} 0h{length}v{height}h-{length}z")
    for place, length, weight in _joined((length, weight) for _, length, weight in strip_.pieces):
        if weight and not small:
            wide = max(length, least) if weight == END else length  # one mark, to be seen in a long run too
            shapes[f"w{weight}"].append(f"M{min(place, strip_.marks - wide)} 13h{wide}v4h-{wide}z")
    if not small:
        for first, end, _ in strip_.spans:
            shapes["span"].append(f"M{first} 18.5h{end - first}v1.5h-{end - first}z")
        thin = max(strip_.marks / 280, 0.05)
        for cut in strip_.cuts:
            shapes["cut"].append(f"M{cut} 0h{thin:.2f}v17h-{thin:.2f}z")
    paths = "".join(f'<path class="{name}" d="{"".join(parts)}"/>' for name, parts in shapes.items())
    box = f"0 0 {max(strip_.marks, 1)} {10 if small else 20}"
    kind_class = "time small" if small else "time"
    return (
        f'<svg class="{kind_class}" viewBox="{box}" preserveAspectRatio="none" role="img"'
        f' aria-label="{label}" shape-rendering="crispEdges">{paths}</svg>'
    )


def _joined(parts: Iterable[tuple[int, _Kind]]) -> Iterator[tuple[int, int, _Kind]]:
    """Place, length and kind of parts that follow each other, equal neighbours as one."""
    place = 0
    for kind, group in groupby(parts, key=itemgetter(1)):
        length = sum(size for size, _ in group)
        yield place, length, kind
        place += length
