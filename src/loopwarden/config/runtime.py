"""What the runner and the gateway read beside the blocks of the guard: agents, and the service itself.

Stands in the same file: `agents.defaults`, `agents.list[]` (or `agents.entries`) and `gateway`. It is read
only where an agent is run or the gateway started, so that a file of another program stays usable for the
guard alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationError

from loopwarden.config.agent_values import (
    check_base_url,
    check_cron,
    check_file,
    check_folder,
    check_webhook,
    inside,
)
from loopwarden.config.problems import MOST, problems_of
from loopwarden.config.schema import Block, Name
from loopwarden.config.wording import dotted, line_of, shown
from loopwarden.errors import ConfigError, ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopwarden.config.document import Path
    from loopwarden.config.resolved import Config

Thinking: TypeAlias = Literal["off", "minimal", "low", "medium", "high"]
ToolName: TypeAlias = Literal[
    "exec",
    "process",
    "command_status",
    "read",
    "write",
    "edit",
    "message",
    "sessions_send",
    "sessions_spawn",
]
Decision: TypeAlias = Literal["allow", "deny", "ask"]

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])")


def seconds_of(duration: str) -> int:
    """Seconds of a duration as it is written: `30s`, `15m`, `2h`, `1d`.

    Raises:
        ValueError: It is none.
    """
    found = _DURATION.fullmatch(duration)
    if found is None or int(found[1]) == 0:
        raise ValueError("allowed: a number and one of s, m, h, d, as `30m`")
    return int(found[1]) * _UNITS[found[2]]


def _check_duration(duration: str) -> str:
    seconds_of(duration)
    return duration


Duration: TypeAlias = Annotated[str, AfterValidator(_check_duration)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]
Cron: TypeAlias = Annotated[Name, AfterValidator(check_cron)]
BaseUrl: TypeAlias = Annotated[Name, AfterValidator(check_base_url)]
Webhook: TypeAlias = Annotated[Name, AfterValidator(check_webhook)]
ChannelFile: TypeAlias = Annotated[Name, AfterValidator(check_file)]
Folder: TypeAlias = Annotated[Name, AfterValidator(check_folder)]


class ExecBlock(Block):
    """What the tool `exec` may do. Decided before the guard is asked."""

    policy: Decision = Field(
        default="ask", description="What holds where no pattern does. ask: refused where nobody is there."
    )
    allow: list[Name] = Field(default=[], max_length=200, description="Globs over the command: allowed.")
    deny: list[Name] = Field(default=[], max_length=200, description="Globs: refused; before all others.")
    ask: list[Name] = Field(default=[], max_length=200, description="Globs: a person is asked; before allow.")
    timeout_seconds: Positive = Field(default=120, description="A foreground command is ended after this.")
    yield_seconds: Positive = Field(
        default=10, description="A command still running then goes on in the background."
    )
    environment: list[Name] = Field(
        default=[], max_length=100, description="Variables handed on besides PATH, HOME, LANG and the like."
    )


class ChannelBlock(Block):
    """Where the tool `message` sends to and reads from."""

    type: Literal["terminal", "file", "webhook"] = Field(description="What stands behind the channel.")
    path: ChannelFile | None = Field(default=None, description="file: inside the workspace.")
    url: Webhook | None = Field(
        default=None, description="webhook: on loopback; `http://localhost...` or a loopback address."
    )


class ToolsBlock(Block):
    """The tools of an agent."""

    allow: list[ToolName] | None = Field(default=None, description="Only these; unset: all.")
    deny: list[ToolName] = Field(default=[], max_length=20, description="Not these.")
    exec: ExecBlock = Field(default_factory=ExecBlock, description="Rules for commands.")
    channels: dict[Name, ChannelBlock] = Field(
        default={}, max_length=50, description="Channels by name; `terminal` is always there."
    )
    loop_detection: Any = Field(default=None, description="The guard's block; checked on its own.")


class HeartbeatBlock(Block):
    """A run that begins by itself. A moment that was missed is not made up for."""

    every: Duration | None = Field(default=None, description="Interval, as `30m`.")
    cron: Cron | None = Field(default=None, description="Cron expression of five fields, in local time.")
    prompt: Annotated[str, Field(min_length=1, max_length=20_000)] = Field(
        default="Heartbeat: look whether there is something to do. If not, say so and stop.",
        description="What the agent is told.",
    )


class SubagentsBlock(Block):
    """Bounds for `sessions_spawn`."""

    max_depth: Annotated[int, Field(ge=0, le=8)] = Field(default=2, description="Agents below each other.")
    max_children: Annotated[int, Field(ge=0, le=100)] = Field(default=4, description="Per run.")


class AgentBlock(Block):
    """One agent, or what holds for all."""

    model: Name | None = Field(
        default=None, description="A Pydantic AI model, as `openai:gpt-5`, or a name at `baseUrl`."
    )
    base_url: BaseUrl | None = Field(default=None, description="An OpenAI-compatible server.")
    api_key_env: Name | None = Field(default=None, description="Variable that holds the key.")
    instructions: Annotated[str, Field(max_length=200_000)] = Field(
        default="You are a helpful agent. Use the tools to do what you are asked, then say what you did.",
        description="System prompt.",
    )
    thinking: Thinking | None = Field(default=None, description="Effort, where the provider has one.")
    context_window: Annotated[int, Field(ge=256, le=10**8)] | None = Field(
        default=None, description="Tokens; compacts ahead of the overflow. Unset: only after it."
    )
    max_requests: Positive = Field(default=200, description="Model requests of one run.")
    workspace: Folder | None = Field(
        default=None,
        description="Folder of the files and commands, has to be there; unset: the working directory.",
    )
    tools: ToolsBlock = Field(default_factory=ToolsBlock, description="Tools and their rules.")
    heartbeat: HeartbeatBlock | None = Field(default=None, description="Scheduled runs.")
    subagents: SubagentsBlock = Field(default_factory=SubagentsBlock, description="Bounds of sub-agents.")


class ListedAgent(AgentBlock):
    """An entry of `agents.list[]`."""

    id: Name = Field(description="Name of the agent.")
    name: Name | None = Field(default=None, description="What people call it.")


class LimitsBlock(Block):
    """What a client may ask of the gateway."""

    body_bytes: Positive = Field(default=1_048_576, description="Largest body of a request.")
    requests_per_second: Positive = Field(default=5000, description="Per client address, on average.")
    runs: Positive = Field(default=10_000, description="Runs kept; the longest idle ones go first.")
    active_runs: Positive = Field(default=50, description="Runs of agents at once.")
    batch_events: Positive = Field(default=1000, description="Events in one batch.")


class GatewayBlock(Block):
    """The service."""

    host: Name = Field(default="127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(default=8377, description="Port; 0: any free one.")
    store: Name | None = Field(
        default=None, description="`redis://...` shares the runs with other gateways; unset: SQLite."
    )
    state_folder: Name | None = Field(
        default=None, description="Unset: `gateway` in the user's state folder."
    )
    show_arguments: bool = Field(
        default=True, description="Whether the page shows arguments, masked and shortened; never stored."
    )
    limits: LimitsBlock = Field(default_factory=LimitsBlock, description="What a client may ask.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What a configuration says of agents and of the service.

    Attributes:
        agents: By id, in the order of the file, defaults filled in.
        gateway: The service.
    """

    agents: dict[str, ListedAgent]
    gateway: GatewayBlock


