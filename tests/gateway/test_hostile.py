"""What strangers send: it is refused or judged, and the gateway goes on."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

from tests.gateway.processes import PATIENCE, SMALL, GatewayProcess, before, problem, said, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import httpx2

BODY = b'{"tool":"read","call_id":"c"}'
MOST = 1_048_576


def request(gateway: GatewayProcess, body: bytes = BODY, *headers: str) -> bytes:
    """What is answered to a request with just these headers."""
    length = [] if any("chunked" in header for header in headers) else [f"Content-Length: {len(body)}"]
    lines = ["POST /v1/runs/h/before HTTP/1.1", *headers, *length, "", ""]
    return gateway.raw("\r\n".join(lines).encode("latin-1") + body)


def authorized(gateway: GatewayProcess) -> list[str]:
    return ["Host: localhost", f"Authorization: Bearer {gateway.token}"]


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_body_too_large_is_refused_before_it_is_sent(gateway: GatewayProcess) -> None:
    head = [*authorized(gateway), f"Content-Length: {MOST + 1}"]
    answer = gateway.raw("\r\n".join(["POST /v1/runs/h/before HTTP/1.1", *head, "", ""]).encode())
    assert status(answer) == 413


def test_body_without_length_is_counted(gateway: GatewayProcess) -> None:
    """Chunks without end: it does not wait for one."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        head = ["POST /v1/runs/h/before HTTP/1.1", *authorized(gateway), "Transfer-Encoding: chunked", "", ""]
        connection.sendall("\r\n".join(head).encode())
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        with suppress(ConnectionError):  # it hangs up
            for _ in range(17):
                connection.sendall(chunk)
        assert status(connection.recv(65536)) == 413


def test_body_as_large_as_allowed_is_read(client: httpx2.Client) -> None:
    head = b'{"tool":"read","call_id":"large","arguments":"'
    body = head + b"x" * (MOST - len(head) - 2) + b'"}'
    assert len(body) == MOST
    assert said(client.post("/v1/runs/h/before", content=body))["action"] == "allow"
    assert problem(client.post("/v1/runs/h/before", content=body + b" "), 413)["title"] == "Content Too Large"


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
def test_compressed_body_is_refused(client: httpx2.Client, encoding: str) -> None:
    answer = client.post("/v1/runs/h/before", content=BODY, headers={"content-encoding": encoding})
    assert problem(answer, 415)["title"] == "Unsupported Media Type"
    assert answer.headers["accept-encoding"] == "identity"
    plain = client.post("/v1/runs/h/before", content=BODY, headers={"content-encoding": "identity"})
    assert said(plain)["action"] == "allow"


def test_slow_body_does_not_keep_others(gateway: GatewayProcess, client: httpx2.Client) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        head = ["POST /v1/runs/h/before HTTP/1.1", *authorized(gateway), "Content-Length: 100", "", "{"]
        connection.sendall("\r\n".join(head).encode())
        for number in range(20):
            before(client, number, "beside-a-slow-one")


def nested(levels: int) -> bytes:
    return b'{"tool":"t","call_id":"deep","arguments":' + b"[" * levels + b"]" * levels + b"}"


def test_depth_is_bounded(client: httpx2.Client) -> None:
    assert said(client.post("/v1/runs/h/before", content=nested(249)))["action"] == "allow"
    for levels in (250, 1000, 5000, 400_000):
        found = problem(client.post("/v1/runs/h/before", content=nested(levels)), 400)
        assert len(found["detail"]) < 200


def test_many_small_containers_are_not_deep(client: httpx2.Client) -> None:
    arguments = [[{}]] * 50_000
    body = {"tool": "t", "call_id": "wide", "arguments": arguments}
    assert said(client.post("/v1/runs/h/before", json=body))["action"] == "allow"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null x",
        b"\xff\xfe",
        b'{"tool":"\xff","call_id":"c"}',
        b'{"tool":"\xed\xa0\x80","call_id":"c"}',
        b'{"tool":"t","call_id":"c","at":NaN}',
        b'{"tool":"t\\u0041","call_id":"c","at":NaN}',
        b'{"tool":"t","call_id":"c","arguments":[Infinity]}',
        b'{"tool":"t","call_id":"c","at":1e999}',
        b'{"tool":"t","call_id":"c","arguments":' + b"9" * 5000 + b"}",
        b'{"tool":"t","call_id":"c",}',
        b"\xef\xbb\xbf" + BODY,
        BODY.decode().encode("utf-16"),
    ],
)
def test_no_json(client: httpx2.Client, body: bytes) -> None:
    answer = client.post("/v1/runs/h/before", content=body)
    problem(answer, 422 if not body else 400)


