"""Recorded runs of agents, in whatever format, as events for the guard.

`read` gives one file as items; `discover` finds the files to read.
"""

from loopwarden.transcripts.discover import Candidate, Skipped, discover
from loopwarden.transcripts.locations import Location, known_locations
from loopwarden.transcripts.model import NOTE_KINDS, Item, Reader, ReadNotes, Recorded, Spent, StreamStart
from loopwarden.transcripts.registry import FORMATS, Transcript, by_name, detect, read
from loopwarden.transcripts.source import Limits, Source

__all__ = [
    "FORMATS",
    "NOTE_KINDS",
    "Candidate",
    "Item",
    "Limits",
    "Location",
    "ReadNotes",
    "Reader",
    "Recorded",
    "Skipped",
    "Source",
    "Spent",
    "StreamStart",
    "Transcript",
    "by_name",
    "detect",
    "discover",
    "known_locations",
    "read",
]
