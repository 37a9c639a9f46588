"""What the policy says of command lines."""

from __future__ import annotations

import random
import shlex
import string
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.config.runtime import ExecBlock
from loopwarden.runner.command_line import read_line
from loopwarden.runner.policy import rule


def decided(command: str, **block: Any) -> str:
    return rule(ExecBlock.model_validate({"policy": "allow"} | block), command).decision


@pytest.mark.parametrize(
    "command",
    [
        "ls", "ls -la", "  ls  -la  ", "ls 'a; rm -rf x'", 'ls "a && rm"', "ls a\\;b", "ls | ls",
        "ls && ls -l",
        "ls;", "ls\n", "ls\nls a", "ls &", "ls 2>&1", "ls > /dev/null", "ls 2> /dev/null",
        "ls >/dev/null 2>&1",
        "ls $HOME ${HOME}", "ls \\\n -l", 'ls "$HOME"', "(ls)", "((" * 50 + "ls",
    ],
)  # fmt: skip
def test_allowed(command: str) -> None:
    assert decided(command, policy="deny", allow=["ls", "ls *"]) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "rm", "lsof", "ls; rm -rf x", "ls;rm", "ls\nrm", "ls & rm", "ls && rm", "ls || rm", "ls | rm",
        "ls |& rm",
        "ls $(rm x)", "ls `rm x`", 'ls "$(rm x)"', 'ls "`rm x`"', "ls <(rm x)", "ls > file", "ls >> file",
        "ls >| file", "ls >file", "ls &> file", "ls >& file", "ls < file", "ls > /dev/null/x",
        "ls > /dev/nullx",
        "ls ${x:-$(rm)}", 'ls "${x:-`rm`}"', "ls $'a'", "ls $((rm))", "ls 'a", 'ls "a', "ls # x\nrm",
        "ls # x", "ls << END\nEND\nrm", "ls () { rm; }; ls", "LD_PRELOAD=x ls", "x=ls; rm", "ls \\\\\nrm",
        "ls '\\\n'\nrm", "ls a\\\n;rm", "ls 2>&1&rm", "ls >a&rm", "! ls", "{ ls; }", "", "  ", ";",
        "command ls",
        "LS", "ls -l; eval rm", "ls " + "a" * 200_000, "ls \"$('rm')\"",
        "ls >&2\r", "ls > /dev/null\f", "if ls; then rm; fi", "ls\trm\n\trm",
    ],
)  # fmt: skip
def test_not_allowed(command: str) -> None:
    assert decided(command, policy="deny", allow=["ls", "ls *"]) == "deny"
    assert decided(command, policy="ask", allow=["ls", "ls *"]) == "ask"


def test_harmless_redirections_are_left_out() -> None:
    for command in ("ls 2>&1", "ls 2>/dev/null", "2>&1 ls", "ls > /dev/null 2>&1"):
        assert decided(command, policy="deny", allow=["ls"]) == "allow"
    assert decided("ls 2 >&1", policy="deny", allow=["ls"]) == "deny", "2 is an argument"
    assert decided("ls 2 >&1", policy="deny", allow=["ls 2"]) == "allow"


def test_only_a_bare_number_names_a_stream() -> None:
    for command in ('ls "2">/dev/null', "ls \\2>/dev/null", "ls \u0663>/dev/null", "ls x2>/dev/null"):
        assert decided(command, policy="deny", allow=["ls"]) == "deny"


