"""Overflows of the context as providers tell of them, and what only looks like one."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

from loopwarden.runner.overflow import Overflow, overflow_of
from tests.runner.provider_errors import OTHERS, OVERFLOWS


def failed(status: int, body: Any) -> ModelHTTPError:
    return ModelHTTPError(status, "model", body)


@pytest.mark.parametrize(("status", "body", "overflow"), OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_overflows(status: int, body: Any, overflow: Overflow) -> None:
    assert overflow_of(failed(status, body)) == overflow


@pytest.mark.parametrize(("status", "body"), OTHERS.values(), ids=OTHERS.keys())
def test_what_is_none(status: int, body: Any) -> None:
    assert overflow_of(failed(status, body)) is None


def test_an_error_in_the_middle_of_a_stream_has_no_status() -> None:
    body = {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "Your input is"}
    assert overflow_of(ModelAPIError("model", "failed", body=body)) == Overflow()
    assert overflow_of(ModelAPIError("model", "failed", body={"code": "server_error"})) is None


def test_what_an_exception_came_from_counts_too() -> None:
    cause = ValueError("prompt is too long: 5 tokens > 4 maximum")
    error = RuntimeError("the request failed")
    error.__cause__ = cause
    assert overflow_of(error) == Overflow(tokens=5, window=4)
    cause.__cause__ = error
    assert overflow_of(error) == Overflow(tokens=5, window=4)


def test_hostile_errors_are_read_in_bounds() -> None:
    class BrokenError(Exception):
        status_code = "four hundred"

        @property
        def body(self) -> Any:
            nested: dict[str, Any] = {}
            nested["error"] = nested
            return nested

        def __str__(self) -> str:
            raise ValueError

    assert overflow_of(BrokenError()) is None
    assert overflow_of(RuntimeError("maximum " * 1_000_000)) is None
    digits = "9" * 100_000
    found = overflow_of(RuntimeError(f"prompt is too long: {digits} tokens > 4 maximum"))
    assert found is not None
