"""`loopwarden scan`: what is printed where, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from loopwarden.cli.main import app
from loopwarden.cli.scan import notice_line
from loopwarden.scan.follow import Notice
from loopwarden.scan.json_report import report_schema
from loopwarden.transcripts.locations import known_locations
from tests.scan.recordings import lines, write
from tests.scan.strips import scan_strip

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the machine's configuration nor its sessions."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("LOOPWARDEN_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")


def on_screen(columns: int, *arguments: str) -> str:
    """What a terminal with so many columns is sent."""
    pty = pytest.importorskip("pty")
    termios, fcntl = pytest.importorskip("termios"), pytest.importorskip("fcntl")
    screen, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    command = [sys.executable, "-m", "loopwarden", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=end, stderr=end, env=environment | {"TERM": "xterm"}
    ):
        os.close(end)
        sent = bytearray()
        with contextlib.suppress(OSError):  # which is how a terminal ends
            while piece := os.read(screen, 65536):
                sent += piece
    os.close(screen)
    return sent.decode().replace("\r\n", "\n")


@pytest.fixture
def fine(tmp_path: Path) -> Path:
    return write(tmp_path / "runs" / "fine.jsonl", "abcdefgh")


@pytest.fixture
def warning(tmp_path: Path) -> Path:
    return write(tmp_path / "runs" / "warning.jsonl", "a" * 12)


@pytest.fixture
def critical(tmp_path: Path) -> Path:
    return write(tmp_path / "runs" / "critical.jsonl", "a" * 25)


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "unknown.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("this is no recorded run\n")
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_text(critical: Path) -> None:
    code, out, _ = run("scan", critical)
    assert code == 0
    assert out.startswith("1 file, 1 run, 25 calls\n1 loop in 1 run")
    assert "hunter2" not in out


def test_exit_codes(fine: Path, warning: Path, critical: Path, unknown: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none.jsonl"
    table: list[tuple[list[object], int]] = [
        ([fine], 0),
        ([critical], 0),
        ([fine, "--fail-on", "warning"], 0),
        ([warning, "--fail-on", "warning"], 1),
        ([critical, "--fail-on", "warning"], 1),
        ([warning, "--fail-on", "critical"], 0),
        ([critical, "--fail-on", "critical"], 1),
        ([fine, unknown], 3),
        ([critical, unknown, "--fail-on", "critical"], 1),
        ([fine, missing], 3),
        ([missing], 2),
        ([fine, "--since", "soon"], 2),
        ([fine, "--format", "clod-code"], 2),
        ([fine, "--agent", "nobody"], 2),
        ([fine, "--config", missing], 2),
        ([fine, "--fail-on", "anything"], 2),
        ([fine, "--jobs", "0"], 2),
        ([fine, "--follow", "--json"], 2),
        ([fine, "--html", missing / "x.html"], 2),
    ]
    for arguments, expected in table:
        code, out, err = run("scan", *arguments)
        assert code == expected, (arguments, out, err)
        assert "Traceback" not in out + err


def test_a_file_of_no_known_format_is_one_line(fine: Path, unknown: Path) -> None:
    _, out, _ = run("scan", fine.parent)
    assert "2 files, 1 run, 8 calls" in out
    assert f"  {unknown}: no known format of recorded runs\n" in out
    (record,) = [file for file in json.loads(run("scan", unknown, "--json")[1])["files"] if file["error"]]
    assert record["why"] == "unknown_format"


def test_an_empty_file_in_a_folder_is_no_fault(fine: Path) -> None:
    empty = fine.with_name("empty.jsonl")
    empty.write_text("")
    assert run("scan", fine.parent)[0] == 0
    assert run("scan", fine, empty)[0] == 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_json_is_all_there_is_on_standard_output(fine: Path, critical: Path, jobs: int) -> None:
    code, out, err = run("scan", fine, critical, "--json", "--jobs", jobs)
    document = json.loads(out)
    jsonschema.Draft202012Validator(report_schema()).validate(document)
    assert (code, err) == (0, "")
    assert document["totals"]["loops"] == 1
    assert document["runs"][0]["loops"][0]["detector"] == "generic_repeat"


def test_the_schema_is_printed() -> None:
    code, out, _ = run("scan", "--json-schema")
    assert code == 0
    assert json.loads(out) == report_schema()


def test_a_page_is_written(critical: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, out, _ = run("scan", critical, "--html", page)
    assert code == 0
    assert str(page) in out
    assert page.read_text().startswith("<!doctype html>")


def test_a_configuration(critical: Path, tmp_path: Path) -> None:
    config = tmp_path / "loops.json5"
    config.write_text("{ enabled: true, warningThreshold: 30, agents: { list: [] } }")
    code, _, err = run("scan", critical, "--config", config)
    assert code == 2
    assert "agents" in err
    config.write_text("{ tools: { loopDetection: { warningThreshold: 24, criticalThreshold: 23 } } }")
    code, out, _ = run("scan", critical, "--config", config)
    assert code == 0
    assert "1 repetition would only have been warned about" in out
    assert "config: " in out


def test_since_leaves_out_what_ended_before(critical: Path) -> None:
    assert json.loads(run("scan", critical, "--json", "--since", "2099-01-01")[1])["totals"]["runs"] == 0
    assert json.loads(run("scan", critical, "--json", "--since", "3w")[1])["totals"]["runs"] == 1


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ([], "loopwarden scan critical.jsonl"),
        (
            ["--agent", "a da", "--config", "c.json5"],
            "loopwarden scan critical.jsonl --config c.json5 --agent 'a da'",
        ),
        (["--since", "3w"], "loopwarden scan critical.jsonl --since 3w"),
        (["x" * 100, "--since", "3w"], "loopwarden scan ... --since 3w"),
        (["a\nb"], "loopwarden scan ..."),
        (["--format", "events", "."], "loopwarden scan critical.jsonl . --format events"),
    ],
)
def test_the_hint_repeats_what_was_scanned(
    critical: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], command: str
) -> None:
    monkeypatch.chdir(critical.parent)
    Path("c.json5").write_text('{ agents: { list: [{ id: "a da" }] } }')
    out = run("scan", critical.name, *arguments)[1]
    assert f"To see every call of the runs: {command} --html report.html\n" in out


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_on_a_screen(critical: Path, unknown: Path, columns: int) -> None:
    """Nothing breaks and nothing is wider than the screen, but for what is there to be copied."""
    out = on_screen(columns, "scan", str(critical), str(unknown), "--top", "3")
    assert "Scanning" in out
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.rpartition("Scanning")[2]).splitlines()[1:]
    whole = [line for line in shown if str(critical.parent) in line]
    assert any(line.strip() == str(critical) or line.endswith(f" in {critical}") for line in whole)
    assert max(len(line) for line in shown if line not in whole) <= columns


def test_nothing_moves_where_there_is_no_screen(critical: Path) -> None:
    command = [sys.executable, "-m", "loopwarden", "scan", str(critical)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""
    assert "\x1b" not in ended.stdout
    assert "\r" not in ended.stdout


def test_the_help_names_every_program() -> None:
    said = " ".join(run("scan", "--help")[1].split())
    assert [place.program for place in known_locations() if place.program not in said] == []


def test_without_a_path_the_programs_folders_are_searched(tmp_path: Path) -> None:
    code, out, _ = run("scan")
    assert code == 0
    for program in ("Claude Code", "Codex CLI", "Gemini CLI", "OpenClaw", "opencode", "Hermes", "Qwen Code"):
        assert f"  {program}: " in out
    write(tmp_path / "home" / ".codex" / "sessions" / "rollout-1.jsonl", "a" * 12)
    out = run("scan")[1]
    assert "sessions: 1 file\n" in out
    assert "1 repetition would only have been warned about" in out


def test_standard_input() -> None:
    result = RUNNER.invoke(app, ["scan", "-", "--json"], input=lines("a" * 12))
    assert json.loads(result.stdout)["files"][0]["path"] == "(standard input)"
    assert json.loads(result.stdout)["totals"]["repetitions"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["scan", "--help"],
        ["scan", "FILES"],
        ["scan", "FILES", "--json"],
        ["scan", "FILES", "--fail-on", "critical"],
        ["scan", "FILES", "--json", "--fail-on", "critical"],
        ["scan", "--json-schema"],
        ["scan", "--follow", "FILES"],
        ["explain", "all"],
        ["explain", "cycle"],
        ["replay", "FILE"],
        ["config", "schema"],
        ["config", "show"],
        ["config", "check"],
    ],
    ids=" ".join,
)
def test_a_reader_that_goes_away_is_no_fault(critical: Path, unknown: Path, arguments: list[str]) -> None:
    """Whatever is left to say and however the command would have ended."""
    given = {"FILES": [str(critical), str(unknown)], "FILE": [str(critical)]}
    words = [word for argument in arguments for word in given.get(argument, [argument])]
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "loopwarden", *words]
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 141, err
    assert b"Traceback" not in err
    assert b"Broken" not in err


def test_a_check_that_cannot_fail_is_wrong_use(critical: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(critical.parent)
    Path("loopwarden.json5").write_text("{ enabled: false }")
    code, out, err = run("scan", critical, "--fail-on", "warning")
    assert (code, out) == (2, "")
    words = " ".join(err.split())
    assert "cannot fail: loopwarden.json5 switches all detectors off (enabled: false)" in words
    code, out, _ = run("scan", critical)
    assert code == 0
    assert out.startswith("The configuration switches all detectors off (enabled: false)\n1 file")
    assert json.loads(run("scan", critical, "--json")[1])["switchedOff"] is True


def test_a_line_of_follow_names_the_file_once() -> None:
    run = scan_strip("a" * 9)
    for title, path, said in (
        ("/there/a.json", "/there/a.json", "call 9 in /there/a.json"),
        ("1a2b", "/there/rollout-1a2b.jsonl", "call 9 in /there/rollout-1a2b.jsonl"),
        ("fix it", "/there/a.json", "call 9 of fix it in /there/a.json"),
    ):
        notice = Notice(file=path, run=replace(run, title=title), loop=run.loops[0], stage="begins")
        line = notice_line(notice).plain
        assert line.endswith(said)
        assert " critical generic_repeat begins: one call, 9 times: look(" in line


def test_follow_needs_something_to_follow(tmp_path: Path) -> None:
    code, _, err = run("scan", "--follow", tmp_path / "none.jsonl")
    assert code == 2
    assert "none.jsonl: no such file or folder" in " ".join(err.split())


@pytest.mark.parametrize("name", ["codex", "openai-chat", "hermes", "inspect-ai", "atif", "claude-code"])
def test_a_file_of_another_format_than_named(critical: Path, name: str) -> None:
    code, out, _ = run("scan", critical, "--format", name)
    assert code == 3
    assert f"  {critical}: not a {name} file" in out


def test_since_says_what_it_left_out(critical: Path) -> None:
    out = run("scan", critical, "--since", "2099-01-01")[1]
    assert "1 file holds only older runs." in out
    os.utime(critical, (1_900_000_000, 1_900_000_000))
    assert "1 file holds only older runs." in run("scan", critical, "--since", "2029-01-01")[1]
    assert (
        json.loads(run("scan", critical, "--since", "2099-01-01", "--json")[1])["totals"]["filesOnlyOlder"]
        == 1
    )
