"""Failures: which outcome is one, which are the same, and which name a tool that does not exist.

A failure is told by structure alone: an error, a flag, an exit code. Prose is never read for it, since
results that merely speak of errors are ordinary work. Only once an outcome is known to be a failure is
its text read, to see whether it names an unknown tool and to compare it with other failures.
"""

from __future__ import annotations

import re
from typing import Final

_READ = 2000
"""Characters of an error text that are looked at for the name of an unknown tool."""

MASKED: Final = 20_000
"""Characters of a failure's text that are masked before comparison; the rest is compared as it is."""

_NAME = r"[`'\"]?(?P<name{0}>[\w][\w./:@-]{{0,199}})[`'\"]?"
_UNKNOWN_TOOL = re.compile(
    r"\b(?:unknown|no such|unavailable|unrecognized|unsupported)\s+tool"
    r"(?:\s+(?:name|called|named|available))?\s*[:=]?\s+"
    + _NAME.format(1)
    + r"|\bno\s+tool\s+(?:named|called)\s+"
    + _NAME.format(2)
    + r"|\btool\s+"
    r"(?:named\s+|called\s+)?"
    + _NAME.format(3)
    + r"\s+(?:(?:is|was)\s+)?(?:not\s+(?:found|available|registered|known)|unknown|unavailable"
    r"|does\s+not\s+exist|doesn't\s+exist)\b|(?<!\w)"
    + _NAME.format(4)
    + r"\s+is\s+not\s+a\s+(?:valid|known)\s+tool\b",
    re.IGNORECASE,
)

_MASKS = re.compile(
    r"""
      ["'`](?:(?:~|\.{1,2})?/|[A-Za-z]:\\)[^"'`\n]*["'`](?P<path>)
    | \b(?=\w)(?:
        (?=\d)(?:
          (?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|\s?[+-]\d\d:?\d\d)?
            |\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?[ap]m)?\b
            |\d{1,2}[/.]\d{1,2}[/.]\d{4}\b)(?P<time>)
        | (?<!\.)\d+(?:[.,]\d+)?\s?
          (?:ns|us|µs|ms|msecs?|milliseconds?|s|secs?|seconds?|min|mins|minutes?|h|hrs?|hours?|days?)\b(?P<duration>)
        )
      | (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+
        (?:\d{1,2}\s+[A-Z][a-z]{2}|[A-Z][a-z]{2}\s+\d{1,2})(?:,?\s+\d{4})?(?P<day>)
      | (?:pid|tid|ppid|pgid|process|thread)[\s:=\#]*\d+(?P<pid>)
      | [0-9a-fA-F](?:(?<=0)x[0-9a-fA-F]+\b
          |[0-9a-fA-F]{7}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
          |(?<=(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F]).)[0-9a-fA-F]{6,}\b)(?P<hex>)
      | (?=[0-9A-Za-z])(?:[A-Za-z]{2,8}[_-])?
        (?=[A-Za-z]*\d[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{10,}\b(?P<id>)
      )
    | \d\d{4,}(?P<digits>)
    """,
    re.VERBOSE,
)
"""What changes from one occurrence of a failure to the next. An empty group at the end of each kind names
it: groups around the kinds would keep the expression from telling by the first letter that none begins."""


_CHANGES = re.compile(r"\d|[\"'`][~./A-Za-z]")
"""What a line needs to hold anything that is masked: a digit or a quoted path."""


def unknown_tool(text: str) -> str | None:
    """The name of the tool that an error text says does not exist, else `None`.

    The forms are those of SPEC section 4 and of well-known hosts; all contain the word tool.
    """
    head = text[:_READ]
    found = _UNKNOWN_TOOL.search(head) if "tool" in head.lower() else None
    if found is None:
        return None
    for number in (1, 2, 3, 4):
        name = found.group(f"name{number}")
        if name is not None:
            return name.rstrip(".:,;") or None
    return None


def mask(text: str) -> str:
    """A failure's text without what changes from one occurrence to the next.

    Masked are times, dates, durations with a unit, hex and id-like tokens, process ids, runs of five
    or more digits and quoted paths; status codes, errno and small counts stay, as they tell causes
    apart.
    """
    lines = text[:MASKED].split("\n")
    for place, line in enumerate(lines):
        if _CHANGES.search(line):
            lines[place] = _MASKS.sub(_label, line)
    return "\n".join(lines) + text[MASKED:]


def _label(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"
