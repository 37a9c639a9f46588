"""What the model is told by the hooks, whatever the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.agents.model_server import Request

WARNED: Final = "change the arguments or the approach"
REFUSED: Final = "This call was refused and did not run."
SOFTLY_ENDED: Final = "Every further call of this run will be refused"
"""Where the hook can't end the run."""

RUN_ENDS: Final = "This call did not run, and the run ends here."
AFTER_COMPACTION: Final = "After the history was compacted"


def said(request: Request, call_id: str) -> str:
    """The one result of a call."""
    answers = request.answers[call_id]
    assert len(answers) == 1
    return answers[0]
