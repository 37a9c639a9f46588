"""`sessions_send` and `sessions_spawn`: other sessions, and agents that do a task on their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from pydantic_ai import Tool, ToolReturn

from loopwarden.runner.tools.arguments import RETRIES, Arguments
from loopwarden.runner.tools.shapes import TEXT, refused, shaped

if TYPE_CHECKING:
    from loopwarden.runner.tools.bench import Bench, Send, Spawn


class SendArguments(Arguments):
    """Arguments of `sessions_send`."""

    session_key: Annotated[str, Field(min_length=1, max_length=200, description="Id of the session.")]
    message: Annotated[str, Field(min_length=1, max_length=100_000, description="What to tell it.")]


class SpawnArguments(Arguments):
    """Arguments of `sessions_spawn`."""

    task: Annotated[
        str, Field(min_length=1, max_length=100_000, description="All that the sub-agent has to know.")
    ]
    agent_id: Annotated[
        str | None, Field(max_length=200, description="Which agent; unset: one like you.")
    ] = None


def send_tool(bench: Bench, send: Send) -> Tool[Any]:
    """The tool `sessions_send`."""

    async def run(arguments: SendArguments) -> ToolReturn[str]:
        if arguments.session_key == bench.session:
            return refused("that is this session", sessionKey=arguments.session_key)
        try:
            run_id = await send(arguments.session_key, arguments.message)
        except Exception as error:  # noqa: BLE001 - what the host can't do is a result
            return refused(f"not sent: {_said(error)}", sessionKey=arguments.session_key)
        return shaped(
            f"Sent; run {run_id} of session {arguments.session_key} reads it.",
            {"status": "accepted", "sessionKey": arguments.session_key, "runId": run_id},
        )

    description = "Send a message to another session. It is read there; the answer does not come back here."
    return Tool(run, takes_ctx=False, name="sessions_send", description=description, max_retries=RETRIES)


def spawn_tool(bench: Bench, spawn: Spawn) -> Tool[Any]:
    """The tool `sessions_spawn`; waits for the sub-agent's end, and is cancelled with it."""

    async def run(arguments: SpawnArguments) -> ToolReturn[str]:
        return await _spawn(bench, spawn, arguments)

    description = (
        "Have a sub-agent do a task on its own, in a session of its own, and get its answer. "
        "It knows only what the task says."
    )
    return Tool(run, takes_ctx=False, name="sessions_spawn", description=description, max_retries=RETRIES)


async def _spawn(bench: Bench, spawn: Spawn, arguments: SpawnArguments) -> ToolReturn[str]:
    bounds = bench.agent.subagents
    agent_id = bench.agent.id if arguments.agent_id is None else arguments.agent_id
    if bench.depth >= bounds.max_depth:
        return refused(f"no sub-agent: {bounds.max_depth} below each other are the most", agentId=agent_id)
    if bench.children >= bounds.max_children:
        return refused(f"no sub-agent: this run has had {bounds.max_children}, the most", agentId=agent_id)
    bench.children += 1
    try:
        ended = await spawn(agent_id, arguments.task)
    except Exception as error:  # noqa: BLE001 - what the host can't do is a result
        return refused(f"no sub-agent: {_said(error)}", agentId=agent_id)
    done = ended.reason == "done"
    answer = (ended.answer if done else ended.message or ended.answer) or "(no answer)"
    answer = answer if len(answer) <= TEXT else f"{answer[:TEXT]}\n[... cut ...]"
    said = answer if done else f"The sub-agent did not finish ({ended.reason}): {answer}"
    return shaped(
        f"{said}\n[agent {agent_id}, session {ended.session}, run {ended.run}]",
        {"status": ended.reason, "agentId": agent_id},
        failed=not done,
        compared=said,
    )


def _said(error: Exception) -> str:
    return str(error)[:1000] or type(error).__name__
