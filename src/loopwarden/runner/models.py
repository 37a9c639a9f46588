"""The model of an agent: what its configuration names, as a model of Pydantic AI.

With `baseUrl` any server that speaks the OpenAI chat API; else a model string of Pydantic AI, as
`anthropic:claude-sonnet-4-5`, or `replay:FILE`, which plays a recorded agent. The provider's client makes no
retries where it can be told so: the engine makes them, and says so.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import ConfigError, ConfigProblem, MissingExtraError
from loopwarden.runner.replay_model import PREFIX, replay_model

try:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import CompletedStreamedResponse, Model, infer_model
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.providers import infer_provider, infer_provider_class
    from pydantic_ai.settings import ModelSettings
except ImportError as error:
    raise MissingExtraError("pydantic-ai-slim", "runner") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from loopwarden.config.runtime import ListedAgent

_CHAT: Final = ("openai:", "openai-chat:")
_RESPONSES: Final = "openai-responses:"

_NO_KEY: Final = "none"
"""Servers of one's own want no key, but the client wants to send one."""


def model_of(agent: ListedAgent) -> Model:
    """The model that an agent is run with.

    Raises:
        ConfigError: There is none, the provider is not known, its package is not installed, or the variable
            with the key is not set; the text says what to do.
        TranscriptError: The recording of `replay:FILE` can't be read.
    """
    if agent.model is None:
        raise _wrong(agent, "model", "the agent has no model; give one, as `openai:gpt-5`")
    if agent.model == PREFIX:
        raise _wrong(agent, "model", f"{PREFIX} needs the file of a recording, as `{PREFIX}run.jsonl`")
    if agent.model.startswith(PREFIX):
        return replay_model(agent.model)
    key = None
    if agent.api_key_env is not None:
        key = os.environ.get(agent.api_key_env)
        if not key:
            raise _wrong(agent, "apiKeyEnv", f"the variable {agent.api_key_env} is not set")
    try:
        if agent.base_url is not None:
            model = _compatible(agent.model, agent.base_url, key)
        else:
            model = infer_model(agent.model, lambda name: _provider(name, key))
    except (UserError, ValueError) as error:  # an unknown provider or model, a missing key
        hint = "" if ":" in agent.model else "; a name is `provider:model`, or one at a `baseUrl`"
        raise _wrong(agent, "model", f"{agent.model}: {error}{hint}") from error
    except ImportError as error:  # the text names the package to install
        raise _wrong(agent, "model", str(error)) from error
    client: Any = getattr(model, "client", None)
    if isinstance(getattr(client, "max_retries", None), int):
        client.max_retries = 0
    return model


def streaming(model: Model) -> Model:
    """The model, able to stream: one that is not gives its reply in one piece."""
    own = type(model).request_stream is not Model.request_stream
    if own and getattr(model, "stream_function", model) is not None:
        return model
    return _Whole(model)


def settings_of(agent: ListedAgent) -> ModelSettings | None:
    """Settings of the model's requests; providers without thinking levels leave theirs out."""
    if agent.thinking is None:
        return None
    return ModelSettings(thinking=False if agent.thinking == "off" else agent.thinking)


class _Whole(WrapperModel):
    """A model that can't stream, asked for a stream."""

    @asynccontextmanager
    async def request_stream(
        self,
        messages: Any,
        model_settings: Any,
        model_request_parameters: Any,
        run_context: Any = None,  # noqa: ARG002 - the host passes it
    ) -> AsyncIterator[Any]:
        """The whole reply as one stream."""
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )


def _compatible(name: str, base_url: str, key: str | None) -> Model:
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from loopwarden.runner.compatible import CompatibleModel

    provider = OpenAIProvider(base_url=base_url, api_key=key or os.environ.get("OPENAI_API_KEY") or _NO_KEY)
    if name.startswith(_RESPONSES):
        return OpenAIResponsesModel(name.removeprefix(_RESPONSES), provider=provider)
    for prefix in _CHAT:
        name = name.removeprefix(prefix)
    return CompatibleModel(name, provider=provider)


def _provider(name: str, key: str | None) -> Any:
    if key is None:
        return infer_provider(name)
    kind: Any = infer_provider_class(name)
    try:
        return kind(api_key=key)
    except TypeError as error:
        raise UserError(f"the provider {name} takes no API key; leave out apiKeyEnv") from error


def _wrong(agent: ListedAgent, name: str, message: str) -> ConfigError:
    return ConfigError((ConfigProblem(path=f"agents.list[{agent.id}].{name}", message=message),))
