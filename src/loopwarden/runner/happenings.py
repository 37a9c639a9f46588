"""What happens in a run of an agent, as the terminal, the journal and the gateway are told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

HappeningKind: TypeAlias = Literal[
    "began", "text", "call", "verdict", "outcome", "compaction", "user_message", "notice", "ended"
]
"""What happened.

`began`: data `trigger` (`user`, `heartbeat`, `spawn`, `send`), `task`, `parent` (run id or None). `text`: the
model said `text`: first in pieces (`partial`), then the whole of it, unless the reply broke off. `call`: the
model asks for `tool` with `arguments`, `call_id`, `turn_id`. `verdict`: the guard said something about
`call_id` (None: about a compaction): `action`, `level`, `detector`, `count`, `message`, `key`, `error`,
`would`, `announce` (the model reads a warning only then). `outcome`: `call_id`, `ok`, `text` (what the model
reads), and `ended` where a command did not end well (`exit code 3`, `SIGKILL`, `timed out`). `compaction`:
`number`, `tokens_before`, `tokens_after` (None: unknown), `cause` (`overflow`, `ahead`), `window` (calls
that the guard is armed for). `user_message`: while the run went on a person wrote `text`, or the run
`sender` did (None: a person). `notice`: `text` for the person, as a retry after 429; with `channel` and
`message_id` where the agent wrote it by its tool `message`. `ended`: `reason` (see `End`), `code`,
`message`, `answer`, `requests`, `input_tokens`, `output_tokens`.
"""

End: TypeAlias = Literal["done", "aborted", "cancelled", "failed", "interrupted"]
"""Why a run is over: the model said its last word; the guard ended it (`code` says how); a person did; the
provider or the runtime failed; the process died in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing that happened.

    Attributes:
        kind: What; the names in `data` go with it.
        agent: Id of the agent.
        session: Id of the session.
        run: Id of the run.
        time: Seconds since the epoch.
        number: Counts up from 1 within the run.
        data: JSON values.
    """

    kind: HappeningKind
    agent: str
    session: str
    run: str
    time: float
    number: int
    data: Mapping[str, Any] = field(default_factory=dict)


Watcher: TypeAlias = Callable[[Happening], None]
"""Told of everything as it happens, on the event loop; must return at once."""
