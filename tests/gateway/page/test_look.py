"""What the live page looks like in a real browser: widths, contrast, light and dark, without JavaScript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("starlette", reason="the extra `gateway` is not installed")
pytest.importorskip("uvicorn", reason="the extra `gateway` is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from loopwarden.gateway.names import run_name
from tests.gateway.page.server import Place, call, calls

if TYPE_CHECKING:
    from collections.abc import Callable

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
RUN = run_name(None, "enforce", "s", "r")
SCENE_RUN = run_name("coder", "enforce", "billing", "run-7f3a")

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_nothing_sticks_out_at_any_width(staged: Place, visit: Callable[..., Any], width: int) -> None:
    call(staged.guard("w" * 300), 1, "t" * 300, {"k": "v" * 900}, "x", run="r" * 300, session="s" * 300)
    page = visit(staged, viewport={"width": width, "height": 700})
    paths = ["/", *(f"/page/run/{card.name}" for card in staged.board.cards()), "/?q=nothing+like+it"]
    for path in paths:
        page.goto(staged.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        sticks = page.evaluate(STICKS)
        assert sticks == [], path


def test_light_and_dark(staged: Place, visit: Callable[..., Any]) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(staged, color_scheme="light"), visit(staged, color_scheme="dark")
    assert light.evaluate(colour) == "rgb(247, 247, 245)"
    assert dark.evaluate(colour) == "rgb(21, 23, 26)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(staged: Place, visit: Callable[..., Any], scheme: str) -> None:
    """WCAG AA, 4.5 to 1, for every text of the list and of a run."""
    page = visit(staged, color_scheme=scheme)
    for path in (
        "/",
        f"/page/run/{SCENE_RUN}",
        f"/page/run/{run_name('scout', 'enforce', 'nightly', 'run-2c01')}",
    ):
        page.goto(staged.url + path)
        assert page.evaluate(CONTRAST) == [], path


STICKS = """() => [...document.querySelectorAll('main *')]
    .filter((one) => !one.closest('svg, pre, .unseen') && one.getBoundingClientRect().right > innerWidth + 1)
    .map((one) => one.outerHTML.slice(0, 80))"""

CONTRAST = """() => {
    const parse = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const light = (colour) => {
        const [r, g, b] = colour.map((c) => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const ground = (one) => {
        while (one && (parse(getComputedStyle(one).backgroundColor)[3] ?? 1) === 0) one = one.parentElement;
        return one ? parse(getComputedStyle(one).backgroundColor).slice(0, 3) : [255, 255, 255];
    };
    const poor = [];
    for (const one of document.querySelectorAll('body *')) {
        const words = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!words || one.closest('svg, noscript, .skip, .unseen, option, [hidden]')) continue;
        const ink = parse(getComputedStyle(one).color).slice(0, 3);
        const [a, b] = [light(ink), light(ground(one))].sort((x, y) => y - x);
        if ((a + .05) / (b + .05) < 4.5) poor.push(one.outerHTML.slice(0, 100));
    }
    return poor;
}"""


def test_works_without_javascript(place: Place, visit: Callable[..., Any]) -> None:
    guard = place.guard()
    calls(guard, 6)
    page = visit(place, live=False, java_script_enabled=False)
    expect(page.locator("noscript .live")).to_contain_text("reload the page for news")
    page.fill("#search", "nothing like it")
    page.click("#filter button")
    expect(page.locator(".none")).to_be_visible()
    page.goto(place.url)
    page.click("tr td.run > a")
    page.click("text=Pause guard")
    expect(page.locator(".callout")).to_contain_text("The guard is paused")
    assert place.decisions.is_paused(RUN)
    calls(guard, 1, start=50)
    page.reload()
    expect(page.locator("li.call")).to_have_count(7)
