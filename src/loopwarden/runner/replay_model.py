"""`replay:TRANSCRIPT`: a recorded agent as a model, offline and without a key.

It asks for the recorded calls, turn by turn, whatever it is told: also after a refusal it goes on as
recorded. Its tools give the recorded results; nothing of a recording is ever executed. Where the history was
compacted, it says that its context is full, as a provider would. It spends no tokens, and says so: those of
the recording were for another history.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import MissingExtraError
from loopwarden.runner.recording import read_recording
from loopwarden.transcripts.shape import text_of

try:
    from pydantic_ai import ModelResponse, RunContext, TextPart, Tool, ToolCallPart, ToolReturn
    from pydantic_ai.exceptions import ModelHTTPError, ToolFailed
    from pydantic_ai.models import CompletedStreamedResponse, Model
except ImportError as error:
    raise MissingExtraError("pydantic-ai-slim", "runner") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings

    from loopwarden.events import Outcome
    from loopwarden.runner.recording import Recording, Turn

PREFIX: Final = "replay:"
"""How the name of such a model begins; the path of a file follows."""

_FULL: Final = 400
_ANYTHING: Final = {"type": "object", "additionalProperties": True}


class ReplayModel(Model):
    """Plays one recording once.

    Args:
        recording: What is played.

    Attributes:
        person: Called where a person wrote in the recording, before the results go back with which that was
            read; `None`: that is passed over.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.person: Callable[[], object] | None = None
        self._place = 0
        self._filled: set[int] = set()
        self._full = False
        self._has_tools = bool(recording.tools)

    @property
    def model_name(self) -> str:
        """Name of the file."""
        return f"{PREFIX}{self.recording.label}"

    @property
    def system(self) -> str:
        """Stands where the name of a provider does."""
        return "replay"

    @property
    def tools(self) -> list[Tool[Any]]:
        """The recorded tools, which give the recorded results."""

        async def answer(ctx: RunContext[Any], /, **_: Any) -> Any:
            return _recorded(self.recording.outcomes.get(ctx.tool_call_id or ""))

        said = "A recorded tool: it gives the recorded result, nothing is executed."
        return [
            Tool.from_schema(answer, name, said, _ANYTHING, takes_ctx=True) for name in self.recording.tools
        ]

    async def request(
        self,
        messages: list[ModelMessage],  # noqa: ARG002 - it plays whatever it is told
        model_settings: ModelSettings | None,  # noqa: ARG002 - it has none
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The next turn, or a word on what came before where no tools are offered.

        Raises:
            ModelHTTPError: The recorded context was full here.
        """
        if not model_request_parameters.function_tools and (self._has_tools or self._full):
            self._full = False
            return self._says(f"Summary: {self._place} turns of the recording were played.")
        self._full = False
        if self._place >= len(self.recording.turns):
            return self._says(self._last_words())
        turn = self.recording.turns[self._place]
        if turn.compacted and self._place not in self._filled:
            self._filled.add(self._place)
            self._full = True
            raise ModelHTTPError(_FULL, self.model_name, _full_body())
        self._place += 1
        later = self.recording.turns[self._place : self._place + 1]
        if any(turn.person for turn in later) and self.person is not None:
            self.person()
        return self._asks(turn)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,  # noqa: ARG002 - it needs none
    ) -> AsyncIterator[StreamedResponse]:
        """The same in one piece."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )

    def _asks(self, turn: Turn) -> ModelResponse:
        calls = [
            ToolCallPart(tool_name=call.tool, args=call.arguments, tool_call_id=call.id)
            for call in turn.calls
        ]
        return ModelResponse(parts=calls, model_name=self.model_name)

    def _says(self, text: str) -> ModelResponse:
        return ModelResponse(parts=[TextPart(text)], model_name=self.model_name)

    def _last_words(self) -> str:
        calls = sum(len(turn.calls) for turn in self.recording.turns)
        turns = len(self.recording.turns)
        beyond = "; the rest was left out" if self.recording.cut else ""
        return (
            f"This is the end of the recording: {calls} {'call' if calls == 1 else 'calls'} in"
            f" {turns} {'turn' if turns == 1 else 'turns'}{beyond}."
        )


def replay_model(path: str) -> ReplayModel:
    """The model for a recording.

    Args:
        path: The file, in any format that `loopwarden scan` knows; may begin with `replay:`.

    Raises:
        TranscriptError: It can't be read, or has no call in it.
    """
    return ReplayModel(read_recording(path.removeprefix(PREFIX)))


def _recorded(outcome: Outcome | None) -> Any:
    """What a tool gives back, and what the guard compares is exactly what was recorded."""
    if outcome is None:
        raise ToolFailed("the recording has no result of this call")
    if outcome.error is not None:
        failed = ToolFailed(outcome.error)
        if outcome.timed_out:
            failed.__context__ = TimeoutError()  # where the adapter looks for it
        raise failed
    result = outcome.result
    if isinstance(result, dict) and "content" in result:
        return ToolReturn(return_value=text_of(result["content"]), metadata=dict(result))
    return result


def _full_body() -> dict[str, Any]:
    message = "maximum context length: the recorded context was full here"
    return {"error": {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}}
