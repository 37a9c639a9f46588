"""Made-up recordings of agents at work, the same each time: what the scan is timed on.

Sizes are those of real sessions: results of 1 to 20 kB, text of several lines, 120 calls a session, and
beside them what the products write too: thoughts with their signatures, the text between calls, the result
as the screen shows it, a file as it was before an edit. One session in eight ends in a loop. A quarter of the
bytes is each of Claude Code, Codex, OpenClaw and chat messages of OpenAI's format.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import orjson

if TYPE_CHECKING:
    from pathlib import Path

Call: TypeAlias = tuple[str, dict[str, Any], str]
"""Tool, arguments and the text of the result."""

CALLS = 120
BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
LOOP, EDITS = 30, 7  # calls of a loop, and every how many calls a file is edited
QUOTED, FOREIGN = 0.2, 0.03  # shares of lines with quotes, and with a tab and letters beyond ASCII
WORDS = (
    *(
        "def",
        "return",
        "self",
        "value",
        "index",
        "for",
        "in",
        "if",
        "not",
        "None",
        "import",
        "class",
        "raise",
    ),
    *("items", "total", "weight", "order", "row", "column", "parse", "write", "error", "warning", "test"),
    *("passed", "failed", "module", "result", "config", "options", "path", "name", "number", "sum", "kept"),
)


def text(rng: random.Random, size: int) -> str:
    """Lines of code-like text; some have quotes, tabs and letters beyond ASCII, which JSON escapes or not."""
    lines = []
    left = size
    while left > 0:
        line = "    " * rng.randrange(4) + " ".join(rng.choices(WORDS, k=rng.randrange(3, 14)))
        if rng.random() < QUOTED:
            line = f'{line} = "{rng.randrange(10**6)}"'
        if rng.random() < FOREIGN:
            line += "\t# größer → später"
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)


class Pool:
    """Texts that results are cut from: to make up every one anew would take minutes."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._text = text(rng, 2_000_000)

    def result(self) -> str:
        """A result of 1 to 20 kB."""
        size = self._rng.randrange(1_000, 20_000)
        start = self._rng.randrange(len(self._text) - size)
        return self._text[start : start + size]

    def words(self, size: int) -> str:
        """So many letters of it."""
        start = self._rng.randrange(len(self._text) - size)
        return self._text[start : start + size]

    def signature(self) -> str:
        """An encrypted thought."""
        return self._rng.randbytes(self._rng.randrange(300, 1500)).hex()


def session(rng: random.Random, pool: Pool, number: int) -> Iterator[Call]:
    """The calls of one session."""
    loops = number % 8 == 0
    stuck = ("bash", {"command": "make check"}, pool.result())
    for place in range(CALLS):
        if loops and place >= CALLS - LOOP:
            yield stuck
        elif place % EDITS == EDITS - 1:
            old, new = pool.words(600), pool.words(700)
            yield "edit", {"path": f"src/part_{place}.py", "old": old, "new": new}, "1 place changed"
        elif place % 3 == 0:
            yield "bash", {"command": f"grep -n {rng.choice(WORDS)} -r src | head -{place}"}, pool.result()
        else:
            yield "read", {"path": f"src/part_{rng.randrange(400)}.py", "limit": 200}, pool.result()


