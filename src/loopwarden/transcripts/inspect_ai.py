"""Inspect logs: an `.eval` archive with a member a sample, or one JSON document with all samples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from loopwarden.errors import LoopwardenError, TranscriptError
from loopwarden.transcripts.eval_archive import MemberFault, open_archive
from loopwarden.transcripts.fields import elements, mapping
from loopwarden.transcripts.inspect_sample import sample_items
from loopwarden.transcripts.outline import outline
from loopwarden.transcripts.parsing import MOST_IN_DOCUMENT, integer, too_many
from loopwarden.transcripts.stream import StreamNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.transcripts.eval_archive import EvalArchive
    from loopwarden.transcripts.model import Item, ReadNotes
    from loopwarden.transcripts.source import Source

HEADERS = ("header.json", "_journal/start.json")
"""Where the description of the evaluation stands: at the end of a run, and from its beginning on."""

SAMPLES = "samples/"


class InspectReader:
    """Logs of inspect_ai; events are read where a sample has them, else its messages."""

    name = "inspect-ai"
    title = "Inspect log"

    def sniff(self, source: Source) -> bool:
        """See `Reader.sniff`."""
        if source.kind == "zip":
            return _has_members(source)
        keys = outline(source.head)
        known = ("eval", "model") in keys or ("eval", "run_id") in keys
        return known and ("eval", "task") in keys and ("status",) in keys

    def read(self, source: Source, notes: ReadNotes) -> Iterator[Item]:
        """See `Reader.read`.

        Raises:
            MissingExtraError: A member is compressed with Zstandard and `zstandard` is not installed.
        """
        if source.kind == "zip":
            yield from _archive_items(source, notes)
            return
        document = source.document()
        if not isinstance(document, dict) or not isinstance(document.get("eval"), dict):
            raise TranscriptError(source.label, "no Inspect log: it has no `eval`")
        names = StreamNames()
        for sample in elements(document.get("samples")):
            if isinstance(sample, dict):
                yield from sample_items(sample, document["eval"], names, notes)
            else:
                notes.add("bad_line")


READER = InspectReader()


def _has_members(source: Source) -> bool:
    if source.path is None:
        return any(name.encode() in source.head for name in HEADERS)
    try:
        with open_archive(source.path, source.label, source.limits) as archive:
            return any(header in archive.names for header in HEADERS)
    except LoopwardenError:
        return False


def _archive_items(source: Source, notes: ReadNotes) -> Iterator[Item]:
    if source.path is None:
        raise TranscriptError(source.label, "an archive can't be read from standard input; give its path")
    with open_archive(source.path, source.label, source.limits) as archive:
        for _ in range(archive.left_out):
            notes.add("cut_member")
        present = set(archive.names)
        header: dict[str, Any] = {}
        for name in HEADERS:
            if name in present and not header:
                header = mapping(_member(archive, name, notes))
        names = StreamNames()
        for name in archive.names:
            if not name.startswith(SAMPLES) or not name.endswith(".json"):
                continue
            if "/" in name.removeprefix(SAMPLES):  # a piece of a sample in the layout of log version 3
                notes.add("unknown_record")
                continue
            sample = _member(archive, name, notes)
            if isinstance(sample, dict):
                yield from sample_items(sample, mapping(header.get("eval")), names, notes)
            elif sample is not None:
                notes.add("bad_line")


def _member(archive: EvalArchive, name: str, notes: ReadNotes) -> Any:
    """The JSON value of a member; `None`, and a note, if it can't be used."""
    try:
        data = archive.read(name)
    except MemberFault as fault:
        notes.add(fault.kind)
        return None
    if too_many(data, MOST_IN_DOCUMENT):
        notes.add("too_many_values")
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "limit" in error.msg:  # of depth
            notes.add("too_deep")
            return None
    try:
        return json.loads(data.decode(errors="replace"), parse_int=integer)  # takes NaN, which Inspect writes
    except ValueError:
        notes.add("bad_line")
    except RecursionError:
        notes.add("too_deep")
    return None
