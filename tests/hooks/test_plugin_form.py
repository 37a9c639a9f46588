"""The plug-in of OpenClaw: three files, and an entry in a JSON5 file that switches it on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.hooks import asset_form, plugin_form
from loopwarden.hooks.entries import SettingsError
from loopwarden.hooks.installing import carry_out, files_of, plan_install, plan_uninstall
from loopwarden.hooks.json_tree import JsonTextError, Number, read_tree, value_of
from loopwarden.hooks.plugins import PLUGINS
from loopwarden.hooks.settings import SETTINGS
from tests.cli.test_main import apart, run  # noqa: F401 - the fixture is used by name
from tests.hooks.test_doctor import HOOK, Machine
from tests.hooks.test_forms import layouts, values
from tests.hooks.test_install import everything, home  # noqa: F401 - the fixture is used by name

if TYPE_CHECKING:
    from pathlib import Path

json5 = pytest.importorskip("json5", reason="the package that the reader is compared with is not here")

OPENCLAW = SETTINGS["openclaw"]
MANIFEST, PACKAGE, SWITCH = OPENCLAW.parts
ON = {"enabled": True}

HAND_WRITTEN = """\
// my claws
{
  agents: { defaults: { workspace: '~/claw', timeout: +0x1F } }, // here
  plugins: {
    allow: ['lobster', "telegram"], // no others
    entries: {
      lobster: { enabled: true, config: { ratio: .5 } },
      /* the last one */
    },
  },
}
"""


def put(text: str) -> str:
    return plugin_form.put(SWITCH, text, [])


def drop(text: str, base: str | None = None) -> str:
    return plugin_form.drop(SWITCH, text, base)


def plugins(text: str) -> Any:
    return json5.loads(text)["plugins"]


TEXTS = {
    "empty": "",
    "comments": "// nothing yet\n",
    "object": "{}\n",
    "no plug-ins": "{\n  agents: {}, // mine\n}\n",
    "one line": "{plugins: {entries: {a: {enabled: false}}}}",
    "no entries": "{'plugins': {\n  slots: {memory: 'none'}\n}}\n",
    "no entry": '{"plugins": {"entries": {}}}',
    "by hand": HAND_WRITTEN,
    "windows": '{\r\n\t"plugins": {\r\n\t\t"entries": {}\r\n\t}\r\n}\r\n',
    "all may load": '{"plugins": {"allow": []}}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_in_and_out(text: str) -> None:
    before = json5.loads(text) if "{" in text else {}
    after = put(text)
    assert put(after) == after
    assert plugins(after)["entries"]["loopwarden"] == ON
    assert [one.command for one in plugin_form.find(SWITCH, after)] == ["loopwarden-hook openclaw"]
    listed = before.get("plugins", {}).get("allow", [])
    assert plugins(after).get("allow", []) == ([*listed, "loopwarden"] if listed else listed)
    assert (json5.loads(drop(after, text)) or {}) == before
    assert plugin_form.find(SWITCH, text) == []
    assert drop(text) == text


def test_comments_and_style_stay() -> None:
    after = put(HAND_WRITTEN)
    assert after == HAND_WRITTEN.replace(', "telegram"]', ', "telegram", "loopwarden"]').replace(
        "ratio: .5 } },\n",
        'ratio: .5 } },\n      "loopwarden": {\n        "enabled": true\n      },\n',
    )
    assert drop(after) == HAND_WRITTEN


SAID = {
    "switched off": ("{plugins: {entries: {loopwarden: {enabled: false}}}}", {"enabled": False}),
    "something else": ("{plugins: {entries: {loopwarden: {hooks: {}}}}}", {"hooks": {}}),
    "switched on": ("{plugins: {allow: ['LoopWarden'], entries: {loopwarden: {enabled: true}}}}", ON),
}


@pytest.mark.parametrize(("text", "entry"), SAID.values(), ids=SAID)
def test_an_entry_that_was_there_is_used_and_said_again(text: str, entry: Any) -> None:
    after = put(text)
    assert plugins(after)["entries"]["loopwarden"] == {**entry, **ON}
    assert plugins(after).get("allow") == plugins(text).get("allow")
    more = after.replace("{plugins", "{more: 1, plugins")
    assert json5.loads(drop(more, text)) == {"more": 1, **json5.loads(text)}


def test_a_list_that_would_allow_everything_is_not_left() -> None:
    text = '{plugins: {allow: ["loopwarden"], entries: {loopwarden: {enabled: true}}}}'
    assert json5.loads(drop(text)) == {"plugins": {"allow": ["loopwarden"]}}


WRONG = {
    "cut off": ("{plugins: ", "is no JSON5: line 1: the end of the file where a value is expected"),
    "a list": ("[]", "is no JSON5 object"),
    "plug-ins of another kind": ("{plugins: 1}", '"plugins" is no object'),
    "entries of another kind": ("{plugins: {entries: []}}", '"plugins.entries" is no object'),
    "an entry of another kind": (
        "{plugins: {entries: {loopwarden: true}}}",
        '"plugins.entries.loopwarden" is no object',
    ),
    "forbidden": ("{plugins: {deny: [' Loopwarden']}}", '"plugins.deny" names loopwarden'),
}


@pytest.mark.parametrize(("text", "reason"), WRONG.values(), ids=WRONG)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        put(text)
    assert reason in str(caught.value)


words = st.sampled_from(["a", "loopwarden", "Lobster", ""])
entries = st.dictionaries(words, st.fixed_dictionaries({}, optional={"enabled": st.booleans()}), max_size=3)
documents = st.fixed_dictionaries(
    {},
    optional={
        "plugins": st.fixed_dictionaries(
            {},
            optional={
                "allow": st.lists(words, max_size=3),
                "entries": entries,
                "slots": values,
                "enabled": values,
            },
        ),
        "agents": values,
        "": values,
    },
)
styles = st.sampled_from([{}, {"quote_keys": True}, {"trailing_commas": False}])


@given(documents, layouts, styles)
def test_in_and_out_says_the_same(document: Any, layout: Any, style: dict[str, bool]) -> None:
    text = json5.dumps(document, indent=layout, **style)
    after = put(text)
    assert put(after) == after
    assert plugins(after)["entries"]["loopwarden"]["enabled"] is True
    assert json5.loads(drop(after, text)) == json5.loads(text)


PLAIN = ["'a\\'\"'", '"\\x41\\\nb\\u00e9"', "+1", ".5", "5.", "0xFf", "-Infinity", "NaN", "true", "null"]


@pytest.mark.parametrize("text", PLAIN)
def test_json5_is_read_as_others_read_it(text: str) -> None:
    said = value_of(text, read_tree(text, json5=True))
    expected = Number(text) if text[0] not in "'\"tn" else json5.loads(text)
    assert said == expected
    with pytest.raises(JsonTextError):
        read_tree("" if text in {"true", "null"} else text)


KEYS = [
    "{a: 1}",
    "{$_\\u0061: 1}",
    "{'a b': 1}",
    '{"\\x41": 1}',
    "{ünder: 1, // x\n}",
    "\ufeff{\xa0a\u2028:1}",
]


@pytest.mark.parametrize("text", KEYS)
def test_keys_of_json5(text: str) -> None:
    assert list(value_of(text, read_tree(text, json5=True))) == list(json5.loads(text.lstrip("\ufeff")))


@pytest.mark.parametrize(
    "text", ["{a 1}", "{1: 1}", "{'\\x': 1}", "{a: '\\u12'}", "{a: b}", "{a: 01}", "{a: '\n'}"]
)
def test_no_json5(text: str) -> None:
    with pytest.raises(JsonTextError, match="line 1: "):
        read_tree(text, json5=True)


def test_a_file_beside_it() -> None:
    text = asset_form.put(MANIFEST, "", [])
    assert text == PLUGINS["openclaw"].contents(["x"])["extensions/loopwarden/openclaw.plugin.json"]
    assert asset_form.find(MANIFEST, text)
    assert asset_form.put(PACKAGE, '{"name": "loopwarden", "version": "0"}', []) != ""
    assert asset_form.drop(MANIFEST, text) == ""
    for other in ('{"id": "other"}', "[", "[]"):
        assert asset_form.find(MANIFEST, other) == []
        assert asset_form.drop(MANIFEST, other) == other
        with pytest.raises(SettingsError, match="is of another plug-in; move it away first"):
            asset_form.put(MANIFEST, other, [])


@pytest.mark.parametrize(
    "data", [None, b"{}", HAND_WRITTEN.encode(), HAND_WRITTEN.replace("\n", "\r\n").encode()]
)
def test_out_is_as_before_to_the_byte(data: bytes | None, home: Path) -> None:  # noqa: F811 - the fixture
    if data is not None:
        (home / ".openclaw").mkdir()
        (home / ".openclaw" / "openclaw.json").write_bytes(data)
    before = everything(home)
    assert run("install", "openclaw")[0] == 0
    now = everything(home)
    assert run("install", "openclaw")[0] == 0
    assert everything(home) == now
    assert run("uninstall", "openclaw")[0] == 0
    assert everything(home) == before


def test_without_a_state_folder_it_comes_out_too(tmp_path: Path) -> None:
    files = files_of(OPENCLAW, "user", {"HOME": str(tmp_path)}, tmp_path)
    switch = files[-1][1]
    switch.parent.mkdir()
    switch.write_text(HAND_WRITTEN, encoding="utf-8")
    for settings, path in files:
        carry_out(
            plan_install(settings, "user", path, "/x/loopwarden-hook", tmp_path / "s"),
            tmp_path / "s",
            installs=True,
        )
    for settings, path in files:
        carry_out(plan_uninstall(settings, "user", path, tmp_path / "t"), tmp_path / "t", installs=False)
    assert switch.read_text(encoding="utf-8") == HAND_WRITTEN
    assert [path for _, path in files if path.exists()] == [switch]


def test_the_commands(home: Path) -> None:  # noqa: F811 - the fixture
    folder, switch = home / ".openclaw", home / ".openclaw" / "openclaw.json"
    code, out, err = run("install", "openclaw", "--dry-run")
    assert (code, err, folder.exists()) == (0, "", False)
    assert out.count("--- /dev/null\n+++ ") == 4
    folder.mkdir()
    switch.write_text("{}", encoding="utf-8")
    code, out, _ = run("install", "openclaw")
    first, second, third, *_ = out.splitlines()
    assert code == 0
    plugin = folder / "extensions" / "loopwarden" / "openclaw.js"
    assert first == f"OpenClaw: hooks for 5 events are in {plugin}"
    assert second == f"Switched on in {switch}"
    assert third.startswith("What it said before: ")
    code, out, _ = run("install", "openclaw", "--json")
    data = json.loads(out)
    assert (data["changed"], len(data["parts"]), data["diff"]) == (False, 3, "")
    code, out, _ = run("uninstall", "openclaw")
    assert out.splitlines() == [
        f"OpenClaw: the hooks are out, {plugin} is gone, as it was made for them",
        f"Switched off in {switch}",
    ]
    code, _, err = run("install", "openclaw", "--project")
    assert code == 2
    assert "openclaw has no hooks in projects" in err


def test_nothing_is_written_if_one_file_can_not_be_read(home: Path) -> None:  # noqa: F811 - the fixture
    (home / ".openclaw").mkdir()
    (home / ".openclaw" / "openclaw.json").write_text("{", encoding="utf-8")
    before = everything(home)
    code, out, err = run("install", "openclaw")
    assert (code, out) == (2, "")
    assert "is no JSON5: line 1" in " ".join(err.split())
    assert everything(home) == before


def test_the_variables(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811 - the fixture
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(home / "state"))
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(home / "config" / "claw.json5"))
    assert run("install", "openclaw")[0] == 0
    assert plugins((home / "config" / "claw.json5").read_text(encoding="utf-8"))["entries"] == {
        "loopwarden": ON
    }
    assert (home / "state" / "extensions" / "loopwarden" / "package.json").is_file()
    assert not (home / ".openclaw").exists()


def test_doctor(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.program(HOOK)
    machine.install("openclaw")
    folder = machine.home / ".openclaw"
    switch = folder / "openclaw.json"
    assert machine.wrong("openclaw") == []
    package = folder / "extensions" / "loopwarden" / "package.json"
    package.write_text('{"name": "loopwarden"}', encoding="utf-8")
    assert machine.wrong("openclaw") == [f"{package} does not say what it should"]
    machine.install("openclaw")
    for text, said in (
        ("{plugins: {entries: {loopwarden: {enabled: false}}}}", f"{switch} does not say what it should"),
        ("{plugins: {allow: ['a']}}", f"{switch} says nothing of the plug-in"),
        (
            "{plugins: {entries: {loopwarden: {enabled: true}}, deny: ['loopwarden']}}",
            f'{switch}: "plugins.deny"',
        ),
        ("{", f"{switch}: is no JSON5"),
    ):
        switch.write_text(text, encoding="utf-8")
        (wrong,) = machine.wrong("openclaw")
        assert wrong.startswith(said)
    switch.write_text("{plugins: {enabled: false, entries: {loopwarden: {enabled: true}}}}", encoding="utf-8")
    (wrong,) = machine.wrong("openclaw")
    assert wrong == f"openclaw does not run these hooks: plugins.enabled is false in {switch}"