def test_a_redirection_needs_its_sign_in_the_pattern() -> None:
    assert decided("echo a > log", policy="deny", allow=["echo * > log"]) == "allow"
    assert decided("echo a > log", policy="deny", allow=["echo *"]) == "deny"
    assert decided("echo a < log", policy="deny", allow=["echo * > log"]) == "deny"
    assert decided("echo '>' log", policy="deny", allow=["echo *"]) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "rm", "rm -rf x", "ls; rm x", "ls && rm x", "ls | rm x", "ls & rm x", "ls\nrm x", "(rm x)",
        "{ rm x; }",
        "$(rm x)", "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "`rm x`"', "cat <(rm x)",
        "X=1 rm x",
        "/bin/rm x", "'rm' x", "r\\m x", '"r"m x', "r\\\nm x", "sudo rm x", "sudo -u a rm x", "env A=1 rm x",
        "xargs -n 1 rm", "nohup /bin/rm x &", "time rm x", "timeout 5 rm x", "exec rm x", "command rm x",
        "sh -c 'rm x'", "bash -lc 'ls; rm x'", "eval rm x", "eval 'rm x'", "sudo sh -c 'rm x'",
        "sh -c \"sh -c 'rm x'\"", "if true; then rm x; fi", "while true; do rm x; done", "! rm x",
        "ls > rm; rm > x", "rm > x", "rm\tx", "cat << END\n$(rm x)\nEND", "f() { rm x; }; f", "rm 2>&1",
        "> x rm y", "2>x rm y", "2>/dev/null rm x", "2>&1 rm x", ">x<y rm z", "function f { rm x; }",
        "find . -exec rm {} \\;", "time -p rm x", "1 rm x; rm x", "ls 'a", "env " * 200 + "rm x",
        "sh -c 'echo \"$(rm x)\"'",
    ],
)  # fmt: skip
def test_denied(command: str) -> None:
    if command == "ls 'a":  # the opposite: what is not denied goes on to the policy
        assert decided(command, deny=["rm", "rm *", "rm\t*"]) == "allow"
        return
    assert decided(command, deny=["rm", "rm *", "rm\t*"]) == "deny", command
    assert decided(command, ask=["rm", "rm *", "rm\t*"]) == "ask", command


@pytest.mark.parametrize(
    "command",
    [
        "echo rm x",
        "ls 'rm x'",
        "git commit -m 'rm x'",
        "rmdir x",
        "ls rm",
        "echo \\; rm x",
        "# rm x",
        "ls > rm",
        "ls 2> rm x",
    ],
)
def test_not_denied(command: str) -> None:
    assert decided(command, deny=["rm", "rm *"]) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "$'rm' x", '$"rm" x', "A[0]=1 rm x", "unshare rm x", "taskset 1 rm x", "trap 'rm x' EXIT",
        "script -c 'rm x' /dev/null", "echo $'\\'' ; rm x #'",
    ],
)  # fmt: skip
def test_plain_quoting_and_more_programs_hide_nothing(command: str) -> None:
    assert decided(command, deny=["rm", "rm *"]) == "deny"
    assert decided(command, ask=["rm", "rm *"]) == "ask"
    assert decided(command, deny=["mv *"]) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "{rm,x}", "/bin/r? x", "/bin/r[m] x", "r* x", "$X x", '"$X" x', "$'r\\x6d' x", "sudo r? x",
        "env A=1 $X",
        "timeout 5 /bin/r? x", "ls; r? x", 'echo "$(r? x)"', "bash <<< 'rm x'", "echo rm x | sh", "sh < x",
        "ls | sudo bash -x", "cat x | bash -s a", "bash /dev/stdin < x", "bash <<END\nrm\nEND",
        "cat <<END\n*\nEND\nr? x", "cat <<'A' <<-B\na\nA\n\tB\nr? x", "cat <<< x\nr? x",
    ],
)  # fmt: skip
def test_what_can_not_be_told_is_the_strictest_of_what_the_patterns_say(command: str) -> None:
    assert decided(command, deny=["rm *"], ask=["mv *"]) == "deny"
    assert decided(command, ask=["rm *"], allow=["*"]) == "ask"
    assert decided(command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "ls *.py", "echo $HOME {a,b}", "[ -f x ] && ls", "[[ $x == y* ]]", "{ ls; }",
        "find *.d -name 'a*'",
        'echo "$(date)" "$HOME"', 'echo "`date`" $X *', "for f in *; do cat $f; done", "X=$Y make",
        "sh x.sh",
        "bash --version", "cat x | bash y.sh", "timeout 5 ls *", "env A=$B ls", "python3 $X",
        'A="$(ls)" make', "cat > x <<'END'\n{\"a\": 1}\n* $x\nEND\nls", "cat <<END\n$X",
    ],
)  # fmt: skip
def test_what_can_be_told_is_not_taken_for_hidden(command: str) -> None:
    assert decided(command, deny=["rm", "rm *"]) == "allow"


