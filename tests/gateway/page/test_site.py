"""The page over HTTP: who may see it, what it says to a browser, what is escaped, what its forms do."""

from __future__ import annotations

import http.client
import re
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="the extra `gateway` is not installed")
pytest.importorskip("uvicorn", reason="the extra `gateway` is not installed")

from loopwarden.gateway.names import run_name
from loopwarden.gateway.page.choosing import Choice, state_of
from loopwarden.gateway.page.shell import ASSETS, asset
from tests.gateway.page.scene import EVIL, HOSTILE, Told, scene
from tests.gateway.page.server import TOKEN, Place, call, calls

RUN = run_name(None, "enforce", "s", "r")


class Visitor:
    """A browser without scripts."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.cookie = ""

    def ask(
        self, path: str, form: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            sent.setdefault("Cookie", self.cookie)
        body = urlencode(form) if form is not None else None
        connection.request("GET" if form is None else "POST", path, body, sent)
        response = connection.getresponse()
        text = response.read().decode()
        given = {name.lower(): value for name, value in response.headers.items()}
        connection.close()
        return response.status, given, text

    def enter(self) -> Visitor:
        status, headers, _ = self.ask(f"/?token={TOKEN}")
        assert (status, headers["location"]) == (303, "/")
        self.cookie = headers["set-cookie"].partition(";")[0]
        return self

    def csrf(self, name: str = RUN) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.ask(f"/page/run/{name}")[2])
        assert found
        return found[1]


@pytest.fixture
def visitor(place: Place) -> Visitor:
    return Visitor(place).enter()


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(place: Place) -> None:
    visitor = Visitor(place)
    status, headers, text = visitor.ask(f"/?token={TOKEN}&state=aborted&q=a%22b")
    assert status == 303
    assert headers["location"] == "/?state=aborted&q=a%22b"
    assert TOKEN not in text + str(headers)
    cookie = headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "secure" not in cookie.lower()  # plain HTTP on loopback
    visitor.cookie = cookie.partition(";")[0]
    assert visitor.ask("/")[0] == 200


@pytest.mark.parametrize("path", ["/", "/events", "/page/runs", f"/page/run/{RUN}", f"/page/run/{RUN}/live"])
def test_nothing_is_shown_to_others(place: Place, path: str) -> None:
    calls(place.guard(), 3)
    for headers in ({}, {"Cookie": "loopwarden-x=1"}, {"Authorization": "Bearer wrong"}):
        status, _, text = Visitor(place).ask(path, **headers)
        assert status == 401
        assert "Who are you?" in text
        assert "data-item" not in text
        assert "a.txt" not in text


def test_a_wrong_token_does_not_open(place: Place) -> None:
    for token in ("", "wrong", TOKEN + "x", "ä", "%ff"):
        status, headers, text = Visitor(place).ask(f"/?{urlencode({'token': token})}")
        assert (status, "set-cookie" in headers) == (401, False)
        assert "not the token" in text
    assert Visitor(place).ask("/page/login", {"token": "wrong"})[0] == 401


def test_the_token_can_be_pasted_or_sent_as_bearer(place: Place) -> None:
    status, headers, _ = Visitor(place).ask("/page/login", {"token": f" {TOKEN} "})
    assert (status, headers["location"]) == (303, "/")
    assert "set-cookie" in headers
    assert Visitor(place).ask("/page/runs", Authorization=f"Bearer {TOKEN}")[0] == 200


def test_a_cookie_outlives_a_restart() -> None:
    place = Place()
    with place.served():
        visitor = Visitor(place).enter()
    with place.served():
        assert visitor.ask("/")[0] == 200


def test_every_answer_has_a_strict_policy(place: Place, visitor: Visitor) -> None:
    calls(place.guard(), 3)
    for path in (
        "/",
        "/page/runs",
        f"/page/run/{RUN}",
        "/page/run/nothing",
        "/page/assets/page.js",
        "/page/assets/no",
    ):
        _, headers, _ = visitor.ask(path)
        policy = headers["content-security-policy"]
        assert policy.startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
        )
        assert {"base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    _, headers, _ = Visitor(place).ask("/")
    assert "content-security-policy" in headers
    assert headers["cache-control"] == "no-store"


def test_nothing_on_a_page_is_inline(place: Place, visitor: Visitor) -> None:
    scene(place)
    for path in ("/", *(f"/page/run/{card.name}" for card in place.board.cards())):
        text = visitor.ask(path)[2]
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=\"|javascript:", text)


def test_assets_are_complete_and_may_be_kept(visitor: Visitor) -> None:
    text = visitor.ask("/")[2]
    linked = re.findall(r'(?:src|href)="(/page/assets/([^"?]+)[^"]*)"', text)
    assert {name for _, name in linked} == set(ASSETS)
    for path, name in linked:
        status, headers, _ = visitor.ask(path)
        assert status == 200
        assert ("immutable" in headers["cache-control"]) == ("?v=" in path)
        assert headers["content-type"] == ASSETS[name]
    assert visitor.ask("/page/assets/..%2fsite.py")[0] == 404
    for name in ("htmx.min.js", "htmx-sse.min.js", "idiomorph-ext.min.js"):
        assert name in asset("LICENSES.txt").decode()


def test_hostile_text_is_text(place: Place, visitor: Visitor) -> None:
    guard = place.guard("<i>agent</i>")
    for number, text in enumerate(HOSTILE.values()):
        for _ in range(7):
            call(guard, number, text, {text: text}, "same", run=text, session=text)
    shown = visitor.ask("/")[2] + "".join(
        visitor.ask(f"/page/run/{card.name}")[2] for card in place.board.cards()
    )
    assert "&lt;img src=x" in shown
    assert "<img" not in shown
    assert "<i>agent" not in shown
    assert EVIL not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\u{202e}" in shown
    assert "\\u{d83d}" in shown
    assert "{7*7}" in shown
    assert '" onmouseover' not in shown


def test_search_and_filter(staged: Place) -> None:
    visitor = Visitor(staged).enter()

    def shown(query: str) -> set[str]:
        return set(re.findall(r"data-item><bdi>([^<]*)</bdi>", visitor.ask(f"/page/runs{query}")[2]))

    assert len(shown("")) == 8
    assert shown("?q=BILLING") == {"run-7f3a"}
    assert shown("?q=fetch_log") == {"checkout-bot/91"}
    assert shown("?q=post_compaction") == {"run-2c01"}
    assert shown("?agent=scout") == {"run-2c01", "run-1b90"}
    assert shown("?agent=scout&state=aborted") == {"run-2c01"}
    assert shown("?state=over") == {"run-2c01", "run-1b90", "done-1"}
    assert shown("?state=trouble") == {"run-7f3a", "run-2c01", "checkout-bot/91"}
    assert shown("?state=nonsense&page=-1") == shown("")
    assert "No run is like this" in visitor.ask("/?q=nothing%20like%20it")[2]
    _, headers, _ = visitor.ask("/page/runs?q=a%26b&state=over", HX_Request="true", HX_Trigger="filter")
    assert headers["hx-replace-url"] == "/?state=over&q=a%26b"
    page = visitor.ask("/?q=a%22%3Eb&state=over")[2]
    assert 'value="a&quot;&gt;b"' in page
    assert '<option value="over" selected>' in page


def test_many_runs_have_pages(place: Place, visitor: Visitor) -> None:
    for number in range(120):
        calls(place.guard(), 1, run=f"run {number}")
    first, last = visitor.ask("/")[2], visitor.ask("/?page=3")[2]
    assert first.count("data-item") == 50
    assert last.count("data-item") == 20
    assert 'rel="next" href="/?page=2"' in first
    assert "page 3 of 3" in last


def test_a_long_run_has_pages(place: Place, visitor: Visitor) -> None:
    guard = place.guard()
    for number in range(400):
        call(guard, number, "read", {"n": number}, number)
    page = visitor.ask(f"/page/run/{RUN}")[2]
    assert page.count('<li class="call"') == 60
    older = re.search(r'href="(/page/run/[0-9a-f]+\?before=\d+)"', page)
    assert older
    assert 'id="call-340"' in visitor.ask(older[1])[2]
    assert "100 older calls are not kept" in visitor.ask(f"/page/run/{RUN}?before=150")[2]


def test_pause_resume_release_and_hold_do_what_they_say(place: Place, visitor: Visitor) -> None:
    guard = place.guard()
    assert calls(guard, 6)[-1].action == "block"
    csrf = visitor.csrf()

    def do(deed: str, **fields: str) -> None:
        status, headers, _ = visitor.ask(f"/page/run/{RUN}/{deed}", {"csrf": csrf, **fields})
        assert (status, headers["location"]) == (303, f"/page/run/{RUN}")

    do("pause")
    assert {verdict.action for verdict in calls(guard, 9, start=10)} == {"allow"}
    assert "The guard is paused" in visitor.ask(f"/page/run/{RUN}")[2]
    assert "Resume guard" in visitor.ask(f"/page/run/{RUN}")[2]
    do("resume")
    assert calls(guard, 1, start=30)[0].action == "block"
    card = place.board.card(RUN)
    assert card is not None
    (loop,) = card.loops
    do("release", loop=loop)
    assert calls(guard, 1, start=40)[0].action == "allow"
    assert "let through by a person" in visitor.ask(f"/page/run/{RUN}")[2]
    do("hold", loop=loop)
    assert calls(guard, 6, start=50)[-1].action == "block"


ABORTS = {"warningThreshold": 3, "criticalThreshold": 5, "onCritical": "abort"}


def test_a_run_that_was_ended_is_shown_as_let_through_at_once() -> None:
    place = Place(**ABORTS)
    guard = place.guard()
    calls(guard, 7)
    with place.served():
        visitor = Visitor(place).enter()
        csrf, address = visitor.csrf(), f"/page/run/{RUN}"
        card = place.board.card(RUN)
        assert card is not None
        (loop,) = card.loops
        assert "ended by guard" in visitor.ask(address)[2]
        visitor.ask(f"{address}/release", {"csrf": csrf, "loop": loop})
        page = visitor.ask(address)[2]
        assert "ended by guard" not in page
        assert "Let through by a person." in page
        assert "ended by guard" not in visitor.ask("/page/runs")[2]
        visitor.ask(f"{address}/hold", {"csrf": csrf, "loop": loop})  # no call came since
        page = visitor.ask(address)[2]
        assert "ended by guard" in page
        assert "Let through by a person." not in page
        assert calls(guard, 1, start=20)[0].action == "abort"
        visitor.ask(f"{address}/release", {"csrf": csrf, "loop": loop})
        assert calls(guard, 1, start=30)[0].action == "allow"
        page = visitor.ask(address)[2]
        assert "ended by guard" not in page
        assert "Let through by a person." not in page


def test_a_run_that_was_ended_for_another_loop_stays_ended() -> None:
    place = Place(**ABORTS)
    guard = place.guard()
    for number in range(4):
        call(guard, number, "look", {})
    calls(guard, 7, start=10)
    with place.served():
        visitor = Visitor(place).enter()
        card = place.board.card(RUN)
        assert card is not None
        other, _ = card.loops
        visitor.ask(f"/page/run/{RUN}/release", {"csrf": visitor.csrf(), "loop": other})
        assert "ended by guard" in visitor.ask(f"/page/run/{RUN}")[2]
    assert calls(guard, 1, start=30)[0].action == "abort"


def test_only_runs_of_the_runner_can_be_cancelled(place: Place, visitor: Visitor) -> None:
    scene(place)
    calls(place.guard(), 1)
    mine = run_name("coder", "enforce", "billing", "run-7f3a")
    csrf = visitor.csrf()
    assert visitor.ask(f"/page/run/{mine}/cancel", {"csrf": csrf})[0] == 303
    assert place.cancelled == ["run-7f3a"]
    place.can_cancel = False
    assert visitor.ask(f"/page/run/{mine}/cancel", {"csrf": csrf})[0] == 409
    assert visitor.ask(f"/page/run/{RUN}/cancel", {"csrf": csrf})[0] == 409
    assert "Cancel run" not in visitor.ask(f"/page/run/{RUN}")[2]
    assert place.cancelled == ["run-7f3a", "run-7f3a"]


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"csrf": ""}, {}),
        ({"csrf": "wrong"}, {}),
        ({}, {"Sec_Fetch_Site": "cross-site"}),
        ({}, {"Sec_Fetch_Site": "same-site"}),
        ({}, {"Origin": "http://evil.example"}),
        ({"filler": "x" * 5000}, {}),
    ],
)
def test_forms_of_others_do_nothing(
    place: Place, visitor: Visitor, fields: dict[str, str], headers: dict[str, str]
) -> None:
    calls(place.guard(), 1)
    form = {"csrf": visitor.csrf(), **fields}
    assert visitor.ask(f"/page/run/{RUN}/pause", form, **headers)[0] == 403
    assert not place.decisions.is_paused(RUN)
    assert visitor.ask(f"/page/run/{RUN}/pause", Sec_Fetch_Site="same-origin")[0] == 405
    own = {"Sec_Fetch_Site": "same-origin", "Origin": place.url}
    assert visitor.ask(f"/page/run/{RUN}/pause", {"csrf": visitor.csrf()}, **own)[0] == 303
    assert place.decisions.is_paused(RUN)


def test_runs_beside_a_run_are_named(staged: Place) -> None:
    Told(staged, "scout", "below", "run-child")("began", trigger="spawn", task="x", parent="run-7f3a")
    visitor = Visitor(staged).enter()
    parent = visitor.ask(f"/page/run/{run_name('coder', 'enforce', 'billing', 'run-7f3a')}")[2]
    assert re.search(r"<h2>Spawned</h2>.*<bdi>run-child</bdi>", parent)
    assert "Same session" not in parent
    beat = visitor.ask(f"/page/run/{run_name('scout', 'enforce', 'nightly', 'run-2c01')}")[2]
    assert re.search(r"<h2>Same session</h2>.*<bdi>run-1b90</bdi>", beat)
    child = visitor.ask(f"/page/run/{run_name('scout', 'enforce', 'below', 'run-child')}")[2]
    assert 'href="/?q=run-7f3a"' in child


def test_what_is_not_there_is_said(place: Place, visitor: Visitor) -> None:
    calls(place.guard(), 1)
    csrf = visitor.csrf()
    assert visitor.ask("/page/run/0000000000000000")[0] == 404
    assert "Unknown run" in visitor.ask("/page/run/0000000000000000/live")[2]
    assert visitor.ask("/page/run/0000000000000000/pause", {"csrf": csrf})[0] == 404
    for deed in ("nonsense", "release", "hold"):
        assert visitor.ask(f"/page/run/{RUN}/{deed}", {"csrf": csrf, "loop": "x"})[0] == 409


def test_a_run_under_a_new_id_is_found_by_its_old_address(place: Place, visitor: Visitor) -> None:
    guard = place.guard()
    calls(guard, 2)
    guard.session("s").compacted(run_id="r2", continues="r")
    new = run_name(None, "enforce", "s", "r2")
    status, headers, _ = visitor.ask(f"/page/run/{RUN}")
    assert (status, headers["location"]) == (303, f"/page/run/{new}")
    assert visitor.ask(f"/page/run/{RUN}/live")[1]["hx-redirect"] == f"/page/run/{new}"


def test_an_empty_board_says_what_to_do_first(place: Place, visitor: Visitor) -> None:
    text = visitor.ask("/")[2]
    assert f"curl {place.url}/v1/runs/my-run/before" in text
    assert "$(cat state/token)" in text
    assert f"store=&quot;{place.url}&quot;" in text
    assert TOKEN not in text


def test_arguments_are_not_shown_where_they_should_not_be() -> None:
    place = Place(show_arguments=False)
    with place.served():
        visitor = Visitor(place).enter()
        call(place.guard(), 1, "read", {"path": "very-private"}, "x")
        text = visitor.ask(f"/page/run/{RUN}")[2]
    assert "very-private" not in text
    assert "gateway.showArguments" in text


def test_choices_survive_whatever_stands_in_an_address() -> None:
    for query in (
        {"page": "9" * 5000},
        {"page": "²"},
        {"q": "\ud83d"},
        {"state": "\0"},
        {"agent": "x" * 10_000},
    ):
        choice = Choice.of(query)
        assert len(choice.query()) < 2000
    assert Choice.of({}).is_all


def test_a_run_that_nothing_is_heard_of_is_quiet() -> None:
    place = Place()
    calls(place.guard(), 1)
    (card,) = place.board.cards()
    assert state_of(card, place.decisions, card.seen + 60) == "running"
    assert state_of(card, place.decisions, card.seen + 601) == "quiet"
    place.decisions.pause(card.name)
    assert state_of(card, place.decisions, card.seen) == "paused"
