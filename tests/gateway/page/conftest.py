"""Places to look at, and a browser to look with."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.gateway.page.server import Place

CHROMIUM = os.environ.get("LOOPWARDEN_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    playwright.expect.set_options(timeout=30_000)  # milliseconds, on a machine that has much to do
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def place() -> Iterator[Place]:
    """Nothing has happened there; small thresholds."""
    from tests.gateway.page.server import Place

    place = Place(warningThreshold=3, criticalThreshold=5)
    with place.served():
        yield place


@pytest.fixture
def staged() -> Iterator[Place]:
    """The scene, at the default thresholds."""
    from tests.gateway.page.scene import scene
    from tests.gateway.page.server import Place

    place = Place()
    scene(place)
    with place.served():
        yield place


@pytest.fixture
def trouble() -> list[str]:
    """What the browser complained of; a test that expects something takes it out."""
    return []


@pytest.fixture
def accept() -> list[bool]:
    """Filled by a test that wants dialogs accepted."""
    return []


@pytest.fixture
def visit(browser: Any, trouble: list[str], accept: list[bool]) -> Iterator[Callable[..., Any]]:
    """Opens a page; by the end the browser complained of nothing, asked nobody else and showed no dialog."""
    from playwright.sync_api import expect

    contexts = []

    def answer(dialog: Any) -> None:
        trouble.append(dialog.message)
        if accept:
            dialog.accept()
        else:
            dialog.dismiss()

    def visit(place: Place, path: str = "/", *, live: bool = True, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", answer)
        page.on(
            "request", lambda asked: None if asked.url.startswith(place.url) else trouble.append(asked.url)
        )
        page.goto(place.login)
        if path != "/":
            page.goto(place.url + path)
        if live:
            expect(page.locator("#live")).to_have_class("live on")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert trouble == []
