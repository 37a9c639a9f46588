"""What the tool `exec` may run: globs over the commands of a command line.

A policy is no sandbox. It reads the text of a command, and a text can hide what it does: a variable holds a
program's name, a script that is allowed runs one that is not, an interpreter does anything. It keeps an
honest agent from what you don't want, and makes a surprised one ask. Where that is not enough, run the
agent in a container or as a user that can do no harm; and write what is allowed (`policy: "deny"` with an
`allow` list), not what is forbidden.

How a line is decided:

1. It is taken apart (`command_line.py`) into its commands: at `;`, `&`, `&&`, `|`, `||`, newlines and
   parentheses, and inside of `$(...)` and backquotes.
2. `deny` first: a pattern that matches the whole line or one of its commands refuses the line. A command is
   compared as it is written and without its quotes, leading assignments, the folder of its program, and
   programs that only run another one (`sudo`, `env`, `find`, ...); what `sh -c` and `eval` are given is
   taken apart in turn.
   A command of which can't be told what it runs is refused where there is any `deny` pattern: its program
   is a variable, a substitution, a glob or in braces, or it is a shell that runs what it reads.
3. `ask` next, in the same way.
4. `allow` last: every command has to match a pattern as it is written. Nothing is allowed by a pattern in
   a line that could not be read to the end (substitutions, comments, here-documents, unbalanced quotes);
   a command with a redirection needs a pattern with the same sign, `<` or `>`, in it.
5. Else `policy` holds.

A line that is too long or too deep to be taken apart is refused where there is a `deny` or an `ask` list.

Patterns are those of `fnmatch` over a whole command, letters' case counts: `*` stands for anything, blanks
and slashes included; `git log` is that alone, `git log*` and `git *` more.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from loopwarden.runner.command_line import read_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loopwarden.config.runtime import Decision, ExecBlock
    from loopwarden.runner.command_line import Line, Part

_DEEPEST: Final = 4
"""How often what a shell is given as text is taken apart in turn."""

_FORMS: Final = 262_144
"""Characters of all that is compared of one line; one that needs more is denied where there is a list."""

_STEPS: Final = 10_000
"""The same, in number."""

_SHOWN: Final = 200
"""Characters of a command that a reason quotes."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_KEYWORDS: Final = frozenset((
    "!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "coproc",
))  # fmt: skip
_RUNNERS: Final = frozenset((
    "builtin", "busybox", "bwrap", "chroot", "chrt", "command", "doas", "env", "exec", "fakeroot", "find",
    "firejail", "flock", "ionice", "linux32", "linux64", "ltrace", "nice", "nohup", "nsenter", "numactl",
    "parallel", "pkexec", "prlimit", "runuser", "setarch", "setpriv", "setsid", "stdbuf", "strace", "sudo",
    "systemd-run", "taskset", "time", "timeout", "toybox", "unshare", "watch", "xargs",
))  # fmt: skip
_SHELLS: Final = frozenset((
    "ash", "bash", "dash", "eval", "ksh", "script", "sh", "su", "trap", "zsh",
))  # fmt: skip
_READERS: Final = _SHELLS - {"eval", "script", "su", "trap"}
"""Shells that run what they read where they are given nothing else."""
_READS = re.compile(r"-[A-Za-z]*s[A-Za-z]*|-|/dev/(?:stdin|fd/.*)|/proc/self/fd/.*")
_SAYS: Final = frozenset({"--help", "--version"})


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the policy says of a command line.

    Attributes:
        decision: What to do.
        reason: Why, in a sentence.
        pattern: The pattern that decided, `None` where none did.
    """

    decision: Decision
    reason: str
    pattern: str | None = None


class _TooDeepError(Exception):
    """A line can't be taken apart to its end."""


