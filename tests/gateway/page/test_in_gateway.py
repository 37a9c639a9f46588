"""The page in a real gateway: a process of its own, clients over HTTP beside a browser without scripts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

import httpx2

from loopwarden.gateway.names import run_name
from tests.gateway.processes import SMALL, GatewayProcess, entered, loop, problem

if TYPE_CHECKING:
    from pathlib import Path


def test_what_clients_tell_is_shown_and_people_overrule_the_guard(
    gateway: GatewayProcess, client: httpx2.Client
) -> None:
    with entered(gateway) as visitor:
        assert loop(client, range(6), "shown", agent="bot", session="s") == "...wwB"
        text = visitor.get("/?q=shown").text
        name = run_name("bot", "enforce", "s", "shown")
        assert f'href="/page/run/{name}"' in text
        page = visitor.get(f"/page/run/{name}").text
        assert "generic_repeat" in page
        csrf = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
        released = re.search(r'name="loop" value="([0-9a-f]+)"', page)
        assert csrf
        assert released
        form = {"csrf": csrf[1]}
        assert visitor.post(f"/page/run/{name}/pause", data=form).status_code == 303
        assert loop(client, range(10, 20), "shown", agent="bot", session="s") == "." * 10
        # runs of the same name of another agent or in another mode are others
        assert loop(client, range(6), "shown", agent="other", session="s") == "...wwB"
        assert visitor.post(f"/page/run/{name}/resume", data=form).status_code == 303
        assert loop(client, range(30, 31), "shown", agent="bot", session="s") == "B"
        form["loop"] = released[1]
        assert visitor.post(f"/page/run/{name}/release", data=form).status_code == 303
        assert loop(client, range(40, 44), "shown", agent="bot", session="s") == "...w"


def test_who_may_see_what(gateway: GatewayProcess) -> None:
    with httpx2.Client(base_url=gateway.address, timeout=60) as stranger:
        for path in ("/", "/events", "/page/runs", "/page/run/0000000000000000"):
            answer = stranger.get(path)
            assert answer.status_code == 401
            assert "Who are you?" in answer.text
        assert stranger.get("/page/assets/page.css").status_code == 200
        problem(stranger.get("/v1/runs/x"), 401)
        problem(stranger.get("/page"), 401)
        assert "set-cookie" not in stranger.get("/", params={"token": "wrong"}).headers


def test_the_token_stands_in_no_log_and_on_no_page(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL, "--verbose") as process:
        with entered(process) as visitor:
            shown = visitor.get("/").text
        assert process.stop() == 0
        assert process.token not in shown + "".join(process.said + process.logged)
        assert "path=/ " in "".join(process.logged)


def test_an_open_page_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with (
        GatewayProcess(tmp_path / "state", SMALL) as process,
        entered(process) as visitor,
        visitor.stream("GET", "/events") as events,
    ):
        lines = events.iter_lines()
        assert next(lines).startswith("retry")
        assert process.stop() == 0
        assert [line for line in lines if line.startswith("event")] == []
        assert "Cancel" not in "".join(process.logged)  # as uvicorn says where it had to wait in vain


def test_a_cookie_is_good_for_the_next_gateway_on_the_folder(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path / "state", SMALL) as process, entered(process) as visitor:
        cookies = dict(visitor.cookies)
        assert process.stop() == 0
    with GatewayProcess(tmp_path / "state", SMALL) as process:
        assert httpx2.get(process.address, cookies=cookies, timeout=60).status_code == 200


@pytest.mark.browser
def test_a_browser_follows_what_a_client_tells(tmp_path: Path, browser: Any) -> None:
    from playwright.sync_api import expect

    with GatewayProcess(tmp_path / "state", SMALL) as process, process.client() as client:
        context, trouble = browser.new_context(), []
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(f"{process.address}/?token={process.token}")
        expect(page.locator("#live")).to_have_class("live on")
        expect(page.locator(".empty pre").first).to_contain_text(f"{process.address}/v1/runs/my-run/before")
        loop(client, range(6), "from-http", agent="bot")
        expect(page.locator("tbody [data-label=refused]")).to_have_text("1")
        page.click("tr td.run > a")
        expect(page.locator("li.call")).to_have_count(6)
        page.click("text=Pause guard")
        expect(page.locator(".callout")).to_contain_text("The guard is paused")
        assert loop(client, range(10, 13), "from-http", agent="bot") == "..."
        expect(page.locator("li.call")).to_have_count(9)
        assert trouble == []
        context.close()
