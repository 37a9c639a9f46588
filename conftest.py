"""Runs the documentation as tests: README.md, docs/ and the docstrings of src/.

Every document gets an empty folder to run in, with `examples/` and `tests/` linked into it.

- `python` blocks run, sharing their names within a document; those that begin with `>>>` are compared.
- `console` and `bash` blocks: the lines `$ loopwarden ...` run. Output is compared where it is given
  (`...` stands for anything) and has to be what the terminal would show, 80 columns wide, no colour.
  A command must succeed, unless `$ echo $?` follows and shows the code it ends with. One that ends in `&`
  goes on until it is over or the document is. Other commands are for the reader and don't run, but
  `$ cat NAME` with text below makes that file, if it isn't there.
- `json` and `json5` blocks have to parse. One that begins with `// NAME` is that file, too.

`<!-- skip: next "reason" -->` in front of a block leaves it out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import json5
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from sybil.sybil import SybilCollection
from tests.event_loops import closed_at_the_end

if TYPE_CHECKING:
    from sybil.typing import Parser

ROOT = Path(__file__).parent
CONSOLE_SECONDS = 60


def enter_folder(namespace: dict[str, Any]) -> None:
    """Make the document's folder and go there."""
    folder = tempfile.TemporaryDirectory(prefix="loopwarden-docs-")
    namespace["_folder"], namespace["_back"] = folder, Path.cwd()
    namespace["_loop"] = closed_at_the_end()
    namespace["_loop"].__enter__()
    for name in ("examples", "tests"):
        (Path(folder.name) / name).symlink_to(ROOT / name)
    os.chdir(folder.name)


def leave_folder(namespace: dict[str, Any]) -> None:
    """End what goes on in the background, go back and remove the document's folder."""
    for process in namespace.get("_background", ()):
        process.terminate()
        process.wait(CONSOLE_SECONDS)
    namespace["_loop"].__exit__(None, None, None)
    os.chdir(namespace["_back"])
    namespace["_folder"].cleanup()


def shell(line: str) -> dict[str, Any]:
    """How a shell line is started."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    width = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "PYTHONUTF8": "1"}
    plain = {"NO_COLOR": "1", "FORCE_COLOR": "", "TERM": "dumb", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
    return {
        "args": ["bash", "-o", "pipefail", "-c", line],
        "env": os.environ | width | plain | {"PATH": path},
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }


def run_line(line: str) -> tuple[str, int]:
    """Run one shell line and give what the terminal would show, and the exit code."""
    ended = subprocess.run(**shell(line), timeout=CONSOLE_SECONDS, check=False)
    return ended.stdout.decode("utf-8", "replace"), ended.returncode


def evaluate_console(example: Example) -> str | None:
    """Run the block's `loopwarden` lines; the answer is what is wrong, `None` if nothing is."""
    commands = re.split(r"^\$ ", str(example.parsed).replace("\\\n", ""), flags=re.MULTILINE)[1:]
    code, ran, shown = 0, "", ""
    for command in commands:
        line, _, wanted = command.partition("\n")
        if line.strip() == "echo $?" and ran:
            shown, code = f"{code}\n", 0
        elif code:
            return f"$ {ran}\nended with {code}, and no `$ echo $?` follows that says so:\n{shown}"
        elif line.startswith("loopwarden ") and line.rstrip().endswith(" &"):
            background = example.namespace.setdefault("_background", [])
            alone = f"exec {line.rstrip().removesuffix('&')}"
            background.append(subprocess.Popen(**shell(alone) | {"stdout": subprocess.DEVNULL}))
            continue
        elif shlex.split(line, comments=True)[:1] == ["loopwarden"]:
            ran = line
            shown, code = run_line(line)
        elif (shows := re.fullmatch(r"cat ([\w.-]+)", line.strip())) and wanted.strip():
            ran, file = line, Path(shows[1])
            if not file.exists():
                file.write_text(wanted, encoding="utf-8")
            shown = file.read_text(encoding="utf-8")
        else:
            continue
        shown = "\n".join(row.rstrip() for row in shown.splitlines()).strip("\n") + "\n"
        if wanted.strip() and not OutputChecker().check_output(wanted.strip("\n") + "\n", shown, ELLIPSIS):
            return f"$ {line}\nshould show\n{wanted}\nbut shows\n{shown}"
    return f"$ {ran}\nended with {code}:\n{shown}" if code else None


def evaluate_json(example: Example) -> None:
    """Parse a JSON block."""
    json.loads(example.parsed)


def evaluate_json5(example: Example) -> None:
    """Parse a JSON5 block, and write the file that its first line names."""
    text = str(example.parsed)
    json5.loads(text)
    if named := re.match(r"// ([\w.-]+)\n", text):
        Path(named[1]).write_text(text, encoding="utf-8")


DOCTEST = ELLIPSIS | NORMALIZE_WHITESPACE
PAGE: list[Parser] = [
    SkipParser(),
    PythonCodeBlockParser(doctest_optionflags=DOCTEST),
    *(CodeBlockParser(language, evaluate_console) for language in ("console", "bash")),
    CodeBlockParser("json", evaluate_json),
    CodeBlockParser("json5", evaluate_json5),
]
DOCSTRING: list[Parser] = [DocTestParser(DOCTEST), PythonCodeBlockParser(doctest_optionflags=DOCTEST)]

pytest_collect_file = SybilCollection(
    Sybil(parsers, path=path, pattern=pattern, exclude=exclude, setup=enter_folder, teardown=leave_folder)
    for parsers, path, pattern, exclude in (
        (PAGE, ".", "*.md", "*/*.md"),
        (PAGE, "docs", "*.md", None),
        (DOCSTRING, "src", "*.py", None),
    )
).pytest()
