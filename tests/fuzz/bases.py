"""What is mutated: the bundled samples, unpacked, and short forms of the long ones."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from loopwarden.transcripts import Source, detect
from tests.transcripts.facts import SAMPLES

Form: TypeAlias = Literal["lines", "document", "archive", "text"]

SHORT_LIST = 7
SHORT_TEXT = 160
SHORT_LINES = 24
SHORT_DOCUMENT = 24_000
"""Length in bytes up to which a document stays as it is."""


@dataclass(frozen=True, slots=True)
class Base:
    """A file to start from.

    Attributes:
        name: Path of the sample below `samples/`, with `:short` behind it for its short form.
        form: What it holds: JSON lines, one JSON document, a zip archive of documents, or other text.
        reader: Name of the format.
        data: The bytes, decompressed.
        members: Of an archive, its members.
    """

    name: str
    form: Form
    reader: str
    data: bytes
    members: tuple[tuple[str, bytes], ...] = ()


@cache
def bases() -> tuple[Base, ...]:
    """Every sample, then the short forms of those that are long."""
    names = sorted(path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*") if path.is_file())
    whole = [_base(name) for name in names if not name.endswith(".md")]
    return (*whole, *(short for base in whole if (short := _short(base)) is not None))


@cache
def by_name() -> dict[str, Base]:
    """The bases by their name."""
    return {base.name: base for base in bases()}


def _base(name: str) -> Base:
    data = (SAMPLES / name).read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    reader = detect(Source(SAMPLES / name))
    assert reader is not None, name
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = tuple((member, archive.read(member)) for member in archive.namelist())
        return Base(name, "archive", reader.name, data, members)
    return Base(name, _form(data), reader.name, data)


def _form(data: bytes) -> Form:
    if _value(data) is not None:
        return "document"
    return "lines" if any(_value(line) is not None for line in data.split(b"\n")[:3]) else "text"


def _value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _short(base: Base) -> Base | None:
    if base.form == "document":
        text = json.dumps(shortened(json.loads(base.data)), indent=1).encode()
    elif base.form == "lines":
        values = [_value(line) for line in base.data.split(b"\n") if line][: SHORT_LINES * 2]
        kept = [value for value in values if value is not None][:SHORT_LINES]
        text = b"".join(json.dumps(shortened(value)).encode() + b"\n" for value in kept)
    elif base.form == "text":
        text = base.data[:SHORT_DOCUMENT]
    else:
        return None
    short = Base(f"{base.name}:short", base.form, base.reader, text)
    return short if len(text) < len(base.data) * 0.8 else None


def shortened(value: Any) -> Any:
    """The value with a few elements of each list and the beginning of each text."""
    if isinstance(value, dict):
        return {key: shortened(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner) for inner in value[:SHORT_LIST]]
    return value[:SHORT_TEXT] if isinstance(value, str) else value
