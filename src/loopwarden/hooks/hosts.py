"""What each coding agent sends to a hook and what it takes as an answer: one table.

The names are those of the hosts' own documentation and programs. A host that rejects an answer lets the tool
run, so nothing is ever said that stands in no row here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind: TypeAlias = Literal["before", "after", "failed", "batch", "prompt", "compacted", "request", "ended"]
"""What an event means.

`before` and `after` a call; `failed` is an `after` with an error; `batch` is the end of all calls of one
reply; `prompt` a message of the user; `compacted` says that the history was compacted; `request` is one to
the model, whose history tells it where no event does; `ended` ends the session.
"""

Dialect: TypeAlias = Literal[
    "claude", "codex", "gemini", "qwen", "kimi", "copilot", "cursor", "hermes", "plugin"
]
"""How a host wants to be answered; `answers` has a function for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where in an event things stand: names of top-level fields, the first one that is there counts.

    Attributes:
        event: Name of the event.
        session: The session.
        run: One answer to one message of the user; none: the session's calls are one run, which a
            message of the user starts afresh.
        agent: The sub-agent; it is a run of its own.
        turn: The reply that a call was asked for in; none: calls that overlap are taken for calls of one.
        project: The folder that the agent works in.
        tool: The tool's name.
        arguments: The tool's arguments; text is read as JSON.
        call: The call's id; none: calls are paired by tool and arguments, first in, first out.
        result: What the tool gave.
        encoded: Whether that is JSON as text.
        read: Where in a result that is an object stands what the model reads; the rest is for people.
        error: What went wrong.
        calls: The calls of a batch.
        prompt: What the user says.
        made_by: In the result of a call, the sub-agent that it started.
        messages: The messages that the model is asked with, by a path of fields.
        summary: The reply that the host puts after the summary of a compacted history, and what ends the
            part of the summary's message that is no summary.
    """

    event: tuple[str, ...] = ("hook_event_name",)
    session: tuple[str, ...] = ("session_id",)
    run: tuple[str, ...] = ()
    agent: tuple[str, ...] = ("agent_id",)
    turn: tuple[str, ...] = ()
    project: tuple[str, ...] = ("cwd",)
    tool: tuple[str, ...] = ("tool_name",)
    arguments: tuple[str, ...] = ("tool_input",)
    call: tuple[str, ...] = ("tool_use_id",)
    result: tuple[str, ...] = ("tool_response",)
    encoded: bool = False
    read: tuple[str, ...] = ()
    error: tuple[str, ...] = ("error",)
    calls: str = "tool_calls"
    prompt: tuple[str, ...] = ("prompt",)
    made_by: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    summary: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookHost:
    """One coding agent.

    Attributes:
        name: As in `loopwarden install NAME`.
        title: As people write it.
        dialect: How it is answered.
        events: Its events by name, with their meaning. Events that are not named are answered with nothing.
        fields: Where things stand in them.
        aborts: Events whose answer can end the run; elsewhere every further call is refused.
        asks: Whether a hook can have the person decide.
        warns: Events whose answer can carry a note to the model, the best first.
        tells: Events whose answer can carry words for the person while nothing is refused.
        unknown_tools: Whether calls of tools that don't exist are seen, and where.
        says_missing: What the result of such a call says; none: one of a few phrases.
        says_failed: How a text in a batch begins if the call could not be made.
        notice: How a prompt begins that the host writes itself, when work in the background has ended. The
            run goes on, whatever run the host names.
        attended: The variable, and its value, by which the host tells hooks that a person is there.
        timeout_unit: What a hook's timeout is counted in, in the host's settings.
        cut: The characters of a result that events have; `None`: all of them.
        tested: What it was tested on: the real `program`, or `payloads` as they are documented.
    """

    name: str
    title: str
    dialect: Dialect
    events: Mapping[str, Kind]
    fields: Fields = field(default_factory=Fields)
    aborts: frozenset[Kind] = frozenset()
    asks: bool = False
    warns: tuple[Kind, ...] = ()
    tells: frozenset[Kind] = frozenset()
    unknown_tools: Literal["batch", "call", "no"] = "no"
    says_missing: str | None = None
    says_failed: str | None = None
    notice: str | None = None
    attended: tuple[str, str] | None = None
    timeout_unit: Literal["s", "ms"] = "s"
    cut: int | None = None
    tested: Literal["program", "payloads"] = "payloads"


_CLAUDE_EVENTS: Final[dict[str, Kind]] = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PostToolUseFailure": "failed",
    "PostToolBatch": "batch",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}

_PLUGIN_EVENTS: Final[dict[str, Kind]] = {
    "before": "before",
    "after": "after",
    "failed": "failed",
    "compacted": "compacted",
    "ended": "ended",
}
"""What the project's own plug-ins send."""