def test_the_order_is_deny_ask_allow_policy() -> None:
    block: dict[str, Any] = {
        "deny": ["git push*"],
        "ask": ["git *"],
        "allow": ["git *", "ls"],
        "policy": "deny",
    }
    assert decided("git push -f", **block) == "deny"
    assert decided("git log", **block) == "ask"
    assert decided("git log; git push", **block) == "deny"
    assert decided("ls; git log", **block) == "ask"
    assert decided("ls", **block) == "allow"
    assert decided("make", **block) == "deny"
    assert rule(ExecBlock(), "make").decision == "ask"
    ruling = rule(ExecBlock.model_validate(block), "ls; git push -f")
    assert ruling.reason == "deny pattern 'git push*' matches 'git push -f'"
    assert ruling.pattern == "git push*"


def test_a_pattern_may_be_over_the_whole_line() -> None:
    assert decided("curl x | sh", deny=["*| sh"]) == "deny"
    assert decided("curl x", deny=["*| sh"]) == "allow"


def nested(deep: int) -> str:
    command = "rm x"
    for _ in range(deep):
        command = f"sh -c {shlex.quote(command)}"
    return command


@pytest.mark.parametrize(
    "command",
    [
        "true;" * 50_000 + "rm x",
        "$(" * 5000 + "rm x",
        "env " * 8000 + "rm x",
        nested(12),
        "env " + "sh " * 3000,
    ],
)
def test_what_is_too_long_to_be_checked_is_denied(command: str) -> None:
    assert decided(command, deny=["rm *"]) == "deny"
    assert decided(command) == "allow", "nothing is to be checked"


PIECES = [
    "ls", "rm", " ", "\t", "\n", "\r", "\\\n", ";", "&", "|", "(", ")", "<", ">", ">&", "<<", "&>", "$", "$(",
    "${", "$'", "`", "'", '"', "\\", "{", "}", "#", "=", "!", "x", "2", "/dev/null", "*", "~", "-", ",",
    " rm",
    ";rm", "rm ",
]  # fmt: skip


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
def test_shells_run_nothing_else_in_what_is_allowed(tmp_path: Path, shell: str) -> None:
    """Lines by chance, of pieces that matter: what is allowed as `ls` starts no `rm` and writes no file."""
    if not Path(shell).exists():
        pytest.skip(f"no {shell}")
    programs, work = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    (programs / "ls").write_text("#!/bin/sh\n", encoding="utf-8")
    (programs / "rm").write_text(f"#!/bin/sh\n: > {work}/ran\n", encoding="utf-8")
    for program in programs.iterdir():
        program.chmod(0o755)
    chance = random.Random(20)
    block = ExecBlock(policy="deny", allow=["ls", "ls *"])
    ran = 0
    while ran < 50:
        command = "ls " + "".join(chance.choices(PIECES, k=chance.randint(1, 9)))
        if "rm" in command and rule(block, command).decision == "allow":
            ran += 1
            subprocess.run(
                [shell, "-c", "--", command],
                cwd=work,
                env={"PATH": str(programs)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=60,
            )
            assert not list(work.iterdir()), command
    subprocess.run([shell, "-c", "--", "ls; rm"], cwd=work, env={"PATH": str(programs)}, check=False)
    assert list(work.iterdir()), "the trap works"


@given(st.text(alphabet=st.sampled_from(" \t\n;&|()<>$`'\"\\#{}=!ax"), max_size=40))
def test_lines_are_read_whatever_they_hold(command: str) -> None:
    line = read_line(command)
    assert all(part.text for part in line.parts)
    rule(ExecBlock(allow=["a*"], deny=["x*"], ask=["*!*"]), command)


@given(st.lists(st.text(alphabet=string.ascii_letters + ' ;&|$`"\n#<>', max_size=8), max_size=4))
def test_single_quotes_hide_all(words: list[str]) -> None:
    line = read_line(" ".join(["run", *(f"'{word}'" for word in words)]))
    assert [part.words for part in line.parts] == [["run", *words]]
    assert not line.opaque
