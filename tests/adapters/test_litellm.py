"""The LiteLLM proxy: the contract, with a small agent behind the real proxy, over all three APIs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

pytest.importorskip("litellm")

import httpx
import litellm

from loopwarden import LoopAborted, LoopGuard, Verdict
from loopwarden.adapters import Abilities
from loopwarden.adapters import litellm as adapter
from tests.adapters.contract import Contract, Ran, Script
from tests.adapters.litellm_scripts import FORMATS, KEY, Provider, config, data_of, proxy, serving

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@pytest.fixture(params=[f"{form}{way}" for form in FORMATS for way in ("", "-stream")])
def host(request: pytest.FixtureRequest, behind: Behind) -> Agent:
    form, _, way = request.param.partition("-")
    return Agent(FORMATS[form], bool(way), behind)


class TestLiteLLM(Contract):
    """Over chat completions, Anthropic's messages and Responses, streamed and not."""
