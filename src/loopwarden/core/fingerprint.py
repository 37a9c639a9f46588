"""What is compared: signatures of calls and fingerprints of outcomes (SPEC section 3).

A fingerprint carries its flags in its last byte, so that what the detectors ask of an outcome later
(did it fail, was it a text of some length) needs no further memory.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from loopwarden.core.canonical import DIGEST_BYTES, canonical
from loopwarden.core.failure import mask, unknown_tool
from loopwarden.core.fields import only, without

if TYPE_CHECKING:
    from loopwarden.core.profile import ToolUse

FAILED: Final = 1
TIMED_OUT: Final = 2
SUBSTANTIAL: Final = 4
"""Flags: a failure; a failure by running out of time; a success with text of 64 bytes or more."""

_SUBSTANTIAL_BYTES = 64
_BLANKED = 16_384
"""Characters of a result in which `ignoreText` patterns are blanked; the rest is compared as it is."""

# Digests of nothing: to copy one costs half as much as to make one.
_SIGNATURE = blake2b(digest_size=DIGEST_BYTES)
_OUTCOME = blake2b(digest_size=DIGEST_BYTES - 1)
_FLAG_BYTES = tuple(bytes([flags]) for flags in range(8))
_FAILED_STATUS = frozenset({"error", "failed"})

_EXEC_APPROVAL = ("status", "reason", "host", "command", "warning")
_POLL = ("status", "exitCode", "exitSignal", "aggregated", "tail", "totalLines", "totalChars", "truncated")
_OUTPUT = frozenset({"aggregated", "tail"})
_RETRY_HINTS = ("retryInMs", "retryAfter", "retryAfterMs", "pollIntervalMs")
_RECEIPTS = (
    "messageId", "messageIds", "fileId", "fileIds", "pollId", "receipt", "receipts", "receiptId",
    "receiptIds", "idempotencyKey", "runId", "timestamp", "timestamps", "timestampMs", "ts", "time",
    "date", "sentAt", "createdAt", "updatedAt", "deliveredAt", "editedAt",
    "message_id", "message_ids", "file_id", "file_ids", "poll_id", "receipt_id", "idempotency_key",
    "run_id", "timestamp_ms", "sent_at", "created_at", "updated_at", "delivered_at",
)  # fmt: skip


class Observed:
    """What the core keeps of one outcome.

    Attributes:
        fingerprint: Equal for outcomes that say the same; 15 bytes and a byte of flags.
        flags: `FAILED`, `TIMED_OUT`, `SUBSTANTIAL`.
        failure: Fingerprint of the masked failure; `None` for a success and for a timeout.
        missing: Name of the tool that does not exist, where that is the failure.
    """

    __slots__ = ("failure", "fingerprint", "flags", "missing")

    def __init__(self, fingerprint: bytes, flags: int, failure: bytes | None, missing: str | None) -> None:
        self.fingerprint = fingerprint
        self.flags = flags
        self.failure = failure
        self.missing = missing


def _observed(data: bytes, flags: int, failure: bytes | None = None, missing: str | None = None) -> Observed:
    digest = _OUTCOME.copy()
    digest.update(data)
    return Observed(digest.digest() + _FLAG_BYTES[flags], flags, failure, missing)


def mixed(turn: int) -> bytes:
    """The fingerprint of identical calls of one turn whose outcomes differ: like no other outcome."""
    return b"mixed" + turn.to_bytes(9, "big") + _FLAG_BYTES[0]


def signature(use: ToolUse, arguments: object) -> bytes:
    """Names a call: equal for the same tool with arguments that are equal as JSON values."""
    if not use.plain_arguments:
        if use.identity is not None:
            arguments = only(arguments, use.identity)
        arguments = without(arguments, use.ignore_arguments)
    name = _SIGNATURE.copy()
    name.update(use.prefix + canonical(arguments))
    return name.digest()


def observe(
    use: ToolUse, result: object, error: str | None, missing: str | None, timed_out: bool
) -> Observed:
    """What a call's outcome was, by the kind of its tool.

    Args:
        use: What kind of call it was.
        result: What the tool gave.
        error: Text of the error, if it failed instead.
        missing: Name of the tool that does not exist, where the host says so.
        timed_out: Whether the host says that it ran out of time.
    """
    if (
        type(result) is dict
        and len(result) == 1
        and type(content := result.get("content")) is list
        and len(content) == 1
        and type(part := content[0]) is dict
        and type(text := part.get("text")) is str
        and error is None
        and not missing
        and not timed_out
        and use.plain_result
    ):  # nothing but one text, as most results, whatever the kind of the tool
        data = b"t" if use.kind == "send" else b"t" + _encode(text)
        return _observed(data, SUBSTANTIAL if len(data) > _SUBSTANTIAL_BYTES else 0)
    if error is not None:
        text = _text(use, error)
        return _failure(b"e" + _encode(text), text, None, missing, timed_out)
    if type(result) is dict and ("content" in result or "details" in result):
        return _observe_parts(use, result, missing, timed_out)
    if use.ignore_result:
        result = without(result, use.ignore_result)
    if type(result) is str:
        result = _text(use, result)
        data = b"t" + _encode(result)
    else:
        data = b"v" + canonical(result)
    if missing or timed_out or (type(result) is dict and _flagged(result, result)):
        return _failure(data, data[1:_BLANKED].decode(errors="replace"), None, missing, timed_out)
    return _observed(data, SUBSTANTIAL if len(data) > _SUBSTANTIAL_BYTES else 0)


def _observe_parts(use: ToolUse, result: dict[str, object], missing: str | None, timed_out: bool) -> Observed:
    """A result of `content` and `details`, the shape of OpenClaw, MCP and our own readers."""
    if use.ignore_result:
        reduced = without(result, use.ignore_result)
        result = reduced if type(reduced) is dict else {}
    details = result.get("details")
    text, others = _content(result.get("content"))
    fields: dict[str, object] = details if type(details) is dict else {}
    kind = use.kind
    if use.ignore_text and kind in {"exec", "poll"}:
        fields = {
            name: _text(use, value) if name in _OUTPUT and type(value) is str else value
            for name, value in fields.items()
        }
    said: str | None = None
    if kind == "exec" and fields:
        details, said = _exec(fields)
    output = text = _text(use, text) if said is None else said
    if kind == "poll" and fields:
        details = _poll(fields)
    elif kind == "send" and fields:
        details, text = without(fields, _RECEIPTS), ""
    elif kind == "send":
        text = ""
    failed = _failed(kind, result, fields, output)
    if details is None and not others:
        data = (b"f" if failed else b"t") + _encode(text)
    elif not others:
        told = canonical(details)
        data = b"%b%d:%b%b" % (b"g" if failed else b"d", len(told), told, _encode(text))
    else:
        data = b"p" + canonical((details, text, others, failed))
    if failed or missing or timed_out or fields.get("timedOut") is True:
        return _failure(data, output, fields, missing, timed_out)
    substantial = len(output) >= _SUBSTANTIAL_BYTES or len(_encode(output)) >= _SUBSTANTIAL_BYTES
    return _observed(data, SUBSTANTIAL if substantial else 0)


def _exec(fields: dict[str, object]) -> tuple[object, str | None]:
    """What counts of a command's details but its output, and that, if it stands there."""
    status = _word(fields.get("status"))
    if status == "running":
        tail = fields.get("tail")
        return (["running"], tail) if type(tail) is str else (["running", tail], None)
    if status is not None and status.startswith("approval"):
        return [fields.get(name) for name in _EXEC_APPROVAL], ""
    if "aggregated" in fields or "exitCode" in fields:
        output = fields.get("aggregated")
        ended = [fields.get("status"), fields.get("exitCode"), fields.get("timedOut")]
        return (ended, output) if type(output) is str else ([*ended, output], None)
    return fields, None


