"""What the core is told: thresholds, switches and tool profiles, already merged and repaired.

`config` makes these from what a person wrote. The core trusts them: critical is above warning, the
breaker above critical, every number at least 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ToolKind: TypeAlias = Literal["exec", "poll", "wait", "send", "write", "read", "other"]
"""What a tool does, as far as loops are concerned.

`exec` runs a command; `poll` asks how something long is going; `wait` only waits; `send` tells the
outside something; `write` changes files or data, so that a look afterwards is a new experiment;
`read` looks; `other` is anything else.
"""

OnCritical: TypeAlias = Literal["block", "abort", "ask", "warn"]
"""What a critical verdict does: refuse the call, end the run at once, ask the person where the host
can, or never refuse."""

Mode: TypeAlias = Literal["enforce", "observe"]
"""`enforce` acts on verdicts, `observe` only says what it would have done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRule:
    """A tool whose kind depends on one argument, as `process` with `action: "poll"`.

    Attributes:
        argument: Name of the top-level argument that decides.
        kinds: Kind by the argument's value; other values leave the tool's own kind.
    """

    argument: str
    kinds: tuple[tuple[str, ToolKind], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProfile:
    """How calls of the tools that match `pattern` are compared and judged. `None`: not said here.

    Attributes:
        pattern: Tool name or glob (`*`, `?`, `[...]`), case-sensitive.
        kind: What the tool does.
        kind_rule: Where the kind depends on an argument.
        ignore_arguments: Field names at any depth, or JSON pointers (`/a/b`), left out of comparison.
        ignore_result: The same for results.
        ignore_text: Regular expressions blanked in result text.
        identity: The only arguments that count (names or JSON pointers).
        warning_threshold: Own number in place of the global one.
        critical_threshold: Own number in place of the global one.
        exempt: Calls are never judged and are no evidence.
    """

    pattern: str
    kind: ToolKind | None = None
    kind_rule: KindRule | None = None
    ignore_arguments: tuple[str, ...] | None = None
    ignore_result: tuple[str, ...] | None = None
    ignore_text: tuple[str, ...] | None = None
    identity: tuple[str, ...] | None = None
    warning_threshold: int | None = None
    critical_threshold: int | None = None
    exempt: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectors:
    """The switches under `detectors`; `unknown_tool_repeat` and the breaker have none."""

    generic_repeat: bool = True
    known_poll_no_progress: bool = True
    ping_pong: bool = True
    cycle: bool = True
    unknown_tool_churn: bool = True
    repeated_failure: bool = True
    failure_streak: bool = True
    stagnation: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that a run needs to know; field names are those of `tools.loopDetection`.

    Attributes:
        enabled: `True`: rolling detectors act. `None`: they only observe. `False`: all is off.
        history_size: Calls kept per run for analysis.
        warning_threshold: Repeats before a pattern is a warning.
        critical_threshold: Repeats before a pattern without progress is refused.
        unknown_tool_threshold: Failures of one unavailable tool before it is refused.
        global_circuit_breaker_threshold: Repeats without progress, of any tool, that end the run.
        detectors: Switches.
        post_compaction_window: Outcomes the post-compaction guard stays armed for, at least 2.
        on_critical: What a critical verdict does.
        refused_call_limit: The refusal with this number ends the run.
        reset_on_write: A new write starts evidence afresh; else it only half-opens blocks.
        idle_reset_seconds: A longer gap resets an unscoped session; `None`: never.
        profiles: Tool profiles in order of growing weight: for fields that several matching profiles
            set, the more specific pattern wins, and of equally specific ones the later.
        mode: Whether verdicts are acted on.
    """

    enabled: bool | None = None
    history_size: int = 30
    warning_threshold: int = 10
    critical_threshold: int = 20
    unknown_tool_threshold: int = 10
    global_circuit_breaker_threshold: int = 30
    detectors: Detectors = field(default_factory=Detectors)
    post_compaction_window: int = 3
    on_critical: OnCritical = "block"
    refused_call_limit: int = 15
    reset_on_write: bool = True
    idle_reset_seconds: float | None = None
    profiles: tuple[ToolProfile, ...] = ()
    mode: Mode = "enforce"
