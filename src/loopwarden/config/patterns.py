"""Which regular expressions `ignoreText` takes.

They run over tool output, which comes from outside, so a pattern that can take exponential time on some
text is refused when it is written, not met when it hangs an agent.
"""

from __future__ import annotations

import re
import warnings
from re import _constants as sre  # type: ignore[attr-defined]  # the parse tree has no public name
from re import _parser as sre_parser  # type: ignore[attr-defined]  # the same
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PATTERN: Final = 300
"""Longest pattern in characters."""

MAX_REPEATS: Final = 10
"""Most repeats of open length (`*`, `+`, `{n,}`) in one pattern."""

_OPEN = 64  # a repeat that may go on for longer than this counts as one of open length
_WAYS = 1_000  # in how many ways a repeat inside repeats may divide a text
_BACKTRACKING = (sre.MAX_REPEAT, sre.MIN_REPEAT)


def check_pattern(pattern: str) -> str:
    """Return `pattern` if it can be used.

    Raises:
        ValueError: Too long, no regular expression, matches empty text, or can take exponential time:
            a repeat of varying length or an alternative inside a repeat (`(a+)+`, `(a|bc)*`), two repeats
            side by side (`.*.*`), a look back at a group, or too many repeats. Its text says which.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"longer than {MAX_PATTERN} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what a later Python will read in another way
            re.compile(pattern)
            tree = sre_parser.parse(pattern)
        shortest = tree.getwidth()[0]
    except (re.error, OverflowError, RecursionError, Warning) as error:
        reason = str(error)  # which may repeat a part of the pattern
        reason = reason if reason.isprintable() else ascii(reason)
        raise ValueError(f"no regular expression: {reason}") from error
    if shortest == 0:
        raise ValueError("matches the empty text; only something that is there can be blanked")
    if _check(tree, times=1) > MAX_REPEATS:
        raise ValueError(f"more than {MAX_REPEATS} repeats of open length")
    return pattern


def _flat(tree: Any) -> Iterator[tuple[Any, Any]]:
    """The items of a sequence, those of its groups in their place."""
    for operation, argument in tree:
        if operation is sre.SUBPATTERN:
            yield from _flat(argument[3])
        else:
            yield operation, argument


def _check(tree: Any, *, times: int) -> int:
    """Look through one sequence and all that it holds; return the number of repeats of open length.

    Args:
        tree: Parsed items, in order.
        times: How often the repeats around may run the sequence, at most.
    """
    total = 0
    after_open = False
    for operation, argument in _flat(tree):
        is_open = False
        if operation in _BACKTRACKING:
            low, high, body = argument
            _check_nesting(high - low + 1, times)
            total += _check(body, times=times * max(high, 1))
            is_open = high > _OPEN
            if is_open and after_open:
                raise ValueError("two repeats of open length side by side; put fixed text between them")
        elif operation is sre.POSSESSIVE_REPEAT:
            total += _check(argument[2], times=1)
        elif operation is sre.ATOMIC_GROUP:
            total += _check(argument, times=1)
        elif operation is sre.BRANCH:
            _check_nesting(len(argument[1]), times)
            total += sum(_check(branch, times=times) for branch in argument[1])
        elif operation in (sre.ASSERT, sre.ASSERT_NOT):
            total += _check(argument[1], times=times)
        elif operation in (sre.GROUPREF, sre.GROUPREF_EXISTS):
            raise ValueError("a look back at a group can take exponential time")
        total += is_open
        after_open = is_open or (after_open and operation is sre.AT)
    return total


def _check_nesting(ways: int, times: int) -> None:
    """Refuse what can go `ways` ways each of `times` times, if that is too many in all."""
    if ways > 1 and times > 1 and (times > _OPEN or ways**times > _WAYS):
        raise ValueError(
            "a repeat or an alternative inside a repeat can take exponential time; write it without nesting"
        )