def _poll(fields: dict[str, object]) -> object:
    """What counts of a poll's details; a host whose polls say other things keeps all but retry hints."""
    if "aggregated" in fields or "exitCode" in fields or "tail" in fields or "totalLines" in fields:
        return [fields.get(name) for name in _POLL]
    return without(fields, _RETRY_HINTS)


def _failed(kind: str, result: dict[str, object], fields: dict[str, object], output: str) -> bool:
    if kind == "exec":
        code = fields.get("exitCode")
        if type(code) is int and code != 0:
            return not (code == 1 and not output.strip())
    if kind == "poll":
        return _flagged(result, {})
    return _flagged(result, fields)


def _flagged(result: dict[str, object], fields: dict[str, object]) -> bool:
    if result.get("isError") is True or result.get("is_error") is True:
        return True
    return _word(fields.get("status")) in _FAILED_STATUS


def _word(value: object) -> str | None:
    """A text as a plain one, whatever a subclass of `str` (as an enumeration) makes of comparisons."""
    return str.__str__(value) if issubclass(type(value), str) else None


def _failure(
    data: bytes, text: str, fields: dict[str, object] | None, missing: str | None, timed_out: bool
) -> Observed:
    if timed_out or (fields is not None and fields.get("timedOut") is True):
        return _observed(data, FAILED | TIMED_OUT)
    masked = _encode(mask(text))
    if fields:
        masked = canonical([fields.get("status"), fields.get("exitCode")]) + masked
    failure = _SIGNATURE.copy()
    failure.update(masked)
    return _observed(data, FAILED, failure.digest(), missing or unknown_tool(text))


def _content(content: object) -> tuple[str, list[object]]:
    """The text of a result's parts and all parts that are no text (their data is compared too)."""
    if type(content) is str:
        return content, []
    if type(content) is not list:
        return "", [] if content is None else [content]
    texts: list[str] = []
    others: list[object] = []
    for part in content:
        text = part.get("text") if type(part) is dict else part
        if type(text) is str:
            texts.append(text)
        else:
            others.append(part)
    return (texts[0] if len(texts) == 1 else "\n".join(texts)), others


def _text(use: ToolUse, text: str) -> str:
    if use.ignore_text:
        head = text[:_BLANKED]
        for pattern in use.ignore_text:
            head = pattern.sub("", head)
        return head + text[_BLANKED:]
    return text


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return text.encode("utf-8", "surrogatepass")
