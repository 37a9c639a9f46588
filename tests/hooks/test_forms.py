"""Entries in the text of a settings file: put in, found, taken out; everything else stays."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.hooks.entries import Hook, SettingsError, wanted, words
from loopwarden.hooks.forms import FORMS
from loopwarden.hooks.json_tree import read_tree, value_of
from loopwarden.hooks.settings import SETTINGS, Settings

CLAUDE = SETTINGS["claude-code"]
CURSOR = SETTINGS["cursor"]
GEMINI = SETTINGS["gemini"]
KIMI = SETTINGS["kimi"]

PROGRAM = "/opt/lw/bin/loopwarden-hook"

HOOK = '{"type": "command", "command": "/opt/lw/bin/loopwarden-hook claude-code", "timeout": 10}'
OLD = HOOK.replace("/opt/lw", "/old/place")


def put(settings: Settings, text: str, program: str = PROGRAM) -> str:
    return FORMS[settings.form].put(settings, text, wanted(settings, program))


def drop(settings: Settings, text: str, base: str | None = None) -> str:
    return FORMS[settings.form].drop(settings, text, base)


def commands(settings: Settings, text: str) -> set[tuple[str, str]]:
    return {(hook.event, hook.command) for hook in FORMS[settings.form].find(settings, text)}


def expected(settings: Settings, program: str = PROGRAM) -> set[tuple[str, str]]:
    return {(hook.event, hook.command) for hook in wanted(settings, program)}


def plain(text: str) -> Any:
    """What a JSON text without comments says."""
    return json.loads(text) if text.strip() else {}


JSON_TEXTS = {
    "empty": "",
    "blank": "\n\n",
    "object": "{}",
    "object of blanks": "{ \n }\n",
    "one line": '{"model": "opus"}',
    "one line, hooks": '{"hooks": {}, "a": 1}',
    "one line, list": '{"hooks": {"PreToolUse": []}}',
    "no newline at the end": '{\n  "model": "opus"\n}',
    "four blanks": '{\n    "model": "opus",\n    "env": {\n        "A": "1"\n    }\n}\n',
    "tabs": '{\n\t"model": "opus"\n}\n',
    "windows": '{\r\n  "model": "opus"\r\n}\r\n',
    "other hooks": '{"hooks": {"PreToolUse": [{"matcher": "B", "hooks": [{"command": "x"}]}]}}',
    "empty events": '{\n  "hooks": {\n    "PreToolUse": [],\n    "Stop": []\n  },\n  "z": 1.50\n}\n',
    "last of all": '{\n  "a": [\n    1, 2\n  ],\n  "hooks": {\n    "Stop": [\n      {}\n    ]\n  }\n}\n',
    "numbers": '{"a": 1e400, "b": 12345678901234567890, "c": -0.0}',
    "escapes": '{"\\u0068ooks2": "\\ud83d\\ude00 \\"{\\\\", "b": "//"}',
    "same key twice": '{"hooks": {"Stop": []}, "hooks": {"PreToolUse": []}}',
}
COMMENTED = {
    "comment at the end of a line": '{\n  "a": 1 // one\n}\n',
    "comma and comment": '{\n  "b": 1, // one\n  "a": 1 // two\n}\n',
    "block comment": '{\n  "a": 1 /* one */ /* two */\n  // last\n}\n',
    "nothing but comments": "{\n  // nothing yet\n}\n",
    "comment outside": '// settings\n{"a": 1}\n// end\n',
    "long comment": '{\n  "a": 1 /* one\n  two */\n}\n',
    "in the list": '{\n  "hooks": {\n    "PreToolUse": [\n      // mine\n    ]\n  }\n}\n',
    "closing on the line": '{\n  "a": 1, "b": 2 /* x */ }',
}


def without_comments(text: str) -> Any:
    """Read by another reader."""
    other = pytest.importorskip("json5", reason="the package that the reader is compared with is not here")
    return other.loads(text)


@pytest.mark.parametrize("settings", [CLAUDE, CURSOR, GEMINI], ids=lambda one: one.host)
@pytest.mark.parametrize("text", JSON_TEXTS.values(), ids=JSON_TEXTS)
def test_json(settings: Settings, text: str) -> None:
    if settings is CURSOR and "command" in text:
        text = text.replace('"hooks": [{', '"x": [{')
    after = put(settings, text)
    assert commands(settings, after) == expected(settings)
    assert put(settings, after) == after
    before, now = plain(text), plain(after)
    assert {key: value for key, value in now.items() if key not in {"hooks", *settings.top}} == {
        key: value for key, value in before.items() if key != "hooks"
    }
    for event, entries in before.get("hooks", {}).items():
        assert now["hooks"][event][: len(entries)] == entries
    assert plain(drop(settings, after, text)) == before
    assert ("\r\n" in text) == ("\r\n" in after)
    assert text.count("\r\n") == 0 or "\n" not in after.replace("\r\n", "")


@pytest.mark.parametrize("text", COMMENTED.values(), ids=COMMENTED)
def test_comments_stay_where_they_are(text: str) -> None:
    after = put(GEMINI, text)
    assert commands(GEMINI, after) == expected(GEMINI)
    for line in text.splitlines():
        comment = line[line.find("/") :].rstrip(" }") if "/" in line else ""
        assert comment in after
    assert without_comments(after) == {**without_comments(text), "hooks": without_comments(after)["hooks"]}
    assert without_comments(drop(GEMINI, after, text)) == without_comments(text)


NEAT = ["no newline at the end", "four blanks", "tabs", "windows", "empty events"]


@pytest.mark.parametrize("name", NEAT)
def test_a_file_as_people_write_it_is_the_same_to_the_byte(name: str) -> None:
    text = JSON_TEXTS[name]
    assert drop(CLAUDE, put(CLAUDE, text), text) == text


def test_the_style_of_the_file_is_kept() -> None:
    after = put(CLAUDE, JSON_TEXTS["tabs"])
    assert after.startswith('{\n\t"model": "opus",\n\t"hooks": {\n\t\t"PreToolUse": [\n\t\t\t{\n')


def test_an_entry_from_an_older_place_is_replaced() -> None:
    mine = '{"type": "command", "command": "mine"}'
    text = '{"hooks": {"PreToolUse": [{"hooks": [' + f"{OLD}, {mine}" + "]}]}}"
    after = put(CLAUDE, text)
    assert commands(CLAUDE, after) == expected(CLAUDE)
    assert plain(after)["hooks"]["PreToolUse"][0] == {"hooks": [{"type": "command", "command": "mine"}]}
    assert commands(CLAUDE, put(CLAUDE, after, "loopwarden-hook")) == expected(CLAUDE, "loopwarden-hook")


def test_what_a_person_changed_beside_the_command_stays() -> None:
    text = put(CLAUDE, "").replace('"timeout": 10', '"timeout": 30')
    assert put(CLAUDE, text) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"hooks": {"A": [{"hooks": [%s]}, {"b": 1}]}}', '{"hooks": {"A": [{"b": 1}]}}'),
        ('{"hooks": {"A": [{"b": 1}, {"hooks": [%s]}]}}', '{"hooks": {"A": [{"b": 1}]}}'),
        ('{"hooks": {"A": [{"b": 1}, {"hooks": [%s]},]}}', '{"hooks": {"A": [{"b": 1},]}}'),
        ('{"hooks": {"A": [1, {"hooks": [%s]}, 2, {"hooks": [%s]}]}}', '{"hooks": {"A": [1, 2]}}'),
        ('{"hooks": {"A": [{"hooks": [%s, {"b": 1}, %s]}]}}', '{"hooks": {"A": [{"hooks": [{"b": 1}]}]}}'),
        ('{"hooks": {"A": [{"hooks": [%s]}]}, "b": 1}', '{"b": 1}'),
        ('{"b": 1, "hooks": {"A": [{"hooks": [%s]}]}}', '{"b": 1}'),
        ('{"hooks": {"A": [{"hooks": [%s]}]}}', "{}"),
        ('{"hooks": {"A": [{"hooks": [%s]}], "B": []}}', '{"hooks": {"B": []}}'),
    ],
)
def test_taken_out_of_the_middle(text: str, place: str) -> None:
    assert drop(CLAUDE, text.replace("%s", HOOK)) == place


WRONG = {
    "no object": ("[]", "is no JSON object"),
    "cut off": ('{"a": ', "line 1: the end of the file where a value is expected"),
    "no comma": ('{\n"a": 1\n"b": 2}', "line 3: '\"' where ',' or '}' is expected"),
    "no quotes": ("{a: 1}", "a key in double quotes is expected"),
    "single quotes": ("{'a': 1}", "a key in double quotes is expected"),
    "open comment": ("{} /* ", "after the end"),
    "half an escape": ('{"a": "\\u12"}', "without four hexadecimal digits"),
    "a comment that it does not read": (
        '{\n  "a": 1 // x\n}',
        "line 2: a comment, so that the agent reads nothing",
    ),
    "a comma too many": ('{\n  "a": [1,]\n}', "line 2: a comma too many, so that the agent reads nothing"),
    "too deep": ("[" * 300, "nested deeper than 200 levels"),
    "hooks of another kind": ('{"hooks": []}', '"hooks" is no object'),
    "an event of another kind": ('{"hooks": {"PreToolUse": {}}}', '"hooks.PreToolUse" is no list'),
}


@pytest.mark.parametrize(("text", "reason"), WRONG.values(), ids=WRONG)
def test_what_can_not_be_read_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=r".") as caught:
        put(CLAUDE, text)
    assert reason in str(caught.value)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
hooks = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=8)})
groups = st.fixed_dictionaries(
    {"hooks": st.lists(hooks, max_size=2)}, optional={"matcher": st.text(max_size=4)}
)
events = st.dictionaries(
    st.sampled_from(["PreToolUse", "preToolUse", "PostToolUse", "Stop", "BeforeTool"]),
    st.lists(groups, max_size=3),
    max_size=4,
)
files = st.fixed_dictionaries(
    {}, optional={"hooks": events, "version": st.just(1), "model": st.text(max_size=4)}
)
documents = st.tuples(st.dictionaries(st.text(max_size=8), values, max_size=4), files).map(
    lambda pair: {**{key: value for key, value in pair[0].items() if key != "hooks"}, **pair[1]}
)
layouts = st.sampled_from([None, 2, 4, "\t"])


@given(documents, layouts, st.sampled_from(["claude-code", "codex", "gemini", "qwen", "cursor", "copilot"]))
def test_in_and_out_says_the_same(document: Any, layout: Any, host: str) -> None:
    settings = SETTINGS[host]
    text = json.dumps(document, indent=layout)
    after = put(settings, text)
    assert commands(settings, after) == expected(settings)
    assert put(settings, after) == after
    moved = put(settings, after, "loopwarden-hook")
    assert commands(settings, moved) == expected(settings, "loopwarden-hook")
    assert json.loads(drop(settings, moved, text)) == document


TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\[\]{}:,"\s]+')
fillers = st.sampled_from(["", "", " ", "\n", "\r\n", "\t", "\n\n    ", "/* c */", " // c\n", "/* a\n b */ "])


@st.composite
def untidy(draw: st.DrawFn, *, commas: bool = True) -> tuple[str, Any]:
    """A document as text with blanks and comments anywhere, and commas after last entries."""
    document = draw(documents)
    pieces = [draw(fillers)]
    for token in TOKEN.findall(json.dumps(document)):
        if commas and token in {"}", "]"} and pieces[-2] not in {"{", "["} and draw(st.booleans()):
            pieces += [",", draw(fillers)]
        pieces += [token, draw(fillers)]
    return "".join(pieces), document


def in_and_out(settings: Settings, text: str, document: Any) -> None:
    after = put(settings, text)
    assert commands(settings, after) == expected(settings)
    assert value_of(after, read_tree(after)).keys() >= document.keys()
    back = drop(settings, after, text)
    assert value_of(back, read_tree(back)) == value_of(text, read_tree(text))
    assert back.count("/*") == text.count("/*")
    assert back.count("//") == text.count("//")


@given(untidy())
def test_in_and_out_of_an_untidy_text(given_text: tuple[str, Any]) -> None:
    in_and_out(CURSOR, *given_text)


@given(untidy(commas=False), st.sampled_from(["gemini", "qwen"]))
def test_in_and_out_of_a_text_with_comments(given_text: tuple[str, Any], host: str) -> None:
    in_and_out(SETTINGS[host], *given_text)


@given(untidy(), st.sampled_from(["gemini", "qwen"]))
def test_a_comma_that_the_host_does_not_read_is_refused(given_text: tuple[str, Any], host: str) -> None:
    """Taken without comments by a reader that knows none, it is fine or it is refused."""
    text, document = given_text
    bare = re.sub(
        r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or "", text, flags=re.DOTALL
    )
    try:
        fine = json.loads(bare) == document
    except ValueError:
        with pytest.raises(SettingsError, match="a comma too many"):
            put(SETTINGS[host], text)
    else:
        assert fine
        in_and_out(SETTINGS[host], text, document)


TOML_TEXTS = {
    "empty": "",
    "keys": 'default_model = "k3"\n',
    "no newline": 'default_model = "k3"',
    "windows without a newline": "a = 1\r\nb = 2",
    "blanks": "  ",
    "tables": '# mine\n[providers.x]\ntype = "kimi" # why\n\n\n[models."a.b"]\nn = 1\n',
    "hooks": '[[hooks]]\nevent = "Stop"\ncommand = "say [[hooks]]"\n# end\n',
    "windows": 'a = 1\r\n[b]\r\nc = """x\r\n[[hooks]]\r\n"""\r\n',
}


@pytest.mark.parametrize("text", TOML_TEXTS.values(), ids=TOML_TEXTS)
@pytest.mark.parametrize("program", [PROGRAM, "'/a b/\"x\\/\x7fö/loopwarden-hook'"])
def test_toml(text: str, program: str) -> None:
    after = put(KIMI, text, program)
    assert after.startswith(text)
    assert commands(KIMI, after) == expected(KIMI, program)
    assert put(KIMI, after, program) == after
    assert drop(KIMI, after) == text
    more = after + '\n# and\n[last]\nx = """\n[[hooks]]\nevent = 1\n"""\n'
    assert tomllib.loads(drop(KIMI, more)) == {**tomllib.loads(text), "last": {"x": "[[hooks]]\nevent = 1\n"}}
    assert "# and\n" in drop(KIMI, more)


def test_a_number_of_any_length_stays() -> None:
    text = f'{{"a": {"1" * 5000}}}\n'
    for settings in (CLAUDE, CURSOR):
        assert drop(settings, put(settings, text), text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = ", "is no TOML"),
        ('hooks = [{event = "Stop", command = "x"}]\n', "in another form than [[hooks]] tables"),
        ("[hooks]\na = 1\n", "in another form than [[hooks]] tables"),
        (f"a = {'1' * 5000}\n", "is no TOML"),
    ],
)
def test_toml_that_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        put(KIMI, text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("loopwarden-hook codex", ["loopwarden-hook", "codex"]),
        ("'/a b/loopwarden-hook' copilot preToolUse", ["/a b/loopwarden-hook", "copilot", "preToolUse"]),
        ("C:/x/loopwarden-hook.exe codex", ["C:/x/loopwarden-hook.exe", "codex"]),
        ("LOOPWARDEN_MODE=observe loopwarden-hook codex", ["loopwarden-hook", "codex"]),
        ("env A='1 2' B= /x/loopwarden-hook codex", ["/x/loopwarden-hook", "codex"]),
        ("env -i loopwarden-hook codex", []),
        ("A=loopwarden-hook codex", []),
        ("my-loopwarden-hook codex", []),
        ("echo loopwarden-hook", []),
        ("'/loopwarden-hook codex", []),
        ("loopwarden-hook codex && rm -r x", []),
        (None, []),
    ],
)
def test_which_commands_are_ours(command: object, found: list[str]) -> None:
    assert words(command) == found


def test_a_hook_is_what_the_table_says() -> None:
    assert wanted(SETTINGS["copilot"], "loopwarden-hook")[0] == Hook(
        event="preToolUse",
        command="loopwarden-hook copilot preToolUse",
        entry={"type": "command", "bash": "loopwarden-hook copilot preToolUse", "timeoutSec": 10},
    )
