"""What may stand in a configuration, as models: one truth for checking, the JSON Schema and the docs.

Types are strict: `true` is no number, `"10"` and `10.0` are no whole numbers. Defaults stand here only
for readers of the schema; what counts is which fields were written (`written`), since blocks are merged
before defaults are put under them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from loopwarden.config.patterns import MAX_PATTERN, check_pattern
from loopwarden.config.wording import LARGEST
from loopwarden.core.settings import OnCritical, ToolKind  # noqa: TC001 - pydantic reads the annotations

PresetName: TypeAlias = Literal["reference", "sensitive", "unattended"]


def _check_field(name: str) -> str:
    if name.startswith("/") and "~" in name.replace("~0", "").replace("~1", ""):
        raise ValueError("a JSON pointer in which '~' stands alone")
    return name


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


Count: TypeAlias = Annotated[int, Field(ge=1, le=LARGEST)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
FieldName: TypeAlias = Annotated[Name, AfterValidator(_check_field)]
TextPattern: TypeAlias = Annotated[
    str,
    Field(min_length=1, json_schema_extra={"maxLength": MAX_PATTERN, "format": "regex"}),
    AfterValidator(check_pattern),
]


class Block(BaseModel):
    """Base of all blocks: strict, closed, camelCase."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        field_title_generator=lambda name, _: to_camel(name),
    )

    def written(self) -> dict[str, Any]:
        """Only what was written, under the names that were written."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class DetectorSwitches(Block):
    """Switches of the detectors that have one; each is on unless it says `false`."""

    generic_repeat: bool = Field(default=True, description="The same call over and over.")
    known_poll_no_progress: bool = Field(default=True, description="A poll whose answer stays the same.")
    ping_pong: bool = Field(default=True, description="Two calls in turn without progress.")
    cycle: bool = Field(default=True, description="A sequence of 3 to 64 calls that comes again and again.")
    unknown_tool_churn: bool = Field(
        default=True, description="One tool name after another that is not there."
    )
    repeated_failure: bool = Field(
        default=True, description="A tool that fails in the same way whatever it is given."
    )
    failure_streak: bool = Field(default=True, description="Nothing but failures, from several tools.")
    stagnation: bool = Field(default=True, description="Different arguments, always the same answer.")


class PostCompactionGuard(Block):
    """Watches the first calls after the history was summarised."""

    window_size: Count = Field(
        default=3,
        description="Outcomes the guard stays armed for after a compaction, and how many identical ones "
        "end the run. 1 is read as 2: a single call is no repeat.",
    )


class KindByArgument(Block):
    """The kind of a tool that does several things, by one argument."""

    argument: Name = Field(description="Name of the top-level argument that decides.")
    kinds: dict[Annotated[str, Field(max_length=200)], ToolKind] = Field(
        min_length=1,
        max_length=100,
        description="Kind by the argument's value; for other values the tool's own `kind` holds.",
    )


class ToolProfileBlock(Block):
    """How calls of some tools are compared and judged."""

    kind: ToolKind = Field(
        default="other",
        description="exec: runs a command. poll: asks how something is going. wait: only waits. send: "
        "tells the outside something. write: changes files or data. read: looks. other: "
        "anything else. Written without `kindByArgument` it holds for all calls.",
    )
    kind_by_argument: KindByArgument = Field(
        default=None,  # type: ignore[assignment]  # null is refused; the default only marks it as optional
        description="Where the kind depends on an argument.",
        json_schema_extra=_without_default,
    )
    ignore_arguments: list[FieldName] = Field(
        default=[],
        max_length=100,
        description="Argument fields left out of comparison: names at any depth, or JSON pointers (`/a/b`).",
    )
    ignore_result: list[FieldName] = Field(
        default=[],
        max_length=100,
        description="Result fields left out of comparison: names at any depth, or JSON pointers (`/a/b`).",
    )
    ignore_text: list[TextPattern] = Field(
        default=[],
        max_length=32,
        description="Python regular expressions blanked in result text before it is compared. Refused "
        "where they could take exponential time.",
    )
    identity: list[FieldName] = Field(
        default=[],
        max_length=100,
        description="The only arguments that count: names or JSON pointers.",
    )
    warning_threshold: Count = Field(default=10, description="Own number in place of the global one.")
    critical_threshold: Count = Field(default=20, description="Own number in place of the global one.")
    exempt: bool = Field(default=False, description="Calls are never judged and are no evidence.")


class LoopDetection(Block):
    """The block `tools.loopDetection`."""

    enabled: bool | None = Field(
        default=None,
        description="true: rolling detectors act. Unset or null: they only observe, the post-compaction "
        "guard is on. false: both are off.",
    )
    preset: PresetName = Field(
        default="reference",
        description="Values that lie under what is written. reference: the documented defaults. sensitive: "
        "for small models (warning 5, critical 8, breaker 15, unknown tool 5). unattended: "
        "nobody looks on (a critical loop ends the run, refusedCallLimit 5, enabled).",
    )
    history_size: Count = Field(default=30, description="Calls kept per run for analysis.")
    warning_threshold: Count = Field(default=10, description="Repeats before a pattern is a warning.")
    critical_threshold: Count = Field(
        default=20,
        description="Repeats before a pattern without progress is refused; above warningThreshold.",
    )
    unknown_tool_threshold: Count = Field(
        default=10, description="Failures of the same unavailable tool before it is refused."
    )
    global_circuit_breaker_threshold: Count = Field(
        default=30,
        description="Repeats without progress, of any tool, that end the run; above criticalThreshold.",
    )
    detectors: DetectorSwitches = Field(
        default_factory=DetectorSwitches, description="Switches of the detectors."
    )
    post_compaction_guard: PostCompactionGuard = Field(
        default_factory=PostCompactionGuard, description="Watches the first calls after a compaction."
    )
    on_critical: OnCritical = Field(
        default="block",
        description="What a critical loop brings. block: the call is refused. abort: the run ends. ask: a "
        "person is asked where the host can, else block. warn: never refuses.",
    )
    refused_call_limit: Count = Field(
        default=15, description="The refused call with this number ends the run."
    )
    reset_on_write: bool = Field(
        default=True,
        description="A write that is new in the run makes what follows a new experiment. false: it only "
        "lets one call of a refused loop through.",
    )
    idle_reset_seconds: Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)] | None = Field(
        default=None,
        description="In a session without run ids a longer gap between calls starts afresh. Unset or null: "
        "never.",
    )
    tool_profiles: dict[Name, ToolProfileBlock] = Field(
        default={},
        max_length=1000,
        description="By tool name or glob (`*`, `?`, `[...]`; case counts), how calls are compared and "
        "judged. The most specific pattern wins field by field; profiles of well-known tools "
        "ship with the package.",
    )
