"""`loopwarden run`: what is shown of a run, how it ends, and what is said of wrong use."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra runner")

from loopwarden.runner.journal import Journal
from loopwarden.runner.places import forget_old, session_file
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by every test
from tests.runner import model_errors as errors
from tests.runner.model_server import Call, ModelServer, Reply, asks
from tests.scan.recordings import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


STOPPED = (
    "look was asked for 30 times with the same arguments and never brought anything new. "
    "This call did not run, and the run ends here."
)


@pytest.fixture(autouse=True, name="state")
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own, and no key of any provider."""
    folder = tmp_path / "state"
    monkeypatch.setenv("LOOPWARDEN_STATE", str(folder))
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    return folder


def replayed(path: Path, *options: object) -> tuple[int, str, str]:
    return run("run", "find it", "--model", f"replay:{path}", *options)


def configured(tmp_path: Path, server: ModelServer | None = None, **agents: dict[str, Any]) -> Path:
    defaults = {} if server is None else {"model": "scripted", "baseUrl": server.url}
    listed = [{"id": name, **block} for name, block in (agents or {"main": {}}).items()]
    path = tmp_path / "config.json5"
    path.write_text(
        json.dumps(
            {"agents": {"defaults": defaults, "list": listed}, "tools": {"loopDetection": {"enabled": True}}}
        )
    )
    return path


def written(path: Path, *events: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def heads(out: str) -> list[str]:
    """The words at the beginning of the lines."""
    return [line.split()[0] for line in out.splitlines() if line and not line[0].isspace()]


def test_a_recorded_loop_is_warned_of_refused_and_ended(tmp_path: Path) -> None:
    code, out, err = replayed(write(tmp_path / "a.jsonl", "b" + "a" * 60))
    assert code == 1
    lines = out.splitlines()
    assert lines[:2] == ['call      look q: "b", token: ***', "result    look: result of b"]
    assert heads(out) == [
        *["call", "result"] * 11,
        *["call", "warning", "result"] * 10,
        *["call", "refused"] * 10,
        "call",
        "stopped",
        "aborted",
    ]
    warned = [line for line in lines if line.startswith("warning")]
    assert warned[0].startswith("warning   look: generic_repeat, 10 times: look was called 10 times")
    assert warned[1] == "warning   look: generic_repeat, 11 times"
    assert lines[-2:] == [
        "aborted   32 calls, 32 requests",
        f"          tool_loop_persisted {STOPPED}",
    ]
    assert err.startswith("loopwarden: go on with --session session-")
    assert err.count("\n") == 1


def test_a_recorded_run_without_a_loop_is_done(tmp_path: Path) -> None:
    code, out, _ = replayed(write(tmp_path / "a.jsonl", "abc"))
    assert code == 0
    assert heads(out) == [*["call", "result"] * 3, "says", "done"]
    assert "says      This is the end of the recording: 3 calls in 3 turns." in out


def test_observing_refuses_nothing(tmp_path: Path) -> None:
    code, out, _ = replayed(write(tmp_path / "a.jsonl", "a" * 40), "--mode", "observe")
    assert code == 0
    assert heads(out).count("result") == 40
    assert "(would be: refused)" in out
    assert "(would be: stopped)" in out
    assert "refused " not in {line[:8] for line in out.splitlines()}


def test_a_recorded_compaction_is_shown_and_arms_the_guard(tmp_path: Path) -> None:
    def looks(first: int, last: int, what: str) -> list[dict[str, Any]]:
        return [
            event
            for number in range(first, last)
            for event in (
                {"type": "call", "id": f"c{number}", "tool": "look", "args": {"q": what.format(number)}},
                {"type": "outcome", "id": f"c{number}", "result": what.format(number) * 200},
            )
        ]

    events = [
        *looks(0, 20, "number {}"),
        *looks(20, 23, "again"),
        {"type": "compaction"},
        *looks(23, 30, "again"),
    ]
    code, out, _ = replayed(written(tmp_path / "a.jsonl", *events))
    assert code == 1
    assert "compacted the context overflowed: about " in out
    assert "armed     the guard compares the next 3 results with each other" in out
    assert "compaction_loop_persisted" in out
    assert out.splitlines()[-2].startswith("aborted   26 calls")


def test_json_is_one_happening_a_line(tmp_path: Path) -> None:
    code, out, err = replayed(write(tmp_path / "a.jsonl", "a\u00e9"), "--json", "--session", "s1")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert out.isascii()
    assert [line["kind"] for line in lines if not line["data"].get("partial")] == [
        "began", "call", "outcome", "call", "outcome", "text", "ended",
    ]  # fmt: skip
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["session"] for line in lines} == {"s1"}
    assert lines[-1]["data"]["reason"] == "done"


