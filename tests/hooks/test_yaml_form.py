"""Hooks in a YAML settings file: put into what is understood, all else is left alone with one message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.hooks.entries import NotUnderstoodError
from loopwarden.hooks.settings import SETTINGS
from loopwarden.hooks.yaml_form import said
from loopwarden.hooks.yaml_scalars import YamlTextError
from loopwarden.hooks.yaml_scan import read_yaml
from tests.hooks.test_forms import PROGRAM, commands, drop, expected, put

HERMES = SETTINGS["hermes"]

MINE = "command: /a/mine.sh"
TEXTS = {
    "empty": "",
    "comments": "# nothing\n\n  # yet\n",
    "a start": "--- # one\nmodel: x\n",
    "others": "model:\n  name: x\n# last\n",
    "no newline": "model: x",
    "hooks": "hooks:\n  pre_tool_call:\n    - matcher: terminal\n      command: /a/b.sh\nafter: 1\n",
    "quoted keys": '"hooks":\n  \'pre_tool_call\':\n    - "command": "mine"\n',
    "same depth": "hooks: #\n    pre_tool_call:\n    - command: 'it''s' # x\n      timeout: 3\n    x: []\n",
    "no hooks": "hooks: {}  # none\nz: 1\n",
    "hooks of nothing": "hooks:\nz: 1\n",
    "an empty event": "hooks:\n  post_tool_call:\nz: 1\n",
    "windows": "a: 1\r\nhooks:\r\n  pre_tool_call:\r\n    - command: x\r\n",
    "hooks in a block": "prompt: |\n  hooks:\n\n   pre_tool_call:\n  # no comment\nz: >-\n  x: y\n",
    "hooks in quotes": "prompt: \"one\nhooks:\n  pre_tool_call:\n\"\nz: 'it''s\n\n  hooks: x'\n",
    "hooks in brackets": "a: [x, {hooks: 1},\n  'hooks:',\n]\nb: {\"hooks\": [1, 2], c: }\n",
    "hooks deeper": "a:\n  hooks:\n    pre_tool_call: 1\n",
    "words on more lines": "a: one\n  two - hooks\n\n  three\nb: 1\n",
    "anchors": "base: &base\n  a: 1\nother:\n  <<: *base\n  l: &l [1]\n  m: *l\n",
    "lists": "a:\n- - 1\n  - x: 1\n    y:\n    - 2\n-\n- z\n",
    "hooks without an end": "hooks:\n  pre_tool_call:\n  - command: x",
    "hooks before the last": "hooks:\n  pre_tool_call:\n  - command: x\nz: 1",
    "windows without an end": "a: 1\r\nb: 2",
    "odd words": "a: http://x:1/#y\nb: -1\nc: a#b\nd?: ?x",
    "comment between": "hooks:\n  # a\n  pre_tool_call:\n    # b\n    - command: x\n\n    # c\n  # d\nz: 1\n",
    "letters": 'ä: "\\u00e4\\x41\\\n  b" # ö\n\U0001f600: 1\n',
    "last is a block": "hooks:\n  other:\n    - command: |\n        x\n        y\n\n\n# end\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_in_and_out(text: str) -> None:
    after = put(HERMES, text)
    assert commands(HERMES, after) == expected(HERMES)
    assert put(HERMES, after) == after
    assert drop(HERMES, after, text) == text
    kept = iter([line.replace("{}", "") for line in after.splitlines()])
    assert all(line.replace("{}", "") in kept for line in text.splitlines())
    root = read_yaml(after)
    assert root is not None
    assert [key for key, _ in root.keys].count("hooks") == 1


def test_the_newline_that_a_text_ends_with_stays() -> None:
    after = put(HERMES, "a: |\n  x\n")
    assert drop(HERMES, after) == "a: |\n  x\n"
    assert drop(HERMES, after.removesuffix("\n")) == "a: |\n  x\n"
    assert drop(HERMES, put(HERMES, "a: x\n").removesuffix("\n")) == "a: x"


REFUSED = {
    "an end": ("model: x\n...\n", "line 2: the end of a document"),
    "two documents": ("model: x\n---\nb: 1\n", "line 2: the end of a document"),
    "a document on its line": ("--- {a: 1}\n", "line 1: "),
    "braces": ('{"model": "x"}\n', "line 1: no key with a colon"),
    "a deeper root": ("  model: x\n", "line 1: the first key does not begin the line"),
    "a list": ("- model: x\n", "line 1: no key with a colon"),
    "words": ("model\n", "line 1: no key with a colon"),
    "a directive": ("%YAML 1.2\n---\na: 1\n", "line 1: a directive"),
    "tabs": ("a:\n\tb: 1\n", "line 2: a tab"),
    "a tab between": ("a:\tb\n", "line 1: "),
    "open quotes": ('a: "x\nb: 1\n', "line 1: quotes that are not closed"),
    "open brackets": ("a: [x\nb: 1\n", "line 2: no comma"),
    "closed by another": ("a: [x}\n", "line 1: no comma"),
    "after quotes": ('a: "x" y\n', "line 1: something after the end"),
    "a key in a value": ("a: b: c\n", "line 1: something after the end"),
    "a key below a value": ("a: b\n  c: d\n", "line 2: something after the end"),
    "a wrong indent": ("a:\n    b: 1\n  c: 1\n", "line 3: "),
    "a wrong dash": ("a:\n  - 1\n - 2\n", "line 3: "),
    "a block too flat": ("a: |\n    x\n  y\n", "line 3: a line that is less deep"),
    "a mark that is none": ("a: @x\n", "line 1: something that is no value"),
    "a tag": ("a: !!str x\n", "line 1: something that is no value"),
    "a long key": ("? a\n: b\n", "line 1: no key with a colon"),
    "an alias of nothing": ("a: *b\n", "line 1: an alias of nothing"),
    "a merge": ("a: &a\n  hooks: x\n<<: *a\n", "line 3: a merge at the top"),
    "hooks twice": ('hooks:\n  a: 1\n"hooks":\n  b: 1\n', "line 3: the key 'hooks' for the second time"),
    "an odd character": ("a: \x0b\n", "line 1: a character"),
    "an old end of line": ("a: 1\rb: 2\n", "line 1: a character"),
    "too deep": ("a: " + "[" * 100 + "]" * 100 + "\n", "nested deeper than 60"),
    "too deep in blocks": ("- " * 300, "no key with a colon"),
    "too deep in lists": ("a:\n  " + "- " * 300 + "x\n", "nested deeper than 60"),
    "hooks in braces": ("hooks: {a: 1}\n", "can't be changed line by line"),
    "an event in brackets": ("hooks:\n  pre_tool_call: [x]\n", "can't be changed line by line"),
    "an event of another kind": ("hooks:\n  pre_tool_call: x\n", "can't be changed line by line"),
    "a merge in hooks": ("x: &x {}\nhooks:\n  <<: *x\n", "can't be changed line by line"),
    "an anchor twice": ("x: &x {}\ny: &x 1\n", "line 2: the anchor x for the second time"),
    "an alias": ("x: &x {}\nhooks: *x\n", "can't be changed line by line"),
    "shared hooks": ("hooks: &x\n  pre_tool_call:\n    - command: a\ny: *x\n", "can't be changed"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused_with_what_to_add(text: str, reason: str) -> None:
    with pytest.raises(NotUnderstoodError) as caught:
        put(HERMES, text)
    message = str(caught.value)
    assert reason in message
    assert "\n" not in message
    assert (
        f'nothing was changed. Add by hand: hooks: {{"pre_tool_call": [{{"command": "{PROGRAM} hermes"'
        in message
    )


def test_what_is_to_be_added_by_hand_is_understood() -> None:
    with pytest.raises(NotUnderstoodError) as caught:
        put(HERMES, "a: !x y\n")
    root = read_yaml(str(caught.value).partition("by hand: ")[2] + "\n")
    assert root is not None
    assert root.items[0].kind == "flow"


@pytest.mark.parametrize(
    "text",
    [
        "hooks: {pre_tool_call: [{command: loopwarden-hook hermes}]}\n",
        "hooks:\n  pre_tool_call: [{command: loopwarden-hook hermes}]\n",
        "hooks:\n  pre_tool_call:\n    - {command: loopwarden-hook hermes}\n",
    ],
)
def test_ours_where_they_can_not_be_taken_out_is_said(text: str) -> None:
    for change in (put, drop, commands):
        with pytest.raises(NotUnderstoodError, match="can't be changed line by line"):
            change(HERMES, text)


@pytest.mark.parametrize("form", ['"{}"', "'{}'", "{}", "|\n        {}", ">-\n        {}"])
def test_ours_however_it_is_written(form: str) -> None:
    text = (
        f"hooks:\n  pre_tool_call:\n    - command: {form.format('/old/loopwarden-hook hermes')}\n      x: 1\n"
    )
    text += f"    - {MINE}\n"
    assert {command.strip() for _, command in commands(HERMES, text)} == {"/old/loopwarden-hook hermes"}
    assert drop(HERMES, text) == f"hooks:\n  pre_tool_call:\n    - {MINE}\n"
    assert commands(HERMES, put(HERMES, text)) == expected(HERMES)


def test_what_a_key_says() -> None:
    assert said("a: 'true' # x\n", "a") == "true"
    assert said("b: |\n  a: true\n", "a") is None
    assert said("a: [\n", "a") is None


PIECES = st.sampled_from(
    [
        *TEXTS.values(),
        *(text for text, _ in REFUSED.values()),
        "hooks",
        ": ",
        "- ",
        "\n",
        "  ",
        '"',
        "'",
        "#",
        "|",
    ]
)


@given(st.lists(PIECES, max_size=6).map("".join))
def test_any_text_is_changed_as_it_should_be_or_refused(text: str) -> None:
    try:
        after = put(HERMES, text)
    except NotUnderstoodError:
        return
    before, root = read_yaml(text), read_yaml(after)
    assert root is not None
    others = [pair for pair in said_by(before) if pair[0] != "hooks"]
    assert [pair for pair in said_by(root) if pair[0] != "hooks"] == others
    back = drop(HERMES, after, text)
    assert back in {text, text + "\n", text + "\r\n"}


def said_by(root: object) -> list[tuple[str, object]]:
    keys, items = getattr(root, "keys", []), getattr(root, "items", [])
    return [(key, item.said()) for (key, _), item in zip(keys, items, strict=True)]


@given(st.text(alphabet="ab:-?#&*!|>'\"[]{},% \t\n\r\\~", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        root = read_yaml(text)
    except YamlTextError:
        return
    assert root is None or root.kind == "mapping"
