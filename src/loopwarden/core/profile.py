"""Tool profiles, resolved: what a call of a given tool is, and how it is compared.

Several profiles may match a tool; each field is taken from the most specific pattern that sets it
(an exact name, then the pattern with the most literal characters; of equals the later one).
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections import OrderedDict
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, cast, get_args

from loopwarden.core.settings import ToolKind
from loopwarden.events import Verdict

if TYPE_CHECKING:
    from loopwarden.core.settings import KindRule, Settings, ToolProfile

MAX_TOOL_NAME = 200
"""Longest tool name that is kept as it is; a longer one is cut and told apart by a digest."""

_CACHED_TOOLS = 4096

_GLOB = re.compile(r"[*?\[]")


class ToolUse:
    """Calls of one tool with one kind: everything about them that does not depend on the run.

    Attributes:
        tool: The tool's name, at most `MAX_TOOL_NAME` characters and a digest.
        allow: The verdict on a call that raises no question.
        prefix: What signatures of this tool begin with, before they are digested.
        kind: What such a call does.
        poll: Whether `kind` is `poll`.
        waits: Whether `kind` is `wait`.
        exempt: Whether the tool is never judged.
        warning: Repeats before a warning.
        critical: Repeats without progress before a refusal; above `warning`.
        breaker: Repeats without progress that end the run; above `critical`.
        ignore_arguments: Names or pointers left out of arguments.
        ignore_result: Names or pointers left out of results.
        ignore_text: Compiled patterns blanked in text.
        identity: The only arguments that count, `None` for all.
    """

    __slots__ = (
        "allow",
        "breaker",
        "critical",
        "exempt",
        "identity",
        "ignore_arguments",
        "ignore_result",
        "ignore_text",
        "kind",
        "plain_arguments",
        "plain_result",
        "poll",
        "prefix",
        "tool",
        "waits",
        "warning",
    )

    def __init__(self, tool: str, kind: ToolKind, profile: ToolProfile | None, settings: Settings) -> None:
        self.tool = tool
        self.allow = Verdict(tool=tool)
        encoded = tool.encode("utf-8", "surrogatepass")
        self.prefix = b"%d:%b:" % (len(encoded), encoded)
        self.kind = kind
        self.poll = kind == "poll"
        self.waits = kind == "wait"
        self.exempt = bool(profile and profile.exempt)
        self.warning = (profile and profile.warning_threshold) or settings.warning_threshold
        self.critical = (profile and profile.critical_threshold) or settings.critical_threshold
        if self.critical <= self.warning:
            self.critical = self.warning + 1
        self.breaker = max(settings.global_circuit_breaker_threshold, self.critical + 1)
        self.ignore_arguments = (profile and profile.ignore_arguments) or ()
        self.ignore_result = (profile and profile.ignore_result) or ()
        self.ignore_text = tuple(re.compile(text) for text in (profile and profile.ignore_text) or ())
        self.identity = profile.identity if profile else None
        self.plain_arguments = not self.ignore_arguments and self.identity is None
        self.plain_result = not self.ignore_result and not self.ignore_text


class ToolUses:
    """Finds the `ToolUse` of a call; remembers the tools seen, a bounded number of them."""

    __slots__ = ("_cache", "_profiles", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._profiles = sorted(
            enumerate(settings.profiles), key=lambda entry: (_weight(entry[1].pattern), entry[0])
        )
        self._cache: OrderedDict[str, tuple[ToolUse, str | None, dict[object, ToolUse]]] = OrderedDict()

    def find(self, tool: str, arguments: object) -> ToolUse:
        """What a call of `tool` with `arguments` is."""
        cached = self._cache.get(tool)
        if cached is None:
            cached = self._remember(tool)
        use, argument, by_value = cached
        if argument is None or type(arguments) is not dict:
            return use
        value = arguments.get(argument)
        return by_value.get(value, use) if type(value) is str else use

    def _remember(self, tool: str) -> tuple[ToolUse, str | None, dict[object, ToolUse]]:
        cached = self._resolve(tool)
        if len(self._cache) >= _CACHED_TOOLS:
            self._cache.popitem(last=False)
        self._cache[tool] = cached
        return cached

    def restore(self, name: str, kind: str) -> ToolUse:
        """What a call of a saved run was, from its (bounded) tool name and its kind.

        Raises:
            ValueError: `kind` is none.
        """
        if kind not in get_args(ToolKind):
            raise ValueError(f"{kind!r} is no kind of tool")
        use, _, others = self._cache.get(name) or self._remember(name)
        for known in (use, *others.values()):
            if known.kind == kind and known.tool == name:
                return known
        return ToolUse(name, cast("ToolKind", kind), self._profile(name)[0], self._settings)

    def _profile(self, tool: str) -> tuple[ToolProfile | None, KindRule | None]:
        profile: ToolProfile | None = None
        rule: KindRule | None = None
        for _, candidate in self._profiles:
            if matches(candidate.pattern, tool):
                if candidate.kind is not None or candidate.kind_rule is not None:
                    rule = candidate.kind_rule
                profile = candidate if profile is None else _over(profile, candidate)
        return profile, rule

    def _resolve(self, tool: str) -> tuple[ToolUse, str | None, dict[object, ToolUse]]:
        settings = self._settings
        profile, rule = self._profile(tool)
        kind: ToolKind = (profile and profile.kind) or "other"
        name = bounded_name(tool)
        use = ToolUse(name, kind, profile, settings)
        if rule is None:
            return use, None, {}
        by_kind = {kind: use}
        for _, other in rule.kinds:
            if other not in by_kind:
                by_kind[other] = ToolUse(name, other, profile, settings)
        return use, rule.argument, {value: by_kind[other] for value, other in rule.kinds}


def matches(pattern: str, tool: str) -> bool:
    """Whether a profile's pattern covers a tool; the case of letters counts."""
    return pattern == tool or (not _weight(pattern)[0] and fnmatch.fnmatchcase(tool, pattern))


def bounded_name(tool: str) -> str:
    """A tool name of bounded length that still tells tools apart."""
    if len(tool) <= MAX_TOOL_NAME:
        return tool
    digest = hashlib.blake2b(tool.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{tool[:MAX_TOOL_NAME]}...{digest}"


@lru_cache(maxsize=4096)
def _weight(pattern: str) -> tuple[bool, int]:
    """How specific a pattern is: whether it is an exact name, and how many literal characters it has."""
    exact = not _GLOB.search(pattern)
    return exact, len(pattern) if exact else len(re.sub(r"\[[^]]*\]|[*?]", "", pattern))


def _over(below: ToolProfile, above: ToolProfile) -> ToolProfile:
    merged = {
        field.name: value if (value := getattr(above, field.name)) is not None else getattr(below, field.name)
        for field in fields(below)
    }
    return type(below)(**merged)