def test_what_json_allows_is_judged(client: httpx2.Client) -> None:
    """Half of a surrogate pair, as JavaScript cuts it; keys that stand twice; large numbers."""
    bodies = [
        b'{"tool":"cut \\ud83d","call_id":"c\\udc00","arguments":{"\\ud800":["\\udfff"]}}',
        b'{"tool":"a","tool":"b","call_id":"c","call_id":"d"}',
        b'{"tool":"","call_id":"1","arguments":123456789012345678901234567890e200}',
    ]
    for number, body in enumerate(bodies):
        for _ in range(2):
            answer = client.post(f"/v1/runs/odd-{number}/before", content=body)
            assert said(answer)["action"] == "allow"
    assert said(client.post("/v1/runs/odd-1/before", content=bodies[1]))["tool"] == "b"


def test_loop_of_cut_texts_is_seen(client: httpx2.Client) -> None:
    strip = []
    for number in range(6):
        body = f'{{"tool":"t\\ud83d","call_id":"{number}","arguments":"\\ud83d"}}'.encode()
        strip.append(said(client.post("/v1/runs/cut/before", content=body))["action"])
        said(
            client.post("/v1/runs/cut/after", content=f'{{"call_id":"{number}","result":"\\ud83d"}}'.encode())
        )
    assert strip == ["allow"] * 3 + ["warn"] * 2 + ["block"]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer {short}",
    ],
)
def test_wrong_token(gateway: GatewayProcess, header: str) -> None:
    text = header.format(token=gateway.token, short=gateway.token[:-1])
    answer = request(gateway, BODY, "Host: localhost", f"Authorization: {text}")
    assert status(answer) == 401
    assert b"www-authenticate: Bearer" in answer
    assert gateway.token.encode() not in answer
    assert b"application/problem+json" in answer


def test_right_token_in_any_case(gateway: GatewayProcess) -> None:
    answer = request(gateway, BODY, "Host: localhost", f"authorization: bEARER {gateway.token}")
    assert status(answer) == 200


def test_no_token_no_look_at_anything(gateway: GatewayProcess) -> None:
    """Not even at what there is."""
    with gateway.client() as client:
        del client.headers["authorization"]
        for path in ("/v1/events", "/metrics", "/openapi.json", "/nothing"):
            problem(client.get(path), 401)
        assert client.get("/healthz").json()["ok"] is True


def test_token_in_the_query_is_none(gateway: GatewayProcess) -> None:
    with gateway.client() as client:
        del client.headers["authorization"]
        problem(client.post(f"/v1/runs/h/before?token={gateway.token}", content=BODY), 401)
        problem(client.post("/v1/runs/h/before", content=BODY, headers={"cookie": f"a={gateway.token}"}), 401)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "", "[::1", "::1x"])
def test_names_of_others(gateway: GatewayProcess, host: str) -> None:
    """A page whose name leads to this machine has the browser ask us, with its own name in `Host`."""
    assert status(request(gateway, BODY, f"Host: {host}", f"Authorization: Bearer {gateway.token}")) == (
        200 if host == "[::1" else 421
    )


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8377", "[::1]:8377", "[::1]"])
def test_own_names(gateway: GatewayProcess, host: str) -> None:
    assert status(request(gateway, BODY, f"Host: {host}", f"Authorization: Bearer {gateway.token}")) == 200


def test_two_hosts_are_none(gateway: GatewayProcess) -> None:
    assert status(request(gateway, BODY, "Host: localhost", *authorized(gateway))) in {400, 421}


def test_broken_http(gateway: GatewayProcess, client: httpx2.Client) -> None:
    for data in (b"\x00\x01\x02\r\n\r\n", b"POST /v1/events\r\n\r\n"):
        assert status(gateway.raw(data)) in {400, 421}
    smuggled = "\r\n".join(["POST /v1/events HTTP/1.1", *authorized(gateway), "Content-Length: x", "", ""])
    assert status(gateway.raw(smuggled.encode())) == 400
    before(client, 1, "after-broken-ones")


