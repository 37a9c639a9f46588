"""The engine gives the model's answers to every event, in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwarden.events import Outcome, ToolCall
from loopwarden.guard import LoopGuard
from tests.laws.history import Said
from tests.laws.model import Model
from tests.laws.streams import SETTINGS, Host, Step, streams

if TYPE_CHECKING:
    from loopwarden.core.settings import Settings

FIELDS = tuple(Said.__dataclass_fields__)
PLAIN = ("user", "compact", "move", "stray", "pause")
OPEN = ("open", "open", "end", "end", "again")


def compare(rules: Settings, steps: list[Step], host: Host) -> None:
    """Play the steps to both; the host doesn't run what the engine refuses."""
    model, guard = Model(rules), LoopGuard(rules, on_error="raise")
    refused: set[str] = set()
    for number, step in enumerate(steps):
        for event in host.events(step):
            if isinstance(event, Outcome) and event.call_id in refused and not host.reports:
                continue
            expected, verdict = model.feed(event), guard.feed(event)
            got = Said(**{field: getattr(verdict, field) for field in FIELDS})
            assert got == expected, f"step {number}: {event}"
            if isinstance(event, ToolCall):
                (refused.add if got.action in ("block", "abort") else refused.discard)(event.call_id)
                host.open = [entry for entry in host.open if entry[0] not in refused]


@pytest.mark.parametrize(
    "others",
    [(), PLAIN, (*PLAIN, *OPEN), ("turn", *PLAIN), ("turn", *OPEN, *PLAIN)],
    ids=["calls", "plain", "open", "turns", "turns and open"],
)
@settings(max_examples=100)
@given(data=st.data(), rules=SETTINGS, reused=st.booleans(), reports=st.booleans())
def test_engine_equals_model(
    others: tuple[str, ...], data: st.DataObject, rules: Settings, reused: bool, reports: bool
) -> None:
    compare(rules, data.draw(streams(others=others)), Host(reused=reused, reports=reports))


@settings(max_examples=100)
@given(rules=SETTINGS, steps=streams(others=("retract", "retract", "turn", *OPEN, "user", "compact")))
def test_engine_equals_model_when_replies_are_rolled_back(rules: Settings, steps: list[Step]) -> None:
    compare(rules, steps, Host(twins=False))