HOSTILE = "\x1b[2J\x1b]0;title\x07\u202eevil\r\nnext\x9b31m"


@pytest.mark.parametrize("colour", [False, True])
def test_nothing_that_a_terminal_obeys_is_written(tmp_path: Path, colour: bool) -> None:
    path = written(
        tmp_path / "a.jsonl",
        {"type": "call", "id": "c1", "tool": "look\x1b[2J", "args": {HOSTILE: HOSTILE}},
        {"type": "outcome", "id": "c1", "result": HOSTILE},
        {"type": "call", "id": "c2", "tool": "other", "args": {}},
        {"type": "outcome", "id": "c2", "error": HOSTILE},
    )
    with ModelServer([Reply(HOSTILE)]) as server:
        config = configured(tmp_path, server)
        environment = os.environ | ({"FORCE_COLOR": "1", "TERM": "xterm"} if colour else {"NO_COLOR": "1"})
        for options in (["--model", f"replay:{path}"], ["--config", str(config)]):
            ended = subprocess.run(
                [sys.executable, "-m", "loopwarden", "run", HOSTILE.replace("\x00", ""), *options],
                env=environment,
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert ended.returncode == 0
            said = (ended.stdout + ended.stderr).decode()
            assert "evil" in said
            for harmful in ("\x1b[2J", "\x1b]", "\x07", "\u202e", "\r", "\x9b"):
                assert harmful not in said
            assert ("\x1b[" in said) is colour


def test_what_the_model_says_comes_as_it_says_it(tmp_path: Path) -> None:
    with ModelServer([Reply("First line.\nSecond\tline.")]) as server:
        code, out, _ = run("run", "say it", "--config", configured(tmp_path, server))
    assert code == 0
    assert out.splitlines()[:2] == ["says      First line.", "          Second    line."]
    assert out.count("First line.") == 1


def test_a_session_goes_on(tmp_path: Path) -> None:
    with ModelServer([Reply("Hello Ada."), Reply("You are Ada.")]) as server:
        config = configured(tmp_path, server)
        assert run("run", "I am Ada.", "--config", config, "--session", "s1")[0] == 0
        code, out, err = run("run", "Who am I?", "--config", config, "--session", "s1")
        assert server.requests[1].said == ["I am Ada.", "Who am I?"]
    assert (code, err) == (0, "")
    assert "You are Ada." in out


def test_a_session_of_another_agent_is_not_taken_over(tmp_path: Path) -> None:
    with ModelServer([Reply("one"), Reply("two")]) as server:
        path = configured(tmp_path, server, main={}, other={})
        options = ("--config", path, "--session", "s1")
        assert run("run", "first", "--agent", "main", *options)[0] == 0
        code, _, err = run("run", "second", "--agent", "other", *options)
        assert code == 2
        assert "s1 is a session of agent main, not of other" in " ".join(err.replace("│", " ").split())
        assert run("run", "third", "--agent", "main", *options)[0] == 0


def test_a_model_that_fails_ends_the_run(tmp_path: Path) -> None:
    with ModelServer([Reply(error=errors.wrong_key())]) as server:
        config = configured(tmp_path, server)
        code, out, _ = run("run", "t", "--config", config)
    assert code == 3
    assert heads(out)[-1] == "failed"


def test_wrong_use_is_said_before_anything_begins(tmp_path: Path, state: Path) -> None:
    one = configured(tmp_path)
    two = tmp_path / "two.json5"
    two.write_text(json.dumps({"agents": {"list": [{"id": "a", "model": "openai:gpt-5"}, {"id": "b"}]}}))
    for options, said in (
        ((), "there is no agent (there is no configuration file); it lists: none; give a --model"),
        (("--agent", "c"), "'c' is not in the configuration (there is no configuration file)"),
        (("--config", two), "say which agent;"),
        (("--config", two, "--agent", "c"), "it lists: a, b"),
        (("--config", one), "has no model"),
        (("--config", two, "--agent", "a"), "OPENAI_API_KEY"),
        (("--model", "nonsense"), "nonsense"),
        (("--model", "replay:nowhere.jsonl"), "nowhere.jsonl"),
        (("--model", "replay:"), "replay: needs the file of a recording"),
    ):
        code, out, err = run("run", "t", *options)
        shown = " ".join(err.replace("│", " ").split())
        assert (code, out) == (2, ""), options
        assert said in shown, shown
        assert "Traceback" not in err
    assert not state.exists()


@pytest.mark.parametrize(("block", "said"), [({}, 1), ({"enabled": True}, 0)])
def test_a_guard_that_refuses_nothing_is_said_once(tmp_path: Path, block: dict[str, Any], said: int) -> None:
    config = configured(tmp_path)
    config.write_text(json.dumps({"agents": {"list": [{"id": "a"}]}, "tools": {"loopDetection": block}}))
    code, _, err = replayed(write(tmp_path / "a.jsonl", "abc"), "--config", config)
    assert code == 0
    assert err.count("`enabled` is not set, so repeated calls will not be refused") == said


def test_a_session_that_is_in_use_says_by_whom(tmp_path: Path, state: Path) -> None:
    with Journal(session_file(state / "sessions", "s1")):
        code, _, err = replayed(write(tmp_path / "a.jsonl", "abc"), "--session", "s1")
    assert code == 2
    assert f"s1.db is in use by process {os.getpid()}" in err


def test_without_the_extra_the_command_to_install_it_is_named() -> None:
    code = (
        "import sys; sys.modules['pydantic_ai'] = None; "
        "sys.argv = ['loopwarden', 'run', 't', '--model', 'm:m']; "
        "from loopwarden.cli.main import run; run()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.endswith("run: pip install 'loopwarden[runner]'\n")


@contextmanager
def hanging(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run whose model thinks until the end."""
    never = threading.Event()
    with ModelServer([Reply("late", wait=never)]) as server:
        begun = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "loopwarden",
                "run",
                "t",
                "--config",
                configured(tmp_path, server),
                "--session",
                "s1",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with begun:
            try:
                server.wait_for(1)
                yield begun
            finally:
                begun.kill()
                never.set()


def test_ctrl_c_ends_the_run_cleanly(tmp_path: Path, state: Path) -> None:
    with hanging(tmp_path) as begun:
        begun.send_signal(signal.SIGINT)
        out, err = begun.communicate(timeout=30)
    assert begun.returncode == 130
    assert "ending the run" in err
    assert heads(out) == ["cancelled"]
    with Journal(session_file(state / "sessions", "s1")) as journal:
        assert [one.state for one in journal.runs()] == ["cancelled"]


def test_a_killed_run_is_interrupted_and_the_next_goes_on(tmp_path: Path, state: Path) -> None:
    with hanging(tmp_path) as begun:
        begun.kill()
        begun.communicate(timeout=30)
    code, out, _ = replayed(write(tmp_path / "a.jsonl", "abc"), "--session", "s1")
    assert code == 0
    with closing(sqlite3.connect(session_file(state / "sessions", "s1"))) as kept:
        assert kept.execute("SELECT state FROM runs ORDER BY number").fetchall() == [
            ("interrupted",),
            ("done",),
        ]
    assert heads(out)[-1] == "done"


def test_files_of_old_sessions_go(tmp_path: Path) -> None:
    for number in range(5):
        path = session_file(tmp_path, f"s{number}")
        Journal(path).close()
        os.utime(path, (1000 + number, 1000 + number))
    with Journal(session_file(tmp_path, "s0")):
        os.utime(session_file(tmp_path, "s0"), (1000, 1000))
        forget_old(tmp_path, most=2)
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["s0.db", "s3.db", "s4.db"]


@pytest.mark.parametrize("session", ["../../x", "a/b", ".hidden", "x" * 300, "", "\ud800", "a\x00b", "x."])
def test_a_session_id_is_never_a_path(tmp_path: Path, session: str) -> None:
    path = session_file(tmp_path, session)
    assert path.parent == tmp_path
    Journal(path).close()


def test_without_sub_agents_none_are_counted(tmp_path: Path) -> None:
    with ModelServer([asks(Call("read", {"path": "nothing"})), Reply("Nothing.")]) as server:
        _, out, _ = run("run", "t", "--config", configured(tmp_path, server, main={}))
    assert out.splitlines()[-1].startswith("done      1 call, 2 requests, ")
    assert "sub-agents" not in out
