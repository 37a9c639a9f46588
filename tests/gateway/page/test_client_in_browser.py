"""The JavaScript client in a real browser, on a page of the gateway's own address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

import loopwarden

if TYPE_CHECKING:
    from tests.gateway.processes import GatewayProcess

CLIENT = Path(loopwarden.__file__).parent / "gateway" / "client" / "loopwarden.mjs"

pytestmark = pytest.mark.browser

LOOP = """
async ([url, token]) => {
  const { LoopAborted, LoopGuard } = await import("/client.mjs");
  const told = [];
  const log = (text) => told.push(text);
  const guard = new LoopGuard({ url, token, run: "browser", timeout: 60_000, log });
  const read = guard.guarded("read", () => new Map([[1, 2n]]));
  let calls = 0;
  try { for (; calls < 100; calls += 1) await read({ path: "a" }); } catch (error) {
    return [calls, error instanceof LoopAborted, told];
  }
  return [calls, false, told];
}
"""


def looped(browser: Any, gateway: GatewayProcess, token: str) -> Any:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.route("**/client.mjs", lambda asked: asked.fulfill(path=CLIENT, content_type="text/javascript"))
        page.goto(f"{gateway.address}/healthz")
        return page.evaluate(LOOP, [gateway.address, token])
    finally:
        context.close()


def test_a_loop_is_ended(browser: Any, gateway: GatewayProcess) -> None:
    calls, aborted, told = looped(browser, gateway, gateway.token)
    assert (aborted, told) == (True, [])
    assert 5 <= calls < 100


def test_without_the_token_calls_are_let_through(browser: Any, gateway: GatewayProcess) -> None:
    calls, aborted, told = looped(browser, gateway, "x" * 40)
    assert (calls, aborted) == (100, False)
    assert "answers 401" in told[0]