def test_nothing_of_a_client_gets_into_headers_or_lines(
    gateway: GatewayProcess, client: httpx2.Client
) -> None:
    for path in ("/%0d%0aSet-Cookie:x", "/v1/runs/%0d%0ax/nope", "/%1b[31m", "/nope?token=secret-query"):
        answer = client.get(path)
        problem(answer, 404)
        assert "set-cookie" not in answer.headers
    wait_until(lambda: any("status=404 path" in line or "/nope" in line for line in gateway.logged))
    text = "".join(gateway.logged)
    assert "\x1b" not in text
    assert "secret-query" not in text
    assert gateway.token not in text
    assert [line for line in gateway.logged if not line.startswith("20")] == []


def test_run_that_is_no_text_is_refused(client: httpx2.Client) -> None:
    for path in ("/v1/runs/%FE/before", "/v1/runs/%FF/events", "/v1/runs/a%ED%A0%80/forget", "/%FF"):
        assert "UTF-8" in problem(client.post(path, content=BODY), 400)["detail"]
    for name in ("%EF%BF%BD", "%C3%BE", "%F0%9F%98%80"):
        assert said(client.post(f"/v1/runs/{name}/before", content=BODY))["action"] == "allow"


def test_unknown_paths_and_methods(client: httpx2.Client) -> None:
    problem(client.get("/v1/runs/x/unknown"), 404)
    found = client.put("/v1/events")
    problem(found, 405)
    assert found.headers["allow"] == "POST"
    for answer in (found, client.get("/healthz"), client.post("/v1/runs/plain/forget")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in client.options("/v1/events").headers


def test_cookie_counts_for_pages_of_the_gateway_only(gateway: GatewayProcess) -> None:
    from loopwarden.gateway.token import Token

    token = Token(gateway.token, gateway.folder / "token")
    host = f"127.0.0.1:{gateway.port}"
    cookie = f"Cookie: other=1; {token.cookie_name}={token.cookie}"
    own, none, other = f"Origin: http://{host}", "X: y", "Origin: http://127.0.0.1:1"
    answers = [
        status(request(gateway, BODY, f"Host: {host}", cookie, origin)) for origin in (own, none, other)
    ]
    assert answers == [200, 200, 401]
    wrong = f"Cookie: {token.cookie_name}={token.cookie[::-1]}"
    assert status(request(gateway, BODY, f"Host: {host}", wrong, own)) == 401
    assert token.text not in token.cookie


def test_too_many_requests_and_too_many_events(tmp_path: Path) -> None:
    limits = {"requestsPerSecond": 5, "batchEvents": 2, "bodyBytes": 500}
    with (
        GatewayProcess(tmp_path / "state", {**SMALL, "gateway": {"limits": limits}}) as process,
        process.client() as client,
    ):
        event = {"event": "compacted", "event_id": "x"}
        assert len(said(client.post("/v1/events", json={"events": [event] * 2}))["verdicts"]) == 2
        assert (
            "batchEvents" in problem(client.post("/v1/events", json={"events": [event] * 3}), 413)["detail"]
        )
        assert "bodyBytes" in problem(client.post("/v1/events", content=b" " * 501), 413)["detail"]
        answers = [client.post("/v1/runs/r/forget") for _ in range(50)]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert refused
        problem(refused[0], 429)
        assert refused[0].headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200
        wait_until(lambda: client.get("/metrics").status_code == 200)


def test_requests_without_a_token_take_nothing_from_those_with_one(tmp_path: Path) -> None:
    config = {**SMALL, "gateway": {"limits": {"requestsPerSecond": 1}}}
    with GatewayProcess(tmp_path / "state", config) as process, process.client() as client:
        wrong = {"authorization": "Bearer wrong"}
        found = {client.get("/metrics", headers=wrong).status_code for _ in range(30)}
        assert found == {401, 429}
        assert client.get("/metrics").status_code == 200


def test_huge_errors_are_short(client: httpx2.Client) -> None:
    answer = client.post("/v1/runs/h/before", json={f"k{number}": 1 for number in range(10_000)})
    found = problem(answer, 422)
    assert len(found["errors"]) <= 20
    assert len(answer.content) < 20_000
    answer = client.post("/v1/events", json={"events": [{"event": "x" * 100_000}] * 5})
    problem(answer, 422)
    assert "xxx" not in answer.text
    answer = client.post("/v1/runs/h/before", content=json.dumps({"k" * 100_000: "secret"}))
    assert "secret" not in answer.text
    assert len(answer.content) < 20_000
