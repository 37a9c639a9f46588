"""The live page in a real browser; left out where there is none (see tests/scan/test_html_browser.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("starlette", reason="the extra `gateway` is not installed")
pytest.importorskip("uvicorn", reason="the extra `gateway` is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from loopwarden.gateway.names import run_name
from tests.gateway.page.scene import EVIL, HOSTILE, Told
from tests.gateway.page.server import Place, call, calls, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
RUN = run_name(None, "enforce", "s", "r")
SCENE_RUN = run_name("coder", "enforce", "billing", "run-7f3a")

pytestmark = pytest.mark.browser


def rows(page: Any) -> list[str]:
    names: list[str] = page.locator("tr td.run > a").all_inner_texts()
    return names


def test_the_token_leaves_the_address_and_the_page_lives(place: Place, visit: Callable[..., Any]) -> None:
    page = visit(place)
    assert page.url == f"{place.url}/"
    expect(page.locator(".empty h2")).to_have_text("Nothing has happened yet")
    guard = place.guard("coder")
    calls(guard, 1)
    expect(page.locator("tr td.run > a")).to_have_text("r")
    calls(guard, 5, start=5)
    row = page.locator("tbody tr")
    expect(row.locator("[data-label=calls]")).to_have_text("6")
    expect(row.locator("[data-label=refused]")).to_have_text("1")
    expect(page.locator("#news")).to_have_text("r: calls are refused")


def test_one_run_lives_too(place: Place, visit: Callable[..., Any]) -> None:
    guard = place.guard()
    calls(guard, 2)
    page = visit(place, f"/page/run/{RUN}")
    expect(page.locator("li.call")).to_have_count(2)
    calls(guard, 4, start=10)
    expect(page.locator("li.call")).to_have_count(6)
    expect(page.locator("article.loop h3")).to_have_text("generic_repeat")
    assert page.locator("svg.timeline rect.s1").count() == 6
    assert page.locator("svg.timeline rect.w2").count() == 1
    guard.session("s").compacted(run_id="r")
    expect(page.locator(".armed")).to_contain_text("3 of 3 left")
    expect(page.locator("svg.timeline rect.cut")).to_have_count(1)
    call(guard, 50, "look", {}, "x")
    expect(page.locator(".armed")).to_contain_text("2 of 3 left")
    assert page.locator(".box.used").count() == 1


def test_why_a_run_ended(staged: Place, visit: Callable[..., Any]) -> None:
    page = visit(staged, f"/page/run/{run_name('scout', 'enforce', 'nightly', 'run-2c01')}")
    callout = page.locator(".callout")
    expect(callout).to_contain_text("The guard ended this run.")
    expect(callout).to_contain_text("compaction_loop_persisted")
    expect(callout).to_contain_text("web_search was called 3 times")
    assert page.locator("button").count() == 0


def test_pause_and_resume_and_let_through(place: Place, visit: Callable[..., Any]) -> None:
    guard = place.guard()
    calls(guard, 6)
    page = visit(place, f"/page/run/{RUN}")
    page.click("text=Pause guard")
    expect(page.locator(".callout")).to_contain_text("The guard is paused")
    assert {verdict.action for verdict in calls(guard, 8, start=20)} == {"allow"}
    expect(page.locator("li.call").first).to_contain_text("not guarded")
    page.click("text=Resume guard")
    expect(page.locator("text=Pause guard")).to_be_visible()
    assert calls(guard, 1, start=40)[0].action == "block"
    page.click("button:has-text('Let through')")
    expect(page.locator("text=Guard again")).to_be_visible()
    assert calls(guard, 1, start=50)[0].action == "allow"
    expect(page.locator("li.call").first).to_contain_text("let through")
    page.click("text=Guard again")
    expect(page.locator("button", has_text="Let through")).to_be_visible()
    assert calls(guard, 6, start=60)[-1].action == "block"
    assert page.url.endswith(RUN)


def test_cancel_asks_first(
    staged: Place, visit: Callable[..., Any], trouble: list[str], accept: list[bool]
) -> None:
    page = visit(staged, f"/page/run/{SCENE_RUN}")
    page.click("text=Cancel run")  # the dialog is dismissed
    assert trouble == ["Cancel this run? The agent is stopped."]
    assert staged.cancelled == []
    trouble.clear()
    accept.append(True)
    page.click("text=Cancel run")
    wait_for(lambda: (page.wait_for_timeout(10), staged.cancelled)[1])
    assert staged.cancelled == ["run-7f3a"]
    Told(staged, "coder", "billing", "run-7f3a")(
        "ended", reason="cancelled", code=None, message="", answer=None
    )
    expect(page.locator(".callout")).to_contain_text("A person cancelled this run")
    trouble.clear()


def test_the_stream_resumes_after_a_restart(visit: Callable[..., Any], trouble: list[str]) -> None:
    place = Place()
    with place.served():
        calls(place.guard(), 1)
        page = visit(place)
        expect(page.locator("[data-label=calls]")).to_have_text("1")
    expect(page.locator("#live")).to_have_class("live off")
    calls(place.guard(), 3, start=5)
    with place.served():
        expect(page.locator("#live")).to_have_class("live on", timeout=60_000)
        expect(page.locator("[data-label=calls]")).to_have_text("4")
        calls(place.guard(), 1, start=10)
        expect(page.locator("[data-label=calls]")).to_have_text("5")
        page.context.close()
    allowed = ("Failed to load resource", "ERR_", "[object Event]")  # the server was away
    assert all(any(part in text for part in allowed) for text in trouble)
    trouble.clear()


def test_a_tab_that_nobody_sees_rests_and_catches_up(visit: Callable[..., Any]) -> None:
    place = Place()
    hide = """hidden => {
        Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    with place.served(beat=0.1) as stream:
        page = visit(place)
        calls(place.guard(), 1)
        expect(page.locator("[data-label=calls]")).to_have_text("1")
        page.evaluate(hide, True)
        wait_for(lambda: (page.wait_for_timeout(10), stream.readers == 0)[1])
        calls(place.guard(), 2, start=5)
        page.evaluate(hide, False)
        expect(page.locator("[data-label=calls]")).to_have_text("3")
        page.context.close()


def test_hostile_text_is_shown_as_text(place: Place, visit: Callable[..., Any]) -> None:
    guard = place.guard(EVIL)
    for text in HOSTILE.values():
        for number in range(7):
            call(guard, number, text, {text: text}, text, run=text, session=text)
    page = visit(place)
    names = rows(page)
    assert EVIL in names
    assert HOSTILE["quotes"] in names
    assert any("\\u{1b}[31mred" in name for name in names)
    for card in place.board.cards():
        page.goto(f"{place.url}/page/run/{card.name}")
        expect(page.locator("#live")).to_have_class("live on")
        assert page.locator("img, main script").count() == 0
        call(guard, 99, EVIL, {EVIL: EVIL}, EVIL, run=HOSTILE["html"], session=HOSTILE["html"])
    page.goto(f"{place.url}/?q=%3Cimg+src%3Dx&agent=%3Cscript%3E")
    assert page.locator("#search").input_value() == "<img src=x"


def test_the_policy_is_enforced(place: Place, visit: Callable[..., Any], trouble: list[str]) -> None:
    """The opposite of the test above: what would run if something slipped through does not."""
    page = visit(place)
    assert trouble == []
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=/x onerror=window.broken=1>')")
    page.evaluate("""() => {
        const made = document.createElement('script');
        made.textContent = 'window.broken = 1';
        document.body.append(made);
    }""")
    wait_for(lambda: (page.wait_for_timeout(10), "Content Security Policy" in "".join(trouble))[1])
    assert page.evaluate("window.broken") is None
    trouble.clear()


def test_filter_and_search_keep_the_address(staged: Place, visit: Callable[..., Any]) -> None:
    page = visit(staged)
    expect(page.locator("tr td.run > a")).to_have_count(8)
    page.fill("#search", "nightly")
    expect(page.locator("tr td.run > a")).to_have_count(2)
    page.select_option("[name=state]", "aborted")
    expect(page.locator("tr td.run > a")).to_have_count(1)
    expect(page.locator("tr td.run > a")).to_have_text("run-2c01")
    assert page.url == f"{staged.url}/?state=aborted&q=nightly"
    page.reload()
    assert rows(page) == ["run-2c01"]
    assert page.locator("#search").input_value() == "nightly"
    # what happens meanwhile does not bring back what was filtered out, and the text stays as it is typed
    expect(page.locator("#live")).to_have_class("live on")
    page.focus("#search")
    calls(staged.guard("watcher"), 1, start=50, run="run-watch", session="docs")
    expect(page.locator(".tiles dd").nth(2)).to_have_text("62")
    assert rows(page) == ["run-2c01"]
    assert page.evaluate("document.activeElement.id") == "search"
    page.click("tr td.run > a")
    page.wait_for_url("**/page/run/*")
    page.keyboard.press("u")
    page.wait_for_url("**/?state=aborted&q=nightly")


def test_keys(staged: Place, visit: Callable[..., Any]) -> None:
    page = visit(staged)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    names = rows(page)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.innerText") == names[1]
    outline = page.evaluate("getComputedStyle(document.activeElement.closest('tr')).outlineStyle")
    assert outline == "solid"
    # news do not take the focus away
    calls(staged.guard("watcher"), 1, start=50, run="run-watch", session="docs")
    expect(page.locator(".tiles dd").nth(2)).to_have_text("62")
    assert page.evaluate("document.activeElement.innerText") == names[1]
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("j/k")
    assert page.locator("#search").input_value() == "j/k"
    page.keyboard.press("Escape")
    page.fill("#search", "billing")
    expect(page.locator("tr td.run > a")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/page/run/{SCENE_RUN}")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.className") == "call"


def test_times_go_on_by_themselves(place: Place, visit: Callable[..., Any]) -> None:
    calls(place.guard(), 1)
    page = visit(place)
    page.clock.install()
    age = page.locator("td.age time")
    before = age.inner_text()
    page.reload()
    page.clock.fast_forward(3 * 3600 * 1000)
    expect(age).not_to_have_text(before)
    assert age.inner_text().startswith("3 h")


def test_who_is_not_known_gets_a_form(place: Place, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(place.url)
    page.fill("#token", "wrong")
    page.click("text=Open >> nth=-1")
    expect(page.locator(".callout")).to_contain_text("not the token")
    page.fill("#token", place.login.partition("=")[2])
    page.click("button")
    expect(page.locator("h1")).to_have_text("Runs")
    context.close()
