"""What holds for the items of every reader, whatever the format."""

from __future__ import annotations

import pytest

from loopwarden.transcripts.model import Recorded, Spent
from loopwarden.transcripts.registry import FORMATS, read
from tests.transcripts.facts import SAMPLES
from tests.transcripts.handmade import assert_sound
from tests.transcripts.test_registry import RECORDED

YEAR_2001, YEAR_2096 = 1e9, 4e9


@pytest.mark.parametrize("sample", RECORDED)
def test_items_are_sound(sample: str) -> None:
    assert_sound(read(SAMPLES / sample).items)


@pytest.mark.parametrize("sample", RECORDED)
def test_times_are_seconds_since_the_epoch(sample: str) -> None:
    items = list(read(SAMPLES / sample).items)
    times = [item.event.at for item in items if isinstance(item, Recorded)]
    times += [item.at for item in items if isinstance(item, Spent)]
    assert [at for at in times if at is not None and not YEAR_2001 < at < YEAR_2096] == []


def test_every_format_but_two_has_a_sample() -> None:
    known = {read(SAMPLES / sample).reader.name for sample in RECORDED}
    assert {reader.name for reader in FORMATS} - known == {"events", "qwen-code"}
