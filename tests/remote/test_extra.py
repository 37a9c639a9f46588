"""Without the package for HTTP, and what `import loopwarden` must not cost."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys
sys.modules["httpx2"] = None
from loopwarden import LoopGuard, MissingExtraError
try:
    LoopGuard(store="HTTP://127.0.0.1:8377")
except MissingExtraError as error:
    print(error)
"""
IN_PROCESS = """
import sys
from loopwarden import LoopGuard
LoopGuard({}).before("read", {}, call_id="c")
print([name for name in sys.modules if name.startswith(("httpx2", "loopwarden.remote"))])
"""


def shown(code: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return ended.stdout.strip()


def test_the_extra_is_named() -> None:
    assert shown(WITHOUT) == "httpx2 is not installed; run: pip install 'loopwarden[client]'"


def test_a_guard_in_process_loads_nothing_of_it() -> None:
    assert shown(IN_PROCESS) == "[]"
