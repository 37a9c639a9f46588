"""The page in a real browser; left out where there is none.

The browser is the first of: the one that `LOOPWARDEN_CHROMIUM` names, `chromium` on the path.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from loopwarden.scan.html_report import report_html
from tests.scan.strips import report_of, scan_strip
from tests.scan.test_html_report import evil_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect, sync_playwright = playwright.expect, playwright.sync_playwright

CHROMIUM = os.environ.get("LOOPWARDEN_CHROMIUM") or shutil.which("chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page; at the end nothing may have been asked of the net, alerted or complained of."""
    path = tmp_path / "report.html"
    runs = [scan_strip("xy" + "a" * 12, seconds=5.0, tokens=1000), evil_run(), scan_strip("abcabcabcabcabc")]
    path.write_text(report_html(report_of(*runs, scan_strip("aaaa"), scan_strip("bcd"))), encoding="utf-8")
    trouble: list[str] = []
    contexts = []

    def visit(**options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on(
            "request", lambda request: trouble.append(request.url) if request.url != path.as_uri() else None
        )
        page.goto(path.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert trouble == []


def shown(page: Any) -> int:
    count: int = page.locator("details.run:visible").count()
    return count


def test_filters_search_and_order(visit: Callable[..., Any]) -> None:
    page = visit()
    assert shown(page) == 4
    assert page.locator("#shown").inner_text() == "4 of 4 runs with loops or repetitions"
    page.select_option("#level", "warning")
    assert shown(page) == 1
    page.select_option("#level", "")
    page.select_option("#detector", "cycle")
    assert shown(page) == 1
    page.select_option("#detector", "")
    page.fill("#search", 'LOOK q: "a"')
    expect(page.locator("#shown")).to_have_text("3 of 4 runs with loops or repetitions")
    page.fill("#search", "nothing like it")
    expect(page.locator("#shown")).to_have_text("0 of 4 runs with loops or repetitions")
    page.fill("#search", "")
    expect(page.locator("#shown")).to_have_text("4 of 4 runs with loops or repetitions")
    page.select_option("#order", "calls")
    calls = page.eval_on_selector_all("details.run", "runs => runs.map((run) => Number(run.dataset.calls))")
    assert calls == sorted(calls, reverse=True)
    page.select_option("#order", "rank")
    assert page.locator("details.run").first.get_attribute("id") == "run-1"


def test_keys_links_and_opening(visit: Callable[..., Any]) -> None:
    page = visit()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('#run-2').open")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#run-4'")
    expect(page.locator("#run-4")).to_have_attribute("open", "")
    page.click("#open")
    assert page.locator("details.run[open]").count() == 4
    page.click("#open")
    assert page.locator("details.run[open]").count() == 0


def test_a_place_of_the_timeline_says_what_it_is(visit: Callable[..., Any]) -> None:
    page = visit()
    box = page.locator("#run-1 svg.time").bounding_box()
    said = ""
    for call in (11, 12, 13, 14):
        page.mouse.move(box["x"] + box["width"] * (call - 0.5) / 14, box["y"] + 5)
        said += page.locator(".bubble").inner_text() + "\n"
    assert said == (
        'call 11: look(q: "a"): the guard would have refused it\n'
        'call 12: look(q: "a"): the guard would have ended the run\n'
        'call 13: look(q: "a")\ncall 14: look(q: "a")\n'
    )
    page.mouse.move(1, 1)
    assert page.locator(".bubble").is_hidden()


def test_light_and_dark(visit: Callable[..., Any]) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(color_scheme="light"), visit(color_scheme="dark")
    assert light.evaluate(colour) != dark.evaluate(colour)
    before = light.evaluate(colour)
    light.click("#theme")
    assert light.evaluate(colour) == dark.evaluate(colour)
    light.keyboard.press("t")
    assert light.evaluate(colour) == before


def test_readable_without_javascript(visit: Callable[..., Any]) -> None:
    page = visit(java_script_enabled=False)
    assert page.locator("#tools").is_hidden()
    assert page.locator("#theme").is_hidden()
    page.locator("#run-3 > summary").click()
    assert page.locator("#run-3 article.loop").is_visible()


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_nothing_sticks_out_at_any_width(visit: Callable[..., Any], width: int) -> None:
    page = visit(viewport={"width": width, "height": 700})
    page.click("#open")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_names_run_nothing(visit: Callable[..., Any]) -> None:
    page = visit()
    names = page.locator("details.run .name").all_inner_texts()
    assert any("</script><script>alert(1)</script>" in name for name in names)
    assert page.title().startswith("loopwarden: 3 loops in 3 runs")
