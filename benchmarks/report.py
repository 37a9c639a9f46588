"""What the benchmarks have in common: lines with a value and a bound, as a table or JSON, and a check."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was measured.

    Attributes:
        name: What it is.
        value: The number.
        unit: What it counts: `x` for a ratio.
        bound: What it is held to, `None` where it is only reported.
        side: Whether the bound is the most or the least that holds.
        note: Numbers it comes from.
    """

    name: str
    value: float
    unit: str = "x"
    bound: float | None = None
    side: Literal["at most", "at least"] = "at most"
    note: str = ""

    @property
    def held(self) -> bool:
        """Whether the bound holds; true where there is none."""
        if self.bound is None:
            return True
        return self.value <= self.bound if self.side == "at most" else self.value >= self.bound


def parser(about: str) -> argparse.ArgumentParser:
    """An argument parser with the options of every benchmark."""
    options = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    options.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    return options


def show(lines: list[Line], options: argparse.Namespace) -> int:
    """Print the lines; returns the exit code."""
    missed = [line for line in lines if not line.held]
    if options.json:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        rows = [asdict(line) | {"held": line.held} for line in lines]
        print(json.dumps({"load": load, "lines": rows, "missed": len(missed)}, indent=1))
    else:
        wide = max(len(line.name) for line in lines)
        for line in lines:
            bound = "" if line.bound is None else f"{line.side} {line.bound:g}"
            verdict = "" if line.bound is None else "ok" if line.held else "MISSED"
            value = f"{line.value:.2f}" if line.unit in {"x", "MB"} else f"{line.value:g}"
            row = f"{line.name:{wide}}  {value:>9} {line.unit:6} {bound:14} {verdict:6}  {line.note}"
            print(row.rstrip())
        print(f"{len(missed)} missed" if missed else "every bound holds")
    return 1 if missed and options.check else 0
