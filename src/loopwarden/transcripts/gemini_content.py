"""Content of the Gemini API as Gemini CLI and Qwen Code keep it: parts with calls and responses.

Both hosts wrap what a shell command printed in lines of their own (`Output:`, `Exit Code:`, `Process Group
PGID:`, ...). They are taken apart here, since the process group changes from call to call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopwarden.transcripts.fields import mapping, word
from loopwarden.transcripts.shape import command_result, tool_result

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELL_TOOLS = frozenset({"run_shell_command", "shell"})
"""Names of the shell tool in both programs."""

_OUTPUT_LABELS = ("Output: ", "Stdout: ")
_TRAILER = re.compile(r"(Stderr|Error|Exit Code|Signal|Background PIDs|Process Group PGID): (.*)")
_NOTHING = frozenset({"(none)", "(empty)"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a tool gave: exactly one of `result` (in the core's shape) and `error` is set."""

    result: dict[str, Any] | None = None
    error: str | None = None


def parts(content: object) -> list[dict[str, Any]]:
    """The parts of a Content, of a list of parts, of a single part or of plain text."""
    if isinstance(content, str):
        return [{"text": content}] if content else []
    if isinstance(content, dict):
        inner = content.get("parts")
        return parts(inner) if isinstance(inner, list) else [content]
    if isinstance(content, list):
        return [part if isinstance(part, dict) else {"text": part} for part in content if part]
    return []


def has_text(content: object) -> bool:
    """Whether someone wrote something: text that is no thought of the model."""
    return any(word(part.get("text")) and not part.get("thought") for part in parts(content))


def calls(content: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """The function calls among the parts that have a name, each after its name."""
    for part in parts(content):
        call = mapping(part.get("functionCall"))
        if name := word(call.get("name")):
            yield name, call


def responses(content: object) -> Iterator[dict[str, Any]]:
    """The function responses among the parts."""
    for part in parts(content):
        response = part.get("functionResponse")
        if isinstance(response, dict):
            yield response


def result_of(tool: str, content: object, *, failed: bool = False) -> Result:
    """The result of a call from the parts that answer it.

    Args:
        tool: Name of the tool.
        content: Parts with one function response; other parts (images) belong to the same answer.
        failed: Whether a status says that the call failed.
    """
    shown: list[Any] = []
    error: str | None = None
    for part in parts(content):
        response = part.get("functionResponse")
        if not isinstance(response, dict):
            plain = set(part) == {"text"} and isinstance(part["text"], str)
            shown.append(part | {"type": "text"} if plain else part)
            continue
        answer = mapping(response.get("response"))
        error = word(answer.get("error")) or error
        output = answer.get("error") if error else answer.get("output", answer)
        shown.append({"type": "text", "text": output} if isinstance(output, str) else output)
    failed = failed or error is not None
    only = shown[0].get("text") if len(shown) == 1 and isinstance(shown[0], dict) else None
    if isinstance(only, str):
        if tool in SHELL_TOOLS and (command := _command(only, failed=failed)) is not None:
            return Result(result=command)
        if failed:
            return Result(error=only)
    return Result(result=tool_result(shown, is_error=failed))


def _command(text: str, *, failed: bool) -> dict[str, Any] | None:
    """The result of a shell command without the host's lines; `None` if they are not there.

    They are `Output: ` (in older versions after `Command: ` and `Directory: `) at the beginning, and at
    the end only lines with a known label.
    """
    start = 0
    if text.startswith("Command: "):
        # the command may have several lines, so the label of what follows is looked for
        places = [place for label in _OUTPUT_LABELS if (place := text.find(f"\n{label}")) >= 0]
        if not places:
            return None
        start = min(places) + 1
    label = next((label for label in _OUTPUT_LABELS if text.startswith(label, start)), None)
    if label is None:
        return None
    lines = text[start + len(label) :].split("\n")
    facts: dict[str, str] = {}
    while lines and (match := _TRAILER.fullmatch(lines[-1])) and match[1] not in facts:
        facts[match[1]] = match[2]
        lines.pop()
    output = "\n".join(lines)
    printed = [] if output in _NOTHING else [output]
    printed += [facts[key] for key in ("Stderr", "Error") if facts.get(key, "(none)") not in _NOTHING]
    code = facts.get("Exit Code", "")
    exit_code = int(code) if re.fullmatch(r"-?\d{1,10}", code) else None
    return command_result("\n".join(printed), exit_code=exit_code, is_error=failed)
