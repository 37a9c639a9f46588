"""The JavaScript client in Node.js, against a real gateway and against servers that fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

import loopwarden
from loopwarden import LoopGuard
from tests.gateway.processes import PATIENCE, SMALL, GatewayProcess, wait_until
from tests.guards import actions, calls
from tests.remote.servers import LOOP, Answer, Server, http, verdict

if TYPE_CHECKING:
    import socket

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")

CLIENT = Path(loopwarden.__file__).parent / "gateway" / "client" / "loopwarden.mjs"
HEAD = """
const {{ GatewayError, LoopAborted, LoopGuard }} = await import({client});
const told = [];
const guard = new LoopGuard({{ url: {url}, log: (text) => told.push(text), ...{options} }});
const say = (value) => console.log(JSON.stringify(value ?? null));
const letters = {{ allow: ".", warn: "w", block: "B", abort: "X" }};
async function loop(guard, count, end = {{ result: "same" }}) {{
  let strip = "";
  for (let number = 0; number < count; number += 1) {{
    const callId = `c${{number}}`;
    const {{ action }} = await guard.before("read", {{ path: "a" }}, {{ callId }});
    strip += letters[action];
    if (action === "allow" || action === "warn") await guard.after(callId, end);
  }}
  return strip;
}}
"""


def started(url: str, script: str, variable: str, **options: Any) -> subprocess.Popen[str]:
    assert NODE is not None
    options = {"timeout": 1000 * PATIENCE, **options}  # the machine may be slow
    words = {"client": CLIENT.as_uri(), "url": url, "options": options}
    head = HEAD.format(**{name: json.dumps(value) for name, value in words.items()})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOOPWARDEN_")}
    return subprocess.Popen(
        [NODE, "--input-type=module", "-e", head + script],
        env={**environment, "LOOPWARDEN_TOKEN": variable},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(url: str, script: str, variable: str = "t" * 40, **options: Any) -> list[Any]:
    """What the script said, line by line."""
    with started(url, script, variable, **options) as process:
        said, wrong = process.communicate(timeout=PATIENCE)
    assert (process.returncode, wrong) == (0, "")
    return [json.loads(line) for line in said.splitlines()]


def asked(gateway: GatewayProcess, script: str, **options: Any) -> list[Any]:
    return ran(gateway.address, script, gateway.token, **{"onError": "raise", **options})


def test_a_loop_is_warned_refused_and_ended(gateway: GatewayProcess) -> None:
    script = """
    say(await loop(guard, 11));
    say(await guard.before("read", {}, { callId: "x" }));
    await guard.forget();
    """
    strip, verdict = asked(gateway, script, run="js")
    assert strip == "...wwBBBBXX"
    assert verdict["error"] == "tool_loop_persisted"
    assert set(verdict) == set(LOOP)


def test_runs_and_sessions_are_apart_and_a_run_goes_on(gateway: GatewayProcess) -> None:
    script = """
    say(await loop(guard, 5));
    say(await loop(guard.within({ session: "other" }), 4));
    const next = guard.within({ run: "js-next" });
    await next.compacted({ continues: "js-old" });
    say(await loop(next, 2));
    await guard.userMessage(); await guard.retract(["c1"]);
    say(await loop(guard, 3));
    """
    assert asked(gateway, script, run="js-old") == ["...ww", "...w", "BB", "..."]


def test_the_same_run_from_javascript_and_from_python(gateway: GatewayProcess) -> None:
    assert asked(gateway, "say(await loop(guard, 4));", run="both") == ["...w"]
    guard = LoopGuard(store=f"http://:{gateway.token}@127.0.0.1:{gateway.port}", on_error="raise")
    assert actions(calls(guard, 2, run_id="both")) == ["warn", "block"]
    guard.close()


def test_guarded_functions(gateway: GatewayProcess) -> None:
    script = """
    const look = guard.guarded("look", async ({ path }) => `nothing in ${path}`);
    const texts = [];
    for (let number = 0; number < 7; number += 1) texts.push(await look({ path: "a" }));
    say(texts);
    const count = guard.within({ run: "js-count" }).guarded("count", () => ({ n: 1 }));
    const counts = [];  // a host may have no id: null is none
    for (const ids of [{}, { callId: null }, undefined, { turnId: null }]) counts.push(await count({}, ids));
    say(counts);
    try { for (;;) await look({ path: "a" }); } catch (error) {
      say([error instanceof LoopAborted, error.name, error.verdict.action, error.message]);
    }
    const fails = guard.within({ run: "js-fails" }).guarded("fails", () => { throw new TypeError("no"); });
    try { await fails({}); } catch (error) { say([error.name, error.message]); }
    """
    texts, counts, aborted, failed = asked(gateway, script, run="js-guarded")
    assert texts[0] == "nothing in a"
    assert texts[3].startswith("nothing in a\n\n")
    assert "refused" in texts[5]
    assert counts[0] == {"n": 1}
    assert "loop_warning" in counts[3]
    assert aborted[:3] == [True, "LoopAborted", "abort"]
    assert failed == ["TypeError", "no"]


ODD = """
const ring = { n: 1 }; ring.self = ring;
const values = [
  undefined, null, NaN, Infinity, 5n, 6n, new Map([[1, 2]]), new Map([[1, 3]]), new Set([1]), new Set([2]),
  new Error("a"), new Error("b"), /a/, /b/, () => 1, Symbol("x"), ring, { n: 1, self: { n: 1 } },
  "\\ud800", "\\ud801", new Uint8Array([1]), new Uint8Array([2]).buffer, new Date(0), "x".repeat(1e6),
  "x".repeat(1e6) + "y", "x".repeat(1e6 - 1) + "z", { deep: [NaN] }, { deep: [null] },
];
for (const [number, value] of values.entries()) {
  const callId = `odd${number}`;
  const verdict = await guard.before("look", { value }, { callId });
  if (verdict.action !== "allow" || verdict.detector) say([number, verdict.detector]);
  await guard.after(callId, { result: value });
}
const shared = { a: 1 };
say(await guard.before("look", { one: shared, two: shared }, { callId: "shared" }));
"""


def test_what_json_would_lose_stays_unlike(gateway: GatewayProcess) -> None:
    (last,) = asked(gateway, ODD, run="js-odd")
    assert last["action"] == "allow"
    with Server(verdict()) as server:
        ran(server.url, ODD, onError="raise")
        sent = [json.dumps(event["arguments"]) for event in server.events if event["event"] == "before"]
    assert len(set(sent)) == len(sent)
    assert json.loads(sent[-1]) == {"one": {"a": 1}, "two": {"a": 1}}


LONG = """
const nest = (levels, inside) => levels ? [nest(levels - 1, inside)] : inside;
const rows = (last) => [...Array(1e5).keys(), last];
const halves = "a\\ud800";
async function same(guard, tool, args, id, result) {
  let strip = "";
  for (let number = 0; number < 6; number += 1) {
    const callId = id + number;
    const { action } = await guard.before(tool, args(number), { callId, turnId: "t" + callId });
    strip += letters[action];
    if (action === "allow" || action === "warn") await guard.after(callId, { result: result(number) });
  }
  await guard.forget();
  return strip;
}
const session = "s".repeat(5000);
const run = (last) => guard.within({ run: "r".repeat(1001) + last, session, agent: halves });
const id = "c".repeat(1500), tool = "t".repeat(10001);
"""


def test_ids_names_and_values_beyond_what_the_gateway_takes(gateway: GatewayProcess) -> None:
    script = """
    say(await same(run("a"), tool, () => nest(400, 1), id, () => nest(400, 1)));
    say(await same(run("a"), halves, () => rows(1), halves, () => rows(1)));
    say(await same(guard.within({ run: "" }), "", () => "x".repeat(1e7), "", () => new Error(halves)));
    say(told);
    """
    assert asked(gateway, LONG + script) == ["...wwB", "...wwB", "...wwB", []]


def test_beyond_it_unlike_ones_are_told_apart(gateway: GatewayProcess) -> None:
    script = """
    say(await same(run("a"), tool, (number) => nest(400, number), id, () => 1));
    say(await same(run("a"), tool, () => 1, id, (number) => nest(400, number)));
    say(await same(run("a"), tool, (number) => rows(number), id, () => 1));
    say([await loop(run("a"), 3), await loop(run("b"), 3), await loop(run("a"), 3)]);
    say(told);
    """
    new_results = "...www"  # the calls are the same, and never refused
    assert asked(gateway, LONG + script) == ["......", new_results, "......", ["...", "...", "wwB"], []]


def test_a_large_result_keeps_its_shape() -> None:
    script = """
    const shared = Array(30).fill().reduce((below) => [below, below], 1);
    await guard.after("c", { result: { isError: true, rows: rows(1), shared, $loopwarden: 1 } });
    await guard.after("c", { result: { isError: true, rows: rows(1), shared } });
    """
    with Server(verdict()) as server:
        ran(server.url, LONG + script)
        marked, kept = (event["result"] for event in server.events)
    assert list(marked) == ["$loopwarden"]
    assert kept["isError"] is True
    assert list(kept["rows"]) == ["$loopwarden"]
    assert len(json.dumps(kept["rows"])) < 1000
    assert len(json.dumps(kept["shared"])) < 262_144  # of a thousand million parts


BROKEN = """
const broken = () => { throw new Error("broken"); };
const { proxy, revoke } = Proxy.revocable({}, {}); revoke();
for (const value of [{ toJSON: broken }, { get x() { return broken(); } }, proxy, { deep: [proxy] }]) {
  say(await same(guard, "odd", () => value, "c", () => value));
}
const silent = Object.create(null);
say((await guard.after(silent, { error: silent })).action);
"""


def test_values_that_cannot_be_read_are_no_fault_of_the_gateway(gateway: GatewayProcess) -> None:
    assert asked(gateway, LONG + BROKEN + "say(told);", run="js-broken") == [*["...wwB"] * 4, "allow", []]


def flood(connection: socket.socket) -> bool:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"{" * 65_536)


def test_an_endless_answer_is_not_read_to_its_end() -> None:
    with Server(flood) as server:
        strip, told = ran(server.url, "say(await loop(guard, 1)); say(told);")
    assert strip == "."
    assert "calls are let through until it is back" in told[0]


def test_a_long_answer_is_read() -> None:
    body = json.dumps({"verdicts": [LOOP], "more": "x" * 1_000_000}).encode()
    with Server(http(200, body)) as server:
        assert ran(server.url, "say(await loop(guard, 1)); say(told);") == ["B", []]


def trickle(connection: socket.socket) -> bool:
    connection.sendall(b"HTTP/1.1 200 x\r\ncontent-length: 10\r\n\r\n ")
    return bool(connection.recv(1))


FAULTS: dict[str, Answer] = {
    "500": http(500, b""),
    "401": http(401, b""),
    "no JSON": http(200, b"hello"),
    "no verdict": http(200, b"{}"),
    "null": http(200, b"null"),
    "HTML": http(200, b"<!doctype html>"),
    "null of an error": http(502, b"null"),
    "no answer": http(204, b""),
    "redirect": http(302, b"", "location: /\r\n"),
    "closed": None,
    "trickle": trickle,
}


@pytest.mark.parametrize("answer", FAULTS.values(), ids=FAULTS)
def test_a_gateway_that_fails_lets_calls_through_or_raises(answer: Answer) -> None:
    script = """
    say([await loop(guard, 3), told]);
    const raises = guard.within({ onError: "raise" });
    try { await raises.userMessage(); } catch (error) { say([error instanceof GatewayError, error.name]); }
    raises.health.until = 0;
    try { await raises.userMessage(); } catch (error) { say([error.name, error.message]); }
    """
    with Server(answer) as server:
        (strip, told), raised, again = ran(server.url, script, timeout=300)
    assert strip == "..."
    assert len(told) == 1
    assert "calls are let through until it is back" in told[0]
    assert raised == [True, "GatewayError"]
    assert again[0] == "GatewayError"
    assert f"{server.url}/v1/events" in again[1]


def test_a_connection_that_is_lost_is_made_again_and_the_event_is_the_same() -> None:
    with Server(verdict(), None, verdict(**LOOP)) as server:
        strip, told = ran(server.url, "say(await loop(guard.within({ run: 'r' }), 2)); say(told);")
        first, second, again, last = server.events
    assert (strip, told) == (".B", [])
    assert second == again
    assert len({event["event_id"] for event in (first, second, last)}) == 3


def test_a_question_that_is_not_taken_leaves_the_others_alone_and_is_told_once() -> None:
    refusal = http(413, b'{"detail": "too \\u001b large"}')
    script = """
    say([await loop(guard, 2), told]);
    const raises = guard.within({ onError: "raise" });
    try { await raises.forget(); } catch (error) { say([error.name, error.status]); }
    """
    with Server(refusal, refusal, verdict(**LOOP), refusal) as server:
        (strip, told), raised = ran(server.url, script)
    assert strip == ".B"
    assert len(told) == 1
    assert "answers 413" in told[0]
    assert "\x1b" not in told[0]
    assert raised == ["GatewayError", 413]


def test_a_log_that_fails_does_not_break_the_agent() -> None:
    script = """
    const log = () => { throw new Error("log"); };
    say(await loop(new LoopGuard({ ...guard.options, log }), 2));
    """
    with Server(http(500, b"")) as server:
        assert ran(server.url, script) == [".."]


def test_the_token_of_the_address_the_variable_and_the_options() -> None:
    with Server(verdict()) as server:
        ran(f"http://:se%2Dcret@127.0.0.1:{server.port}", "await guard.forget();")
        ran(server.url, "await guard.within({}).forget();", "x" * 40)
        ran(server.url, "await guard.forget();", token="given")  # noqa: S106 - of a server of ours
        tokens = [line for head in server.heads for line in head.lower().splitlines() if "bearer" in line]
    assert [line.split()[-1] for line in tokens] == ["se-cret", "x" * 40, "given"]


def test_a_token_that_can_be_none_is_not_sent_and_not_told() -> None:
    with Server(verdict()) as server:
        script = "await guard.within({}).forget(); say(told);"
        (told,) = ran(server.url, script, "secret\nX-More: 1")
        assert server.heads == []
    assert "letters that no token has" in told[0]
    assert "secret" not in told[0]


def test_a_gateway_that_is_killed_in_the_middle_and_started_again(tmp_path: Path) -> None:
    script = """
    const { createInterface } = await import("node:readline");
    for await (const line of createInterface({ input: process.stdin })) {
      say([await loop(guard.within({ run: line }), 6), told]);
    }
    """
    with GatewayProcess(tmp_path / "state", SMALL) as first:
        port = first.port
        process = started(first.address, script, first.token)

        def turn(run: str) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{run}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        with process:
            assert turn("one") == ["...wwB", []]
            first.process.kill()
            first.wait()
            strip, told = turn("two")
            assert strip == "......"
            assert len(told) == 1
            with GatewayProcess(tmp_path / "state", SMALL, "--port", str(port)):
                wait_until(lambda: turn("three")[0].endswith("B"))
                assert turn("four") == ["...wwB", [*told, "loopwarden: the gateway is back"]]
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
