"""opencode, the real program: loops are told, refused and ended, and work is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.model_server import Call, Reply, Request, asks
from tests.agents.opencode_program import OpencodeRequest, OpencodeServer, calls_shown, install, run
from tests.agents.place import LOOSE, Place, program

if TYPE_CHECKING:
    from tests.agents.place import Ended

OPENCODE = program("opencode")
WARNED = "called 2 times with the same arguments"
FULL = 19_500
"""Tokens of a request after which a model with a context of 20,000 needs a compaction."""


@pytest.fixture(autouse=True)
def _files(place: Place) -> None:
    for name in "abc":
        (place.project / f"{name}.txt").write_text(f"text of {name}\n", encoding="utf-8")
    install(place)


def read(place: Place, name: str = "a.txt") -> Call:
    return Call("read", {"filePath": str(place.project / name)})


def results(server: OpencodeServer) -> list[str]:
    """What the model read last as results, one a call."""
    return [text for texts in server.requests[-1].answers.values() for text in texts]


def was_ended(ended: Ended) -> bool:
    return ended.code == 1 and "MessageAbortedError" in ended.out


def test_a_loop_is_told_refused_and_ended(place: Place) -> None:
    ended, server = run(place, OPENCODE, [asks(read(place))] * 20)
    given = results(server)
    assert len(server.requests) == 5
    assert "text of a" in given[2]
    assert WARNED in given[2]
    assert "was refused and did not run" in given[3]
    shown = calls_shown(ended)
    assert [state["status"] for state in shown] == ["completed"] * 3 + ["error"] * 2
    assert "the run ends here" in shown[-1]["error"]
    assert "loopwarden allow repeat:" in ended.err
    assert was_ended(ended)


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "OPENCODE_CONFIG_DIR"])
def test_it_is_installed_where_the_program_looks(place: Place, name: str) -> None:
    (place.home / ".config" / "opencode" / "plugins" / "loopwarden.js").unlink()
    variables = {name: str(place.home / name.lower())}
    place.loopwarden("install", "opencode", **variables)
    ended, _ = run(place, OPENCODE, [asks(read(place))] * 20, variables=variables)
    assert was_ended(ended)
    place.loopwarden("uninstall", "opencode", **variables)
    assert not list(place.home.rglob("loopwarden.js"))


def test_work_is_untouched(place: Place) -> None:
    place.configure(LOOSE)
    path = str(place.project / "a.txt")
    changes = [("text", "1"), ("1", "2"), ("2", "3")]
    edits = [Call("edit", {"filePath": path, "oldString": old, "newString": new}) for old, new in changes]
    script = [asks(call) for edit in edits for call in (read(place), edit)]
    script.append(asks(read(place), read(place, "b.txt"), read(place, "c.txt")))
    ended, server = run(place, OPENCODE, script)
    assert ended.code == 0
    assert {state["status"] for state in calls_shown(ended)} == {"completed"}
    assert len(server.requests) == 8
    assert not [text for text in results(server) if "called" in text]


def test_a_tool_that_fails_is_seen_and_told(place: Place) -> None:
    ended, server = run(place, OPENCODE, [asks(read(place, "missing.txt"))] * 20)
    given = results(server)
    assert "not found" in given[0]
    assert WARNED in given[2]
    assert was_ended(ended)


def test_a_tool_that_does_not_exist_is_seen(place: Place) -> None:
    script = [asks(Call("serach", {"q": number})) for number in range(40)]
    ended, server = run(place, OPENCODE, script)
    assert "serach" in results(server)[-1]
    assert len(server.requests) < 40
    assert was_ended(ended)


def test_calls_of_one_reply_are_no_evidence_against_each_other(place: Place) -> None:
    place.configure(LOOSE)
    ended, _ = run(place, OPENCODE, [asks(*[read(place)] * 6)] * 3)
    assert ended.code == 0
    assert [state["status"] for state in calls_shown(ended)] == ["completed"] * 18


def test_tools_of_a_server_are_told_and_refused(place: Place) -> None:
    ended, server = run(place, OPENCODE, [asks(Call("files_look", {"path": "a"}))] * 20)
    given = results(server)
    assert "looked at a" in given[2]
    assert WARNED in given[2]
    assert "was refused" in given[3]
    assert was_ended(ended)


def test_a_loop_that_outlives_a_compaction_is_ended(place: Place) -> None:
    place.configure(LOOSE)
    script = [asks(read(place)), asks(read(place), tokens=FULL), *[asks(read(place))] * 10]
    ended, server = run(place, OPENCODE, script, limit=20_000)
    assert sum(request.asks_for_summary for request in server.requests) == 1
    assert len(calls_shown(ended)) == 5
    assert was_ended(ended)


def test_compactions_without_work_are_ended(place: Place) -> None:
    place.configure(LOOSE)
    script = [asks(read(place)), *[Reply("Hm.", tokens=FULL)] * 30]
    ended, server = run(place, OPENCODE, script, limit=20_000)
    assert sum(request.asks_for_summary for request in server.requests) == 3
    assert was_ended(ended)


def test_a_sub_agent_is_a_run_of_its_own(place: Place) -> None:
    task = Call("task", {"description": "look", "prompt": "look at a", "subagent_type": "general"})

    def said(request: Request) -> Reply:
        assert isinstance(request, OpencodeRequest)
        own = len(request.answers)
        if "look at a" in str(request.messages[1]):
            return asks(read(place)) if own < 2 else Reply("Looked.")
        plan = [asks(read(place)), asks(task), asks(read(place))]
        return plan[own] if own < len(plan) else Reply("All done.")

    ended, server = run(place, OPENCODE, said)
    assert ended.code == 0
    assert [len(request.answers) for request in server.requests].count(2) == 2
    assert not [request for request in server.requests if WARNED in request.text]


def test_a_new_message_of_the_user_begins_a_new_run(place: Place) -> None:
    assert run(place, OPENCODE, [asks(read(place))] * 2)[0].code == 0
    ended, server = run(place, OPENCODE, [asks(read(place))] * 2, "--continue")
    assert ended.code == 0
    assert len(results(server)) == 4
    assert WARNED not in server.requests[-1].text


def test_without_anybody_to_ask_the_calls_run(place: Place) -> None:
    install(place, ["/nowhere/loopwarden-hook"])
    ended, server = run(place, OPENCODE, [asks(read(place))] * 6)
    assert ended.code == 0
    assert len(results(server)) == 6
    assert not place.state.exists()