_ROWS: Final = (
    HookHost(
        name="claude-code",
        title="Claude Code",
        dialect="claude",
        events={**_CLAUDE_EVENTS, "UserPromptSubmit": "prompt"},
        fields=Fields(run=("prompt_id",), made_by=("agentId",)),
        aborts=frozenset({"before", "after", "batch"}),
        asks=True,
        attended=("CLAUDE_CODE_ENTRYPOINT", "cli"),
        tells=frozenset({"before"}),
        warns=("after", "failed", "batch", "before"),
        unknown_tools="batch",
        says_missing="Error: No such tool available: {tool}",
        says_failed="<tool_use_error>",
        notice="<task-notification>",
        tested="program",
    ),
    HookHost(
        name="codex",
        title="Codex CLI",
        dialect="codex",
        events={"PreToolUse": "before", "PostToolUse": "after", "PostCompact": "compacted"},
        fields=Fields(run=("turn_id",)),
        tells=frozenset({"before"}),
        warns=("after", "before"),
        tested="program",
    ),
    HookHost(
        name="gemini",
        title="Gemini CLI",
        dialect="gemini",
        events={
            "BeforeTool": "before",
            "AfterTool": "after",
            "BeforeAgent": "prompt",
            "BeforeModel": "request",
            "SessionEnd": "ended",
        },
        fields=Fields(
            call=(),
            agent=(),
            read=("llmContent",),
            messages=("llm_request", "messages"),
            summary=("Got it. Thanks for the additional context!", "</session_context>"),
        ),
        aborts=frozenset({"before", "after"}),
        tells=frozenset({"before"}),
        warns=("after",),
        timeout_unit="ms",
        tested="program",
    ),
    HookHost(
        name="qwen",
        title="Qwen Code",
        dialect="qwen",
        events={**_CLAUDE_EVENTS, "UserPromptSubmit": "request"},
        fields=Fields(run=("prompt_id",), call=("tool_call_id", "tool_use_id"), read=("llmContent",)),
        aborts=frozenset({"request"}),
        tells=frozenset({"before"}),
        warns=("after", "failed", "batch", "before"),
        unknown_tools="batch",
        timeout_unit="ms",
        tested="program",
    ),
    HookHost(
        name="kimi",
        title="Kimi Code",
        dialect="kimi",
        events={
            "PreToolUse": "before",
            "PostToolUse": "after",
            "PostToolUseFailure": "failed",
            "UserPromptSubmit": "prompt",
            "PostCompact": "compacted",
        },
        fields=Fields(agent=(), call=("tool_call_id",), result=("tool_output",)),
        cut=2000,
    ),
    HookHost(
        name="copilot",
        title="GitHub Copilot CLI",
        dialect="copilot",
        events={
            "preToolUse": "before",
            "postToolUse": "after",
            "postToolUseFailure": "failed",
            "userPromptSubmitted": "prompt",
            "preCompact": "compacted",
            "PreToolUse": "before",
            "PostToolUse": "after",
            "PostToolUseFailure": "failed",
            "UserPromptSubmit": "prompt",
            "PreCompact": "compacted",
        },
        fields=Fields(
            session=("session_id", "sessionId"),
            agent=(),
            tool=("tool_name", "toolName"),
            arguments=("tool_input", "toolArgs"),
            call=(),
            result=("tool_result", "toolResult"),
        ),
        asks=True,
        warns=("failed",),
    ),
    HookHost(
        name="cursor",
        title="Cursor",
        dialect="cursor",
        events={
            "preToolUse": "before",
            "postToolUse": "after",
            "postToolUseFailure": "failed",
            "preCompact": "compacted",
        },
        fields=Fields(
            session=("conversation_id", "session_id"),
            run=("generation_id",),
            agent=(),
            result=("tool_output",),
            encoded=True,
            error=("error_message",),
        ),
        tells=frozenset({"compacted"}),
        warns=("after",),
    ),
    HookHost(
        name="hermes",
        title="Hermes",
        dialect="hermes",
        events={"pre_tool_call": "before", "post_tool_call": "after"},
        fields=Fields(
            run=("turn_id",),
            agent=("task_id",),
            call=("tool_call_id",),
            result=("result",),
            error=("error_message",),
        ),
    ),
    HookHost(
        name="opencode",
        title="opencode",
        dialect="plugin",
        events=_PLUGIN_EVENTS,
        fields=Fields(run=("run_id",), turn=("turn_id",)),
        aborts=frozenset({"before", "after", "failed", "compacted"}),
        tells=frozenset({"before"}),
        warns=("after", "failed"),
        unknown_tools="call",
        tested="program",
    ),
    HookHost(
        name="openclaw",
        title="OpenClaw",
        dialect="plugin",
        events=_PLUGIN_EVENTS,
        fields=Fields(run=("run_id",), agent=(), turn=("turn_id",)),
        aborts=frozenset({"before", "after", "failed", "compacted"}),
        asks=True,
        tells=frozenset({"before"}),
        warns=("after", "failed"),
        tested="program",
    ),
)

HOSTS: Final[Mapping[str, HookHost]] = {row.name: row for row in _ROWS}
"""All hosts, by name."""