def rule(block: ExecBlock, command: str) -> Ruling:
    """Decide about a command line."""
    line = read_line(command)
    if block.deny or block.ask:
        unclear: list[str] = []
        forms = _bounded(chain([command.strip()], _forms(line, 0, unclear)))
        if forms is None:
            return Ruling("deny", "the command is too long or too deep to be checked")
        denied, asked = _first(block.deny, forms), _first(block.ask, forms)
        if denied is not None:
            return Ruling("deny", f"deny pattern {denied[0]!r} matches {_short(denied[1])!r}", denied[0])
        if unclear and block.deny:
            return Ruling(
                "deny", f"what {_short(unclear[0])!r} runs can't be told, and some things are denied"
            )
        if asked is not None:
            return Ruling("ask", f"ask pattern {asked[0]!r} matches {_short(asked[1])!r}", asked[0])
        if unclear and block.ask:
            return Ruling(
                "ask", f"what {_short(unclear[0])!r} runs can't be told, and some things are asked for"
            )
    if block.allow and line.parts and not line.opaque:
        allowing = [_allowing(block.allow, part) for part in line.parts]
        if None not in allowing:
            return Ruling("allow", "every command matches an allow pattern", allowing[0])
    reason = f"no pattern holds; the policy is {block.policy!r}"
    if block.allow and line.opaque:
        reason = f"allow patterns hold for plain commands only; the policy is {block.policy!r}"
    return Ruling(block.policy, reason)


def _bounded(forms: Iterable[str]) -> list[str] | None:
    """The forms, each once; `None`: there are too many to compare, or they are too deep."""
    found: dict[str, None] = {}
    size = 0
    try:
        for step, form in enumerate(forms):
            if form not in found:
                size += len(form)
                found[form] = None
            if size > _FORMS or step > _STEPS:
                return None
    except _TooDeepError:
        return None
    return list(found)


def _first(patterns: Iterable[str], forms: list[str]) -> tuple[str, str] | None:
    for pattern in patterns:
        for form in forms:
            if fnmatch.fnmatchcase(form, pattern):
                return pattern, form
    return None


def _allowing(patterns: Iterable[str], part: Part) -> str | None:
    """The first pattern that allows a command."""
    signs = {sign for sign in "<>" if part.redirected and sign in part.text}
    for pattern in patterns:
        if signs <= set(pattern) and fnmatch.fnmatchcase(part.text, pattern):
            return pattern
    return None


def _forms(line: Line, depth: int, unclear: list[str]) -> Iterator[str]:
    """The texts by which the commands of a line are known to `deny` and `ask`.

    Commands of which can't be told what they run are added to `unclear`.
    """
    if line.cut:
        raise _TooDeepError
    for part in line.parts:
        yield part.text
        words, begin = part.words, 0
        while begin < len(words) and (
            words[begin] in _KEYWORDS or words[begin] == "function" or _ASSIGNMENT.match(words[begin])
        ):
            begin += 2 if words[begin] == "function" else 1
        if _unclear(words[begin:], part.open[begin:]):
            unclear.append(part.text)
        yield from _plain(words[begin:], depth, unclear)


def _unclear(words: list[str], changed: list[bool]) -> bool:
    """Whether the program is one that the shell makes up, or a shell that runs what it reads."""
    for place, word in enumerate(words):
        name = word.rpartition("/")[2]
        if place and _ASSIGNMENT.match(word):
            continue
        if changed[place]:
            return True
        if name in _READERS:
            given = words[place + 1 :]
            operands = [one for one in given if not one.startswith(("-", "+"))]
            return not _SAYS & set(given) and (not operands or any(map(_READS.fullmatch, given)))
        runs = name in _RUNNERS and name != "find"  # whose first words are folders
        passed = place and (word.startswith("-") or word[:1].isdigit())
        if not (runs or passed):
            return False
    return False


def _plain(words: list[str], depth: int, unclear: list[str]) -> Iterator[str]:
    """A command without quotes and folder, and what it runs if running is all that it does."""
    if not words:
        return
    program = words[0].rpartition("/")[2]
    yield " ".join(words)
    yield " ".join([program, *words[1:]])
    if program in _RUNNERS:  # its options are unknown: what is run may begin at any word
        for begin in range(1, len(words)):
            rest = words[begin:]
            inner = rest[0].rpartition("/")[2]
            yield " ".join(rest)
            yield " ".join([inner, *rest[1:]])
            if inner in _SHELLS:
                yield from _given(rest[1:], depth, unclear)
    elif program in _SHELLS:
        yield from _given(words[1:], depth, unclear)


def _given(words: list[str], depth: int, unclear: list[str]) -> Iterator[str]:
    """The commands that a shell is given: one of the words, or all of them (`eval`)."""
    if depth >= _DEEPEST:
        raise _TooDeepError
    for word in words:
        yield from _forms(read_line(word), depth + 1, unclear)
    yield from _forms(read_line(" ".join(words)), depth + 1, unclear)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
