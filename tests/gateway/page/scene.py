"""A scene for the page: runs of several agents, told as the guard and the runner tell them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from loopwarden.runner.happenings import Happening
from tests.gateway.page.server import call, calls

if TYPE_CHECKING:
    from loopwarden.runner.happenings import HappeningKind
    from tests.gateway.page.server import Place

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
HOSTILE = {
    "html": EVIL,
    "ansi": "\x1b[31mred\x1b[0m\x07",
    "bidi": "abc\u202egnp.exe\u2066",
    "surrogate": "half \ud83d of it",
    "quotes": '" \' ` onmouseover=alert(3) x="',
    "template": "{fault} {{7*7}} ${alert(4)}",
}


class Told:
    """Happenings of one run, numbered."""

    def __init__(self, place: Place, agent: str, session: str, run: str) -> None:
        self._tell, self._about = place.board, {"agent": agent, "session": session, "run": run}
        self._number = 0

    def __call__(self, kind: HappeningKind, **data: Any) -> None:
        self._number += 1
        self._tell(Happening(kind=kind, time=time.time(), number=self._number, data=data, **self._about))


def scene(place: Place) -> None:
    """Runs in many states."""
    coder, scout = place.guard("coder"), place.guard("scout")
    told = Told(place, "coder", "billing", "run-7f3a")
    told("began", trigger="user", task="Fix the failing test in tests/test_billing.py", parent=None)
    told("text", text="I look at the test first.")
    number = 0
    for tool, arguments in (
        ("read", {"path": "tests/test_billing.py"}),
        ("read", {"path": "src/billing.py"}),
        ("exec", {"command": "pytest -q tests/test_billing.py"}),
        ("edit", {"path": "src/billing.py", "old": "return total", "new": "return round(total, 2)"}),
        ("exec", {"command": "pytest -q tests/test_billing.py"}),
    ):
        number += 1
        call(coder, number, tool, arguments, {"n": number}, run="run-7f3a", session="billing")
    for _ in range(23):
        number += 1
        failed = {
            "content": [{"type": "text", "text": "1 failed"}],
            "details": {"exitCode": 1, "status": "failed", "aggregated": "1 failed"},
        }
        call(
            coder,
            number,
            "exec",
            {"command": "pytest -q tests/test_billing.py"},
            failed,
            run="run-7f3a",
            session="billing",
        )
    coder.session("billing").compacted(run_id="run-7f3a")
    told("compaction", number=1, tokens_before=118_204, tokens_after=9_411, cause="overflow", window=3)
    call(coder, 100, "read", {"path": "src/billing.py"}, "text", run="run-7f3a", session="billing")

    told = Told(place, "scout", "nightly", "run-2c01")
    told("began", trigger="heartbeat", task="Look whether there is something to do", parent=None)
    verbs = scout.session("nightly")
    for number in range(4):
        call(
            scout,
            number,
            "web_search",
            {"query": "release notes", "page": 1},
            "none",
            run="run-2c01",
            session="nightly",
        )
    verbs.compacted(run_id="run-2c01")
    for number in range(10, 13):
        call(
            scout,
            number,
            "web_search",
            {"query": "release notes", "page": 1},
            "none",
            run="run-2c01",
            session="nightly",
        )
    told(
        "ended",
        reason="aborted",
        code="compaction_loop_persisted",
        message="The same call went on.",
        answer="",
        requests=9,
        input_tokens=40_112,
        output_tokens=812,
    )

    told = Told(place, "scout", "nightly", "run-1b90")
    told("began", trigger="heartbeat", task="Look whether there is something to do", parent=None)
    for number in range(6):
        call(
            scout,
            number,
            "read",
            {"path": f"inbox/{number}.md"},
            f"mail {number}",
            run="run-1b90",
            session="nightly",
        )
    told(
        "ended",
        reason="done",
        code=None,
        message="",
        answer="Nothing to do.",
        requests=7,
        input_tokens=8_000,
        output_tokens=300,
    )

    other = place.guard(None)
    for number in range(12):
        tool = ("poll_job", "fetch_log")[number % 2]
        call(other, number, tool, {"job": 4411}, "pending", run="checkout-bot/91", session="shop")
    for number in range(3):
        call(
            other,
            number,
            "sql",
            {"query": "select 1", "password": "hunter2secret"},
            number,
            run="etl-5",
            session="warehouse",
        )
    call(other, 9, EVIL, HOSTILE, "x", run="<b>run</b>", session="\u202esession")
    other.session("old").before("read", {"path": "x"}, call_id="1", run_id="done-1")
    other.session("old").forget(run_id="done-1")
    calls(place.guard("watcher"), 2, run="run-watch", session="docs")
