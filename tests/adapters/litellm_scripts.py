"""A proxy in this process, the scripted provider behind it, and an agent in front of it."""

from __future__ import annotations

import json
import os
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import httpx
import litellm
import pytest

from loopwarden import LoopAborted, LoopGuard, Verdict
from loopwarden.adapters import Abilities
from loopwarden.adapters import litellm as adapter
from tests.adapters.contract import Ask, Ran, Script
from tests.adapters.litellm_wire import FORMATS, Item, data_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

KEY = "sk-a-key-that-only-this-test-knows-0001"


@dataclass(slots=True)
class Provider:
    """What is behind the proxy: gives one scripted reply a request, and writes down what it was sent.

    Attributes:
        replies: A reply is the calls it asks for; after the last one it says "done".
        words: Said before the calls.
        last: Said after the last reply.
        failures: How many requests fail before the first reply.
        bodies: What was sent, by path and body.
    """

    replies: list[list[Ask]] = field(default_factory=list)
    words: str | None = None
    last: str = "done"
    failures: int = 0
    bodies: list[tuple[str, Item]] = field(default_factory=list)

    def script(
        self, replies: list[list[Ask]], words: str | None = None, *, last: str = "done", failures: int = 0
    ) -> None:
        self.replies, self.words, self.last, self.failures = list(replies), words, last, failures
        self.bodies.clear()

    def told(self, ran: Ran) -> None:
        """Write into `ran` what the model was shown."""
        ran.requests = len(self.bodies)
        for path, body in self.bodies:
            form = next(form for form in FORMATS.values() if path.endswith(form.path))
            history = body[form.field]
            for call_id, text in form.shown(history) if isinstance(history, list) else ():
                seen = ran.answers.setdefault(call_id, [])
                seen += [text] if text not in seen else []

    def reply(self, path: str, body: Item) -> tuple[int, str, bytes]:
        if self.failures:
            self.failures -= 1
            return 500, "application/json", b'{"error": {"message": "out of order", "type": "server_error"}}'
        self.bodies.append((path, body))
        form = next(form for form in FORMATS.values() if path.endswith(form.path))
        asks = self.replies.pop(0) if self.replies else []
        words = self.words if asks else self.last
        if body.get("stream"):
            return 200, "text/event-stream", form.stream(asks, words)
        return 200, "application/json", json.dumps(form.body(asks, words)).encode()


def serving(provider: Provider) -> ThreadingHTTPServer:
    """A provider on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, kind, answer = provider.reply(self.path, body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def config(folder: Path, port: int, callbacks: str | None = None) -> Path:
    """The proxy's `config.yaml`, as JSON, which is YAML too."""
    base = f"http://127.0.0.1:{port}"
    openai = {"model": "openai/m", "api_base": f"{base}/v1", "api_key": "k"}
    anthropic = {"model": "anthropic/m", "api_base": base, "api_key": "k"}
    settings: Item = {
        "model_list": [
            {"model_name": "chat", "litellm_params": openai},
            {"model_name": "claude", "litellm_params": anthropic},
        ],
        "general_settings": {"master_key": KEY},
        "router_settings": {"num_retries": 1, "retry_after": 0},
    }
    if callbacks is not None:
        settings["litellm_settings"] = {"callbacks": callbacks}
    path = folder / "config.yaml"
    path.write_text(json.dumps(settings))
    return path


def proxy(path: Path) -> Iterator[str]:
    """The address of the real proxy, in a thread of this process."""
    os.environ["CONFIG_FILE_PATH"] = str(path)
    import uvicorn
    from litellm.proxy.proxy_server import app

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    started = threading.Event()
    while not server.started and thread.is_alive():
        started.wait(0.05)
    assert server.started
    del os.environ["CONFIG_FILE_PATH"]
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


@dataclass(frozen=True, slots=True)
class Behind:
    """The proxy, and the provider behind it."""

    address: str
    provider: Provider


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    provider = Provider()
    server = serving(provider)
    for address in proxy(config(tmp_path_factory.mktemp("proxy"), server.server_port)):
        yield Behind(address, provider)
    server.shutdown()


@dataclass(slots=True)
class Agent:
    """A loop as people write it, that knows nothing of the guard."""

    form: Any
    streams: bool
    behind: Behind
    abilities: ClassVar[Abilities] = adapter.ABILITIES
    errors_are_text: ClassVar[bool] = True
    survives_errors: ClassVar[bool] = True
    survives_unknown_tools: ClassVar[bool] = True

    def ask(self, history: list[Any], tools: list[str], **more: Any) -> httpx.Response:
        body = {
            "model": self.form.model,
            self.form.field: history,
            "tools": self.form.tools(tools),
            "stream": self.streams,
            "max_tokens": 100,
            **more,
        }
        headers = {"authorization": f"Bearer {KEY}"}
        return httpx.post(self.behind.address + self.form.path, json=body, headers=headers, timeout=30)

    def reply(self, response: httpx.Response) -> list[dict[str, Any]]:
        """What the assistant says, as it stands in the history; a failure is raised."""
        if response.status_code != 200:
            raise Refused(response.json()["error"])
        if self.streams:
            last = [each for each in data_of(response.text) if "error" in each or "response" in each][-1:]
            error = next((each.get("error") or each["response"].get("error") for each in last), None)
            if error:
                raise Refused(error)
        return self.form.assembled(response.text) if self.streams else self.form.read(response.json())

    def run(self, guard: LoopGuard | None, script: Script) -> Ran:
        litellm.callbacks = [adapter.LoopGuardCallback(guard)] if guard is not None else []
        provider = self.behind.provider
        provider.script(script.replies)
        ran = Ran()
        history: list[Any] = [self.form.person("hello")]
        while ran.text is None:
            if len(provider.bodies) == script.compact_before:
                history = [self.form.person("what was so far"), *history[-2:]]
            try:
                reply = self.reply(self.ask(history, list(script.tools)))
            except Refused as error:
                answer = self.ask(history, list(script.tools))  # whoever tries again gets the whole answer
                ran.raised, ran.aborted = error, signal(answer)
                break
            history += reply
            answers = [
                self.form.answer(call_id, outcome(script, name, arguments))
                for call_id, name, arguments in self.form.asked(reply)
            ]
            history += self.form.joined(answers) if answers else []
            ran.text = None if answers else self.form.text(reply)
        provider.told(ran)
        return ran


class Refused(Exception):  # noqa: N818 - what the proxy answered
    """The proxy refused a request."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


def signal(answer: httpx.Response) -> LoopAborted:
    assert answer.status_code == 422
    told = answer.json()["error"]["provider_specific_fields"]
    return LoopAborted(Verdict(action="abort", error=told["code"], message=told["error"]))


def outcome(script: Script, name: str, arguments: str) -> str:
    if name not in script.tools:
        return f"there is no tool {name}"
    try:
        return script.tools[name](**json.loads(arguments))
    except Exception as error:  # noqa: BLE001 - a loop hands it to the model
        return f"{type(error).__name__}: {error}"


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def wait_for(agent: Agent, process: subprocess.Popen[bytes]) -> None:
    """Until the proxy answers."""
    pause = threading.Event()
    while process.poll() is None:
        try:
            if httpx.get(f"{agent.behind.address}/health/liveliness").status_code == 200:
                return
        except httpx.TransportError:
            pause.wait(0.2)
    raise AssertionError("the proxy ended")
