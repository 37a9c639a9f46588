from __future__ import annotations

import pytest

from loopwarden.transcripts.shape import arguments, command_result, count, seconds, text_of, tool_result

NOON = 1_767_268_800.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01T12:00:00.250Z", NOON + 0.25),
        ("2026-01-01T13:00:00+01:00", NOON),
        ("2026-01-01T12:00:00", NOON),
        ("2026-01-01 12:00:00.123456789", NOON + 0.123456),
        (NOON, NOON),
        (int(NOON) * 1_000, NOON),
        (int(NOON) * 1_000_000, NOON),
        (int(NOON) * 1_000_000_000, NOON),
        (str(int(NOON) * 1_000_000_000), NOON),
        ("1767268800.5", NOON + 0.5),
        (12.5, 12.5),
        (0, 0.0),
        (True, None),
        (None, None),
        ("", None),
        ("soon", None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        ([], None),
    ],
)
def test_seconds(value: object, expected: float | None) -> None:
    assert seconds(value) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        (5.9, 5),
        (-1, 0),
        (True, 0),
        (None, 0),
        ("5", 0),
        (float("inf"), 0),
        (10**12, 10**12),
        (10**400, 0),
    ],
)
def test_count(value: object, expected: int) -> None:
    assert count(value) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a", "a"),
        ([{"type": "text", "text": "a"}, "b", {"type": "image"}, 5, {"text": 7}], "a\nb"),
        ({"type": "text", "text": "a"}, "a"),
        (None, ""),
    ],
)
def test_text_of(content: object, expected: str) -> None:
    assert text_of(content) == expected


def test_arguments() -> None:
    assert arguments('{"a": 1}') == {"a": 1}
    assert arguments("ls -l") == "ls -l"
    assert arguments({"a": 1}) == {"a": 1}
    assert arguments(None) is None


def test_results() -> None:
    assert tool_result("a") == {"content": [{"type": "text", "text": "a"}]}
    assert tool_result([1], is_error=True, details={"b": 2}) == {
        "content": [1],
        "details": {"b": 2},
        "isError": True,
    }
    assert tool_result({"c": 3}) == {"content": [{"c": 3}]}
    assert command_result("out", exit_code=1, timed_out=True)["details"] == {
        "status": "completed",
        "aggregated": "out",
        "exitCode": 1,
        "timedOut": True,
    }
    assert command_result("so far", exit_code=1, running=True)["details"] == {
        "status": "running",
        "tail": "so far",
    }
