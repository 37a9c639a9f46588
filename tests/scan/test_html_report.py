"""The page: one file, offline, harmless whatever the transcripts say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from loopwarden.events import Outcome, ToolCall
from loopwarden.masking import clean
from loopwarden.scan.html_report import RUNS_IN_DETAIL, RUNS_IN_TABLE, report_html
from loopwarden.scan.summary import FileReport, Report
from loopwarden.scan.timeline import WIDTH, strip
from loopwarden.transcripts.model import Recorded, StreamStart
from tests.scan.strips import report_of, scan_items, scan_strip

if TYPE_CHECKING:
    from loopwarden.scan.summary import Run
    from loopwarden.transcripts.model import Item

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"' ]]> <!-- {{x}} \u202e\x1b[31m"
VOID = {"meta", "br", "input", "link", "img", "path"}


class Page(HTMLParser):
    """What a browser would see: elements, and whether they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def evil_run() -> Run:
    items: list[StreamStart | Recorded] = [
        StreamStart(stream=EVIL, title=EVIL, agent=EVIL, model=EVIL, parent=EVIL)
    ]
    for number in range(9):
        items.append(Recorded(EVIL, ToolCall(tool=EVIL, arguments={EVIL: EVIL}, call_id=f"c{number}")))
        items.append(Recorded(EVIL, Outcome(call_id=f"c{number}", result="r")))
    return scan_items(items)[0]


def test_the_page_without_data_is_small() -> None:
    assert len(report_html(Report(files=())).encode()) < 30_000
    folder = resources.files("loopwarden.scan").joinpath("page")
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < 150_000


def test_nothing_is_loaded_from_anywhere() -> None:
    page = Page(report_html(report_of(scan_strip("a" * 9), scan_strip("abc"))))
    assert not [
        name for name, attributes in page.elements for key in attributes if key in ("src", "href", "style")
    ]
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    policy = page.all("meta")[1]["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_hostile_names_stay_text() -> None:
    plain = Page(report_html(report_of(scan_strip("a" * 9), scan_strip("abc"))))
    fault = FileReport(path=clean(EVIL), error=clean(EVIL), why="unreadable")
    runs = (evil_run(), replace(scan_strip("abc"), title=clean(EVIL)))
    report = Report(
        files=(FileReport(path=clean(EVIL), format="events", runs=runs), fault),
        config=clean(EVIL),
        config_warnings=(clean(EVIL),),
        looked_in=((clean(EVIL), clean(EVIL), 1),),
    )
    text = report_html(report)
    page = Page(text)
    assert len(page.all("script")) == len(plain.all("script"))
    assert not page.all("img")
    assert "\x1b" not in text
    assert "\u202e" not in text
    (data,) = [text for text in page.texts if text.startswith('{"calls"')]
    assert json.loads(data)["calls"] == 9


def test_a_run_says_everything_without_a_script() -> None:
    run = scan_strip("xy" + "a" * 12, seconds=5.0, tokens=1000)
    text = re.sub(r"<[^>]+>", "", report_html(report_of(run)))
    for part in (
        "14 calls, 1 loop, 86 % in loops; after warnings: 8 calls, 40 s, 8.8k tokens",
        "generic_repeat (also global_circuit_breaker)",
        "one call, 12 times; the same results each time",
        "The guard would have warned at call 6, refused call 8, ended the run at call 12",
        "runs.jsonl",
        "2027-01-15 08:00:10",
    ):
        assert part in text


def test_the_first_run_is_open_and_all_are_there() -> None:
    page = Page(report_html(report_of(scan_strip("a" * 9), scan_strip("aaaa"), scan_strip("abc"))))
    details = page.all("details")
    assert ["open" in attributes for attributes in details] == [True, False]
    assert [attributes["data-level"] for attributes in details] == ["critical", "warning"]
    assert len([attributes for attributes in page.all("tr") if attributes]) == 1


def test_thousands_of_runs_are_capped_with_a_note() -> None:
    loop, fine = scan_strip("aaaaaaaaa"), scan_strip("abc")
    runs = (loop,) * (RUNS_IN_DETAIL + 7) + (fine,) * (RUNS_IN_TABLE + 9)
    text = report_html(report_of(*runs))
    page = Page(text)
    assert len(page.all("details")) == RUNS_IN_DETAIL
    assert "7 more runs with loops are not on this page" in text
    assert "9 more runs without loops are not on this page" in text


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 5000])
def test_timelines_have_at_most_so_many_marks(size: int) -> None:
    run = scan_strip("".join("ab"[n % 3 == 0] for n in range(size)))
    picture = strip(run)
    assert sum(length for _, length, _ in picture.pieces) == picture.marks <= WIDTH
    assert picture.step * picture.marks >= size
    assert all(0 <= first < end <= picture.marks for first, end, _ in picture.spans)


def test_calls_that_vary_have_a_colour_for_each_tool() -> None:
    items: list[Item] = [StreamStart(stream="s", title="s")]
    for number in range(24):
        tool = "read" if number < 4 else ("edit", "bash")[number % 2]
        call = ToolCall(tool=tool, arguments={"n": number}, call_id=f"c{number}")
        error = "fatal: no space left" if number >= 4 else None
        outcome = Outcome(call_id=call.call_id, result=None if error else f"ok {number}", error=error)
        items += [Recorded("s", call), Recorded("s", outcome)]
    (run,) = scan_items(items)
    (loop,) = run.loops
    assert (loop.pattern, loop.calls, loop.more_steps) == ("varied", 20, 12)
    picture = strip(run)
    colours = [picture.colours[kind] for kind, length, _ in picture.pieces for _ in range(length)]
    assert colours == ["u"] * 4 + ["s1", "s2"] * 10


def test_everything_that_is_drawn_is_in_the_legend() -> None:
    text = report_html(report_of(scan_strip("xx" + "a" * 12 + "|bcd", seconds=5.0)))
    legend = text[text.index('class="key"') : text.index("<h2>")]
    drawn = set(re.findall(r'<path class="(\w+)"', text))
    assert {name for name in drawn if name[0] not in "sm"} | {"span"} <= set(
        re.findall(r'<path class="(\w+)"', legend)
    )


def test_tiles_and_titles_tell_loops_and_repetitions_apart() -> None:
    runs = (scan_strip("a" * 9, tokens=10), scan_strip("P" * 9, tokens=10))
    text = report_html(report_of(*(replace(run, stream=name) for run, name in zip(runs, "st", strict=True))))
    assert "<title>loopwarden: 1 loop in 1 run</title>" in text
    assert "1 repetition with news would only have been warned about: 5 calls, 55 tokens, $0.05" in text
    for name, value in (("Loops", 1), ("Calls in loops", 9), ("Repetitions", 1), ("Calls repeated", 5)):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in text
    assert "runs.jsonl s: run s" in text
    assert "runs.jsonl t: run s" in text


def test_calls_of_a_loop_have_colours_of_their_own() -> None:
    run = scan_strip("xx" + "ab" * 8 + "yz")
    picture = strip(run)
    kinds = {picture.names[kind]: picture.colours[kind] for kind, _, _ in picture.pieces}
    assert {kinds['look(q: "a")'], kinds['look(q: "b")']} == {"s1", "s2"}
    assert kinds["wait"] == "u"
    assert "m1" in picture.colours
