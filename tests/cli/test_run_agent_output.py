"""`loopwarden run`: how sub-agents and the ends of commands are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from loopwarden.cli.run_view import View
from loopwarden.cli.screen import Screen
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by every test
from tests.cli.test_run_agent import configured, heads, state_folder  # noqa: F401 - a fixture
from tests.runner.model_server import Call, ModelServer, Reply, asks
from tests.runner.telling import Told

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runner.model_server import Request


def test_a_sub_agent_is_shown_by_how_it_begins_and_ends(tmp_path: Path) -> None:
    same = asks(Call("read", {"path": "nothing"}))

    def answer(request: Request) -> Reply:
        if "the sub-task" in request.said:
            return same
        if request.results:
            return Reply("It did not work.")
        return asks(Call("sessions_spawn", {"task": "the sub-task", "agentId": "helper"}))

    with ModelServer(answer) as server:
        config = configured(tmp_path, server, main={}, helper={})
        code, out, _ = run("run", "t", "--agent", "main", "--config", config)
    assert code == 0
    shown = heads(out)
    assert (shown[:2], shown[-2:]) == (["call", "sub-agent"], ["says", "done"])
    assert {"warning", "refused", "stopped"} <= set(shown)
    lines = out.splitlines()
    assert lines[1] == "sub-agent helper: the sub-task"
    assert any(line.startswith("sub-agent helper ended, aborted: ") for line in lines)
    refused = [line for line in lines if line.startswith("refused")]
    assert len({line.split(":")[-1] for line in refused[1:]}) == len(refused[1:]), "only the count"
    assert len(refused[0]) > max(map(len, refused[1:])), "the reason stands once"
    below = [request for request in server.requests if "the sub-task" in request.said]
    assert lines[-1].startswith("done      1 call, 2 requests, ")
    own, used = lines[-1].split("; sub-agents: ")
    assert used.startswith(f"{len(below)} calls, {len(below)} requests, ")
    assert len(below) > 20
    assert "written" in own
    assert "written" in used


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("exit 44", "result    exec: (no output) (exit code 44)"),
        ("kill -9 $$", "result    exec: (no output) (SIGKILL)"),
        ("echo begins; sleep 60", "result    exec: begins (timed out)"),
        ("echo fine", "result    exec: fine"),
    ],
)
def test_how_a_command_ended_is_shown(tmp_path: Path, command: str, shown: str) -> None:
    with ModelServer([asks(Call("exec", {"command": command})), Reply("Done.")]) as server:
        rules = {"policy": "allow", "timeoutSeconds": 1}
        config = configured(tmp_path, server, main={"tools": {"exec": rules}})
        code, out, _ = run("run", "t", "--config", config)
    assert code == 0
    assert shown in out.splitlines()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{\n  "path": "a"\n}', 'look: "path": "a"'),
        ("[\n", "look: ["),
        ("\n\nplain\nmore", "look: plain"),
        ("", "look:"),
    ],
)
def test_of_a_result_the_first_line_that_says_something_is_shown(
    capsys: pytest.CaptureFixture[str], text: str, shown: str
) -> None:
    view = View(Screen(highlight=False, width=200), lambda: None)
    told = Told("r1")
    view(told("call", tool="look", call_id="c1", arguments={}))
    view(told("outcome", call_id="c1", ok=True, text=text))
    assert capsys.readouterr().out.splitlines()[-1].rstrip() == f"result    {shown}"
