"""The merged and repaired fields as the core takes them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from loopwarden.config.builtin import tool_profiles
from loopwarden.core.settings import Detectors, KindRule, Settings, ToolProfile

if TYPE_CHECKING:
    from loopwarden.config.merge import Fields, Profiles


def settings_from(fields: Fields, profiles: Profiles) -> Settings:
    """Settings in enforce mode; `profiles` lie over the shipped ones."""

    def value(name: str) -> Any:
        return fields[name].value

    return Settings(
        enabled=value("enabled"),
        history_size=value("historySize"),
        warning_threshold=value("warningThreshold"),
        critical_threshold=value("criticalThreshold"),
        unknown_tool_threshold=value("unknownToolThreshold"),
        global_circuit_breaker_threshold=value("globalCircuitBreakerThreshold"),
        detectors=Detectors(
            generic_repeat=value("detectors.genericRepeat"),
            known_poll_no_progress=value("detectors.knownPollNoProgress"),
            ping_pong=value("detectors.pingPong"),
            cycle=value("detectors.cycle"),
            unknown_tool_churn=value("detectors.unknownToolChurn"),
            repeated_failure=value("detectors.repeatedFailure"),
            failure_streak=value("detectors.failureStreak"),
            stagnation=value("detectors.stagnation"),
        ),
        post_compaction_window=value("postCompactionGuard.windowSize"),
        on_critical=value("onCritical"),
        refused_call_limit=value("refusedCallLimit"),
        reset_on_write=value("resetOnWrite"),
        idle_reset_seconds=value("idleResetSeconds"),
        profiles=_profiles(profiles),
    )


def _profiles(written: Profiles) -> tuple[ToolProfile, ...]:
    shipped = _shipped()
    if not written:
        return shipped
    own = tuple(
        _profile(pattern, {name: one.value for name, one in profile.items()})
        for pattern, profile in written.items()
    )
    return tuple(one for one in shipped if one.pattern not in written) + own


@cache
def _shipped() -> tuple[ToolProfile, ...]:
    return tuple(_profile(pattern, profile) for pattern, profile in tool_profiles().items())


def _profile(pattern: str, values: dict[str, Any]) -> ToolProfile:
    def names(key: str) -> tuple[str, ...] | None:
        return tuple(values[key]) if key in values else None

    given = values.get("kindByArgument")
    rule = KindRule(argument=given["argument"], kinds=tuple(given["kinds"].items())) if given else None
    return ToolProfile(
        pattern=pattern,
        kind=values.get("kind"),
        kind_rule=rule,
        ignore_arguments=names("ignoreArguments"),
        ignore_result=names("ignoreResult"),
        ignore_text=names("ignoreText"),
        identity=names("identity"),
        warning_threshold=values.get("warningThreshold"),
        critical_threshold=values.get("criticalThreshold"),
        exempt=values.get("exempt"),
    )
