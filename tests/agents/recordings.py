"""Events that real programs sent to the hook, and what it answered: `tests/hooks/data/HOST.jsonl`.

The main suite reads them without the programs; the tests of a program compare what it sends today with them.
`scripts/check-agents --record` writes them anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.agents.place import Place

FOLDER: Final = Path(__file__).parent.parent / "hooks" / "data"

RECORD: Final = "LOOPWARDEN_RECORD_EVENTS"
"""The variable that has the files written."""

_LONGEST_TEXT: Final = 400
"""Of longer texts, such as instructions for the model, the middle is left out."""


def recorded(host: str) -> list[dict[str, Any]]:
    """The recorded lines of a host: `event` and `answer`."""
    lines = (FOLDER / f"{host}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def compare(host: str, place: Place) -> None:
    """What the program sent has the shape of what was recorded; or it is recorded now."""
    kept = [{name: line[name] for name in ("event", "answer")} for line in place.lines]
    found = [_scrubbed(line, str(place.home)) for line in kept]
    if os.environ.get(RECORD):
        FOLDER.mkdir(exist_ok=True)
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in found)
        (FOLDER / f"{host}.jsonl").write_text(text, encoding="utf-8")
    assert _shapes(found) == _shapes(recorded(host))


def shape(value: Any) -> Any:
    """The types in a JSON value; lists by their first entry."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return type(value).__name__


def _shapes(lines: list[dict[str, Any]]) -> set[str]:
    return {json.dumps(shape(line["event"]) | {"": _name(line)}, sort_keys=True) for line in lines}


def _name(line: dict[str, Any]) -> str:
    return line["event"]["hook_event_name"]


def _scrubbed(value: Any, home: str) -> Any:
    """Without paths of this machine, and without the middle of long texts."""
    if isinstance(value, dict):
        return {_scrubbed(name, home): _scrubbed(inner, home) for name, inner in value.items()}
    if isinstance(value, list):
        return [_scrubbed(inner, home) for inner in value]
    if isinstance(value, str):
        text = value.replace(home, "/home/user").replace(re.sub(r"[/_]", "-", home), "-home-user")
        half = _LONGEST_TEXT // 2
        return text if len(text) <= _LONGEST_TEXT else f"{text[:half]}...{text[-half:]}"
    return value
