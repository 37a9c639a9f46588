"""The readers, and the choice among them: by content, never by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loopwarden.errors import MissingExtraError, TranscriptError
from loopwarden.transcripts import (
    anthropic_messages,
    atif,
    claude_code,
    codex,
    events,
    gemini,
    hermes,
    inspect_ai,
    intercode,
    langfuse,
    langsmith,
    mini_swe_agent,
    openai_chat,
    openai_responses,
    openclaw,
    opencode,
    openhands,
    openinference,
    otel_genai,
    qwen,
    react_text,
    swe_agent,
    tau2_bench,
    tau_bench,
)
from loopwarden.transcripts.model import ReadNotes
from loopwarden.transcripts.source import Source

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from loopwarden.transcripts.model import Item, Reader

FORMATS: tuple[Reader, ...] = (
    events.READER,
    openclaw.READER,
    claude_code.READER,
    qwen.READER,
    codex.READER,
    gemini.READER,
    opencode.READER,
    hermes.READER,
    openhands.READER,
    atif.READER,
    mini_swe_agent.READER,
    swe_agent.READER,
    inspect_ai.READER,
    tau2_bench.READER,
    tau_bench.READER,
    intercode.READER,
    langsmith.READER,
    langfuse.READER,
    openinference.READER,
    otel_genai.READER,
    openai_responses.READER,
    anthropic_messages.READER,
    openai_chat.READER,
    react_text.READER,
)
"""Every reader, in the order in which they are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A recorded file that is being read.

    Attributes:
        source: The file.
        reader: The reader that knows it.
        notes: What the reader met; complete once `items` is exhausted.
        items: The items, read as they are asked for. May raise `TranscriptError` at any point.
    """

    source: Source
    reader: Reader
    notes: ReadNotes
    items: Iterator[Item]


def detect(source: Source) -> Reader | None:
    """The reader whose format the content has, or `None`.

    Raises:
        TranscriptError: The beginning of the file can't be read.
    """
    return next((reader for reader in FORMATS if reader.sniff(source)), None)


def by_name(name: str) -> Reader:
    """The reader of this name.

    Raises:
        TranscriptError: There is none; the message lists all and names the nearest.
    """
    names = [reader.name for reader in FORMATS]
    if name in names:
        return FORMATS[names.index(name)]
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise TranscriptError("format", f"{name!r} is not known{hint} (known: {', '.join(names)})")


def read(
    path: str | os.PathLike[str] | Source,
    *,
    format: str | None = None,  # noqa: A002 - the name of the option
    notes: ReadNotes | None = None,
) -> Transcript:
    """Begin to read a recorded file.

    Args:
        path: A file or folder, or a `Source`.
        format: Name of its format; `None` tells it from the content.
        notes: Where to count oddities; `None` makes new ones.

    Raises:
        TranscriptError: The file can't be opened, or no reader knows it.
    """
    source = path if isinstance(path, Source) else Source(Path(path))
    reader = by_name(format) if format is not None else detect(source)
    if reader is None:
        names = ", ".join(known.name for known in FORMATS)
        raise TranscriptError(source.label, f"no known format of recorded runs (known: {names})")
    notes = ReadNotes() if notes is None else notes
    return Transcript(source=source, reader=reader, notes=notes, items=_items(reader, source, notes))


def _items(reader: Reader, source: Source, notes: ReadNotes) -> Iterator[Item]:
    """The reader's items; whatever a hostile file makes it raise becomes one clear error."""
    try:
        yield from reader.read(source, notes)
    except TranscriptError:
        raise
    except MissingExtraError as error:
        raise TranscriptError(source.label, str(error)) from error
    except MemoryError as error:
        raise TranscriptError(source.label, "needs more memory than there is") from error
    except Exception as error:  # one file must not end a search through thousands
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
        reason = f"could not be read as {reader.title} ({fault})"
        raise TranscriptError(source.label, reason) from error
