"""A loop as a coding agent would tell of it, through the installed command: is it refused?

The command runs as the host runs it, but with a state folder and a configuration of its own, so that nothing
of the user's is read or changed.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loopwarden import state_folder
from loopwarden.config.find import VARIABLE
from loopwarden.hooks.answering import ATTENDED, MODE, RECORD
from loopwarden.hooks.hosts import HOSTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.hooks.hosts import Kind
    from loopwarden.hooks.settings import Settings

_CONFIG: Final = "{tools: {loopDetection: {enabled: true, warningThreshold: 1, criticalThreshold: 2}}}"
_CALLS: Final = 3
_SECONDS: Final = 15.0
_REFUSALS: Final = frozenset({"deny", "block", "refuse"})
_DECISIONS: Final = ("permissionDecision", "permission", "decision")


def self_test(settings: Settings, words: list[str], environment: Mapping[str, str]) -> str | None:
    """Play a loop to a hook command.

    Args:
        settings: Of the host.
        words: The command and its arguments.
        environment: Variables.

    Returns:
        What is wrong; `None`: the loop was refused, as it should be.
    """
    with tempfile.TemporaryDirectory(prefix="loopwarden-", ignore_cleanup_errors=True) as folder:
        config = Path(folder) / "loopwarden.json5"
        config.write_text(_CONFIG, encoding="utf-8")
        variables = {
            name: value for name, value in environment.items() if name not in {ATTENDED, MODE, RECORD}
        }
        variables |= {state_folder.VARIABLE: folder, VARIABLE: str(config), "LOOPWARDEN_SERVICE": "off"}
        for number in range(_CALLS):
            for kind in ("before", "after"):
                answer = _event(settings, words, kind, number, variables, folder)
                if isinstance(answer, str):
                    return answer
                if kind == "before" and answer is not None:
                    return _judge(number, answer)
    return f"it lets a loop of {_CALLS} equal calls pass"


def _event(
    settings: Settings, words: list[str], kind: Kind, number: int, variables: dict[str, str], folder: str
) -> dict[str, Any] | str | None:
    """The answer to an event; a text says what is wrong."""
    name = next(event for event in settings.registered() if HOSTS[settings.host].events[event] == kind)
    command = [*words[:2], name] if settings.says_event else words
    payload = json.dumps(_payload(settings, kind, name, number, folder)).encode()
    try:
        done = subprocess.run(  # noqa: S603 - the command that the host runs at every call
            command, input=payload, capture_output=True, env=variables, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it does not answer within {_SECONDS:g} seconds"
    except OSError as error:
        return f"it can't be started: {error.strerror or error}"
    if done.returncode != 0:
        words_said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"it ends with {done.returncode}" + (f": {words_said[-1][:200]}" if words_said else "")
    if not done.stdout:
        return None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else "its answer is no JSON object"


def _payload(settings: Settings, kind: Kind, name: str, number: int, folder: str) -> dict[str, Any]:
    fields = HOSTS[settings.host].fields
    at = -1 if settings.says_event else 0  # a host that does not send the event's name has names of its own
    data: dict[str, Any] = {
        fields.session[at]: "loopwarden-doctor",
        fields.project[at]: folder,
        fields.tool[at]: "Bash",
        fields.arguments[at]: {"command": "true"},
    }
    if not settings.says_event:
        data[fields.event[0]] = name
    for names, value in ((fields.run, "r1"), (fields.call, f"c{number}")):
        if names:
            data[names[at]] = value
    if kind == "after":
        data[fields.result[at]] = "same"
    return data


def _judge(number: int, answer: dict[str, Any]) -> str | None:
    """What is wrong with the first answer before a call."""
    if not _refuses(answer):
        return "it answers, but does not refuse a loop"
    return f"it refuses call {number + 1} already" if number < _CALLS - 1 else None


def _refuses(answer: dict[str, Any]) -> bool:
    inner = answer.get("hookSpecificOutput")
    said = [answer, inner] if isinstance(inner, dict) else [answer]
    return any(one.get(key) in _REFUSALS for one in said for key in _DECISIONS)
