"""Numbers and times in words."""

from __future__ import annotations

import pytest

from loopwarden.scan import words
from loopwarden.scan.summary import Spend


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (words.plural(1, "call"), "1 call"),
        (words.plural(2500, "call"), "2,500 calls"),
        (words.amount(950), "950"),
        (words.amount(12_345), "12.3k"),
        (words.amount(1_234_567), "1.2M"),
        (words.amount(123_456_789), "123M"),
        (words.duration(0.44), "0.4 s"),
        (words.duration(35), "35 s"),
        (words.duration(720), "12 min"),
        (words.duration(12_000), "3 h 20 min"),
        (words.money(3.1), "$3.10"),
        (words.money(0.004), "$0.0040"),
        (words.percent(0.0), "0 %"),
        (words.percent(0.004), "0.4 %"),
        (words.percent(0.5), "50 %"),
        (words.moment(None), ""),
        (words.moment(12.5), "12.5 s"),
        (words.moment(1_800_000_000.0), "2027-01-15 08:00:00"),
        (words.moment(1e300), f"{1e300:.1f} s"),
        (words.spend(Spend(calls=1)), "1 call"),
        (
            words.spend(Spend(calls=2, seconds=4, input_tokens=1000, cost=1)),
            "2 calls, 4.0 s, 1.0k tokens, $1.00",
        ),
    ],
)
def test_words(shown: str, expected: str) -> None:
    assert shown == expected
