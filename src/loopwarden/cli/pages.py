"""The page of a detector, made from its module: the same text in `explain` and in the docs."""

from __future__ import annotations

from importlib import import_module
from textwrap import wrap
from typing import TYPE_CHECKING

from loopwarden.testing import play

if TYPE_CHECKING:
    from loopwarden.events import Verdict

STRIP = 60
"""Letters of an example on one line."""

_ONLY = {
    # What else would speak up in the example is switched off, to show this one alone.
    "global_circuit_breaker": {"detectors": {"knownPollNoProgress": False}},
}


def page(detector: str, strip: int = STRIP) -> str:
    """The page of a detector, given its `DetectorId`, as Markdown; `strip` letters of the example a line."""
    module = import_module(f"loopwarden.core.detectors.{detector}")
    title, _, body = (module.__doc__ or "").partition("\n")
    config = {"enabled": True, **_ONLY.get(detector, {})}
    played = play(module.EXAMPLE, config, legend=module.LEGEND)
    lines = [f"# `{detector}`", "", f"**{title}**", "", body.strip(), "", "## An example"]
    lines += ["", *_legend(module.EXAMPLE, module.LEGEND), "", "```text"]
    for start in range(0, len(module.EXAMPLE), strip):
        lines += [f"calls     {module.EXAMPLE[start : start + strip]}"]
        lines += [f"verdicts  {played.strip[start : start + strip]}"]
    lines += ["```", "", "`.` allow, `w` warn, `B` block, `X` abort.", "", "## What the model is told", ""]
    for verdict in _first_of_each(played.verdicts, detector):
        lines += [f"- {verdict.action}, at a count of {verdict.count} (threshold {verdict.threshold}):", ""]
        lines += ["  > " + line for line in wrap(verdict.message or "", 100)]
        lines.append("")
    lines += ["## Options", ""]
    lines += [f"- `{option}`" for option in module.OPTIONS]
    return "\n".join(lines) + "\n"


def _legend(example: str, legend: tuple[tuple[str, str, dict[str, str], str], ...]) -> list[str]:
    meanings = {letter: (tool, arguments, text) for letter, tool, arguments, text in legend}
    lines = []
    for letter in sorted(set(example) - {"|", "@"}):
        tool, arguments, text = meanings.get(letter, ("read", {"path": letter}, f"content of {letter}"))
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        came = f"fails with {text[1:]!r}" if text.startswith("!") else f"gives {text!r}"
        lines.append(f"- `{letter}`: `{tool}({given})` {came}")
    if "|" in example:
        lines.append("- `|`: the history is compacted and the model asked again")
    return lines


def _first_of_each(verdicts: tuple[Verdict, ...], detector: str) -> list[Verdict]:
    found: dict[str, Verdict] = {}
    for verdict in verdicts:
        if verdict.detector == detector:
            found.setdefault(verdict.action, verdict)
    return list(found.values())
