"""One gateway for the tests of this folder that need no settings of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.stage import Plays, Stage
from tests.runner.model_server import ModelServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAME = "The same sixty-four bytes or more stand in each of these files, word for word."


def agents(folder: Path, url: str, **tools: dict[str, Any]) -> dict[str, Any]:
    """Settings of agents by id, each with its own `tools` block."""
    defaults = {
        "baseUrl": url,
        "workspace": str(folder / "work"),
        "tools": {
            "exec": {"policy": "allow"},
            "channels": {"notes": {"type": "file", "path": "messages.jsonl"}},
        },
    }
    listed = [{"id": name, "model": name, "tools": block} for name, block in tools.items()]
    return {"agents": {"defaults": defaults, "list": listed}}


def loops(**block: Any) -> dict[str, Any]:
    """A `tools` block with these settings of the guard."""
    return {"loopDetection": block}


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("e2e")
    work = folder / "work"
    work.mkdir()
    for name in "abcd":
        (work / f"{name}.txt").write_text(f"text of {name}", "utf-8")
    for number in range(1, 5):
        (work / f"big-{number}.txt").write_text(f"line {number} of a long file\n" * 400, "utf-8")
    for number in range(40):
        (work / f"same-{number}.txt").write_text(SAME, "utf-8")
    plays = Plays()
    with ModelServer(plays.answer) as model:
        config = agents(
            folder,
            model.url,
            on=loops(enabled=True),
            asking=loops(enabled=True) | {"exec": {"policy": "ask"}},
            unset={},
            off=loops(enabled=False),
            strict=loops(enabled=True, warningThreshold=8, criticalThreshold=16),
            breaker=loops(enabled=True, detectors={"genericRepeat": False}),
            wide=loops(postCompactionGuard={"windowSize": 5}),
        )
        config["agents"]["list"].append({"id": "small", "model": "small", "contextWindow": 9_000})
        with Gateway(folder, config) as gateway:
            yield Stage(gateway, plays)