def runtime_of(config: Config) -> Runtime:
    """The agents and the service of a configuration.

    Raises:
        ConfigError: Anything in these sections is wrong; all faults at once.
    """
    top = config.document.value if isinstance(config.document.value, dict) else {}
    lines = config.document.lines
    faults: list[ConfigProblem] = []
    agents: dict[str, ListedAgent] = {}
    given = top.get("agents")
    section: dict[str, Any] = given if isinstance(given, dict) else {}
    defaults = section.get("defaults", {})
    try:
        AgentBlock.model_validate(defaults)
    except ValidationError as error:
        faults += problems_of(error, ("agents", "defaults"), lines, AgentBlock)
        defaults = {}
    for path, entry in _entries(section):
        try:
            ListedAgent.model_validate(entry)
            agent = ListedAgent.model_validate(_over(defaults, entry))
        except ValidationError as error:
            faults += problems_of(error, path, lines, ListedAgent)
        else:
            agents[agent.id] = agent
            faults += [
                ConfigProblem(path=dotted((*path, *at)), message=message, line=line_of((*path, *at), lines))
                for at, message in _odd(agent)
            ]
    gateway = GatewayBlock()
    try:
        gateway = GatewayBlock.model_validate(top.get("gateway", {}))
    except ValidationError as error:
        faults += problems_of(error, ("gateway",), lines, GatewayBlock)
    if faults:
        faults.sort(key=lambda fault: fault.line or 0)
        raise ConfigError(tuple(dict.fromkeys(faults))[:MOST], source=config.source)
    return Runtime(agents=agents, gateway=gateway)


def _entries(section: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The agents with their places; `load_config` has seen to it that they have the right shape."""
    for index, entry in enumerate(section.get("list", [])):
        yield ("agents", "list", index), entry
    for name, entry in section.get("entries", {}).items():
        yield ("agents", "entries", name), {**entry, "id": name}


def _over(below: Any, above: Any) -> Any:
    """`above` over `below`, field by field."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: _over(below.get(key), value) for key, value in above.items()}


def _odd(agent: ListedAgent) -> Iterator[tuple[Path, str]]:
    """What is wrong with an agent though every field by itself is right."""
    beat = agent.heartbeat
    if beat is not None and (beat.every is None) == (beat.cron is None):
        yield ("heartbeat",), "needs one of `every` and `cron`, not both"
    for name, channel in agent.tools.channels.items():
        at = ("tools", "channels", name)
        if channel.type == "file" and channel.path is None:
            yield at, "a file channel needs `path`"
        elif channel.type == "file" and (wrong := inside(agent.workspace, channel.path or "")) is not None:
            yield (*at, "path"), f"{shown(channel.path)} is not allowed; {wrong}"
        if channel.type == "webhook" and channel.url is None:
            yield at, "a webhook channel needs `url`"
