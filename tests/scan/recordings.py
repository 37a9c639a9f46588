"""Files of events on disk, for what reads files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def lines(strip: str, *, stream: str = "s", begin: int = 0) -> str:
    """Lines of events: a letter is a call with its usual result, a capital one has a new result."""
    written = []
    for number, letter in enumerate(strip, begin):
        arguments = {"q": letter.lower(), "token": "hunter2hunter2"}
        at = 1_800_000_000 + number
        call = {
            "type": "call",
            "stream": stream,
            "id": f"c{number}",
            "tool": "look",
            "args": arguments,
            "at": at,
        }
        result = f"result of {letter}{number if letter.isupper() else ''}"
        outcome = {"type": "outcome", "stream": stream, "id": f"c{number}", "result": result, "at": at}
        written += [json.dumps(call), json.dumps(outcome)]
    return "\n".join(written) + "\n"


def write(path: Path, strip: str, *, stream: str = "s") -> Path:
    """A file with one stream."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines(strip, stream=stream))
    return path