def _time(place: int) -> str:
    return (BEGIN + timedelta(seconds=7 * place)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ids(rng: random.Random) -> Iterator[str]:
    while True:
        yield str(UUID(int=rng.getrandbits(128), version=4))


CLAUDE_NAMES = {"bash": "Bash", "edit": "Edit", "read": "Read"}


def claude_code(calls: Iterator[Call], rng: random.Random, pool: Pool) -> Iterator[dict[str, Any]]:
    """A session of Claude Code: each result stands there twice, for the model and for the screen."""
    ids = _ids(rng)
    name = next(ids)
    parent = None

    def record(kind: str, place: int, **more: Any) -> dict[str, Any]:
        nonlocal parent
        own = next(ids)
        made = {
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/srv/shop",
            "sessionId": name, "version": "2.1.0", "gitBranch": "main", "type": kind, **more,
            "uuid": own, "timestamp": _time(place),
        }  # fmt: skip
        parent = own
        return made

    yield record("user", 0, message={"role": "user", "content": "Make the tests pass."})
    for place, (tool, arguments, result) in enumerate(calls, 1):
        call = f"toolu_{rng.getrandbits(96):024x}"
        use = {"type": "tool_use", "id": call, "name": CLAUDE_NAMES[tool], "input": arguments}
        usage = {"input_tokens": 4, "cache_read_input_tokens": 20_000 + place, "output_tokens": 120}
        message = {"id": f"msg_{place}", "role": "assistant", "model": "m", "usage": usage}
        thought = {"type": "thinking", "thinking": pool.words(400), "signature": pool.signature()}
        for part in (thought, {"type": "text", "text": pool.words(150)}, use):
            yield record("assistant", place, message={**message, "content": [part]})
        content = [{"tool_use_id": call, "type": "tool_result", "content": result, "is_error": False}]
        seen: dict[str, Any] = {"type": "text", "file": {"filePath": "part.py", "content": result}}
        if tool == "bash":
            seen = {"stdout": result, "stderr": "", "interrupted": False, "isImage": False}
        elif tool == "edit":
            seen = {"originalFile": pool.result(), "oldString": arguments["old"], "structuredPatch": []}
        yield record("user", place, message={"role": "user", "content": content}, toolUseResult=seen)


def codex(calls: Iterator[Call], rng: random.Random, pool: Pool) -> Iterator[dict[str, Any]]:
    """A rollout of the Codex CLI: arguments, and outputs of commands, are JSON within JSON."""
    head = {"id": next(_ids(rng)), "timestamp": _time(0), "cwd": "/srv/shop", "cli_version": "0.60.0"}
    yield {"timestamp": _time(0), "type": "session_meta", "payload": head}
    for place, (tool, arguments, result) in enumerate(calls, 1):
        name = "shell" if tool == "bash" else tool
        thought = {"type": "reasoning", "summary": [], "encrypted_content": pool.signature()}
        yield {"timestamp": _time(place), "type": "response_item", "payload": thought}
        call = {
            "type": "function_call", "name": name, "call_id": f"call_{place}",
            "arguments": orjson.dumps(arguments).decode(),
        }  # fmt: skip
        yield {"timestamp": _time(place), "type": "response_item", "payload": call}
        output = result
        if tool == "bash":
            details = {"exit_code": 0, "duration_seconds": round(rng.random(), 1)}
            output = orjson.dumps({"output": result, "metadata": details}).decode()
        if tool == "bash":
            shown = {"type": "exec_command_end", "call_id": f"call_{place}", "stdout": result, "exit_code": 0}
            yield {"timestamp": _time(place), "type": "event_msg", "payload": shown}
        answer = {"type": "function_call_output", "call_id": f"call_{place}", "output": output}
        yield {"timestamp": _time(place), "type": "response_item", "payload": answer}
        usage = {"input_tokens": 9000 * place, "output_tokens": 100 * place}
        counted = {"type": "token_count", "info": {"total_token_usage": usage}}
        yield {"timestamp": _time(place), "type": "event_msg", "payload": counted}


def openclaw(calls: Iterator[Call], rng: random.Random, pool: Pool) -> Iterator[dict[str, Any]]:
    """A session of OpenClaw."""
    name = next(_ids(rng))
    yield {"type": "session", "version": 3, "id": name, "timestamp": _time(0), "cwd": "/srv/shop"}
    parent = None
    for place, (tool, arguments, result) in enumerate(calls, 1):
        call = f"call_{place}"
        name = "exec" if tool == "bash" else tool
        use = {"type": "toolCall", "id": call, "name": name, "arguments": arguments}
        thought = {"type": "thinking", "thinking": pool.words(400), "thinkingSignature": pool.signature()}
        content = [thought, {"type": "text", "text": pool.words(150)}, use]
        usage = {"input": 9000, "output": 100, "totalTokens": 9100, "cost": {"total": 0.01}}
        asked = {"role": "assistant", "content": content, "usage": usage, "stopReason": "toolUse"}
        answer: dict[str, Any] = {"role": "toolResult", "toolCallId": call, "toolName": name}
        answer["isError"] = False
        answer["content"] = [{"type": "text", "text": result}]
        if tool == "bash":
            answer["details"] = {"status": "completed", "exitCode": 0, "aggregated": result, "durationMs": 31}
        for message in (asked, answer):
            own = f"{rng.getrandbits(32):08x}"
            entry = {"type": "message", "id": own, "parentId": parent, "timestamp": _time(place)}
            yield {**entry, "message": message}
            parent = own


def openai_chat(calls: Iterator[Call], _: random.Random, pool: Pool) -> Iterator[dict[str, Any]]:
    """The messages of one chat, in one JSON document."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": pool.words(12_000)}]
    messages.append({"role": "user", "content": "Make the tests pass."})
    for place, (tool, arguments, result) in enumerate(calls, 1):
        function = {"name": tool, "arguments": orjson.dumps(arguments).decode()}
        call = {"id": f"call_{place}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": pool.words(250), "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{place}", "content": result})
    yield {"messages": messages}


Writer: TypeAlias = Callable[[Iterator[Call], random.Random, Pool], Iterator[dict[str, Any]]]

FORMATS: dict[str, tuple[Writer, str]] = {
    "claude-code": (claude_code, "jsonl"),
    "codex": (codex, "jsonl"),
    "openclaw": (openclaw, "jsonl"),
    "openai-chat": (openai_chat, "json"),
}


def write(folder: Path, megabytes: int) -> None:
    """Fill a folder with at least so many megabytes; one that is full already is left as it is."""
    for name, (writer, suffix) in FORMATS.items():
        rng = random.Random(name)
        pool = Pool(rng)
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        left = megabytes * 1_000_000 // len(FORMATS) + 1
        number = 0
        while left > 0:
            file = place / f"{number:04}.{suffix}"
            if not file.exists():
                records = writer(session(rng, pool, number), rng, pool)
                partial = file.with_suffix(".partial")
                partial.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
                partial.replace(file)
            left -= file.stat().st_size
            number += 1
