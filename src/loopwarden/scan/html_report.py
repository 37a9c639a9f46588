"""The report as one offline page: no request, readable without JavaScript, nothing in it is trusted.

Every text from outside goes through `_text`; the page's own style and script are named to the browser by
their digests, so that nothing else could run even if something slipped through.
"""

from __future__ import annotations

import base64
import hashlib
import html
from importlib import resources
from typing import TYPE_CHECKING, Final

import orjson

from loopwarden.scan import words
from loopwarden.scan.timeline import colours, strip, svg
from loopwarden.transcripts.model import NOTE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopwarden.scan.summary import FileReport, Loop, Report, Run

RUNS_IN_DETAIL: Final = 250
RUNS_IN_TABLE: Final = 500
LOOPS_OF_A_RUN: Final = 40
FILES_NAMED: Final = 200

_LEVELS: Final = {"warning": "warning", "critical": "critical"}


def report_html(report: Report) -> str:
    """The whole page."""
    style, script = _asset("report.css"), _asset("report.js")
    loops = [pair for pair in report.runs if pair[1].loops]
    names = words.names(report)
    others = [pair for pair in report.runs if not pair[1].loops]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>loopwarden: {_headline(report)}</title><style>{style}</style></head><body>",
        "<header><h1>Loops in recorded runs</h1>",
        '<button id="theme" type="button" hidden>Light / dark</button></header><main>',
        _answer(report),
        _tools(loops),
        _legend() if report.runs else "",
        _runs_with_loops(loops, names),
        _runs_without(others, names),
        _unread(report),
        _notes(report),
        "</main>",
        _footer(report),
        f"<script>{script}</script></body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _asset(name: str) -> str:
    return resources.files("loopwarden.scan").joinpath("page", name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    def digest(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    return (
        f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)};"
        " base-uri 'none'; form-action 'none'"
    )


def _text(text: str) -> str:
    """Text from outside as text, isolated from the direction of writing around it."""
    return f"<bdi>{html.escape(text)}</bdi>"


def _attribute(text: str) -> str:
    return html.escape(text, quote=True)


def _headline(report: Report) -> str:
    totals = report.totals
    if not totals.loops:
        text = words.nothing(report).rstrip(".")
        return text[0].lower() + text[1:]
    return words.headline(totals)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _answer(report: Report) -> str:
    totals = report.totals
    tiles = [
        ("Files", words.number(totals.files)),
        ("Runs", words.number(totals.runs)),
        ("Calls", words.number(totals.spent.calls)),
        ("Loops", words.number(totals.loops)),
        ("Calls in loops", words.number(totals.calls_in_loops)),
        ("Share in loops", words.percent(totals.share_in_loops)),
        ("Calls after the warning", words.number(totals.waste.calls)),
    ]
    if totals.waste.seconds is not None:
        tiles.append(("Time after the warning", words.duration(totals.waste.seconds)))
    if totals.waste.tokens is not None:
        tiles.append(("Tokens after the warning", words.amount(totals.waste.tokens)))
    if totals.waste.cached_tokens:
        tiles.append(("Of them cached", words.amount(totals.waste.cached_tokens)))
    if totals.waste.cost:
        tiles.append(("Money after the warning", words.money(totals.waste.cost)))
    tiles.append(("Repetitions", words.number(totals.repetitions)))
    if totals.repetitions:
        tiles.append(("Calls repeated", words.number(totals.repeated.calls)))
        if totals.repeated.tokens is not None:
            tiles.append(("Tokens for these", words.amount(totals.repeated.tokens)))
    body = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles)
    kind = (
        ""
        if totals.loops
        else ' class="good"'
        if totals.runs and not report.switched_off
        else ' class="note"'
    )
    what = '"After the warning" is what went on in loops after the first finding, each call counted once.'
    more = f"<p>{words.repetitions(totals)}.</p>" if totals.repetitions else ""
    off = f'<p class="off">{words.SWITCHED_OFF}.</p>' if report.switched_off else ""
    return (
        f'{off}<p class="answer"><strong{kind}>{_sentence(_headline(report))}.</strong> {what}</p>{more}'
        f'<dl class="tiles">{body}</dl>'
    )


def _tools(loops: list[tuple[FileReport, Run]]) -> str:
    if not loops:
        return ""
    detectors = dict.fromkeys(name for _, run in loops for loop in run.loops for name in loop.detectors)
    options = "".join(f'<option value="{name}">{name}</option>' for name in sorted(detectors))
    return (
        '<div class="tools" id="tools" hidden>'
        '<input id="search" type="search" placeholder="Search runs, tools, arguments" aria-label="Search">'
        '<select id="level" aria-label="Level"><option value="">any level</option>'
        '<option value="critical">critical</option><option value="warning">warning</option></select>'
        '<select id="detector" aria-label="Detector"><option value="">any detector</option>'
        f"{options}</select>"
        '<select id="order" aria-label="Order"><option value="rank">worst first</option>'
        '<option value="waste">most calls after warnings</option>'
        '<option value="tokens">most tokens after warnings</option>'
        '<option value="calls">most calls</option><option value="at">newest</option></select>'
        '<button id="open" type="button">Open / close all</button><output id="shown"></output></div>'
    )


def _legend() -> str:
    def swatch(*names: str) -> str:
        width = 12 / len(names)
        shapes = "".join(
            f'<path class="{name}" d="M{place * width:g} 0h{width:g}v6h-{width:g}z"/>'
            for place, name in enumerate(names)
        )
        return f'<svg viewBox="0 0 12 6" preserveAspectRatio="none" aria-hidden="true">{shapes}</svg>'

    entries = (
        (("s1", "s2", "s3"), "calls of a loop, a colour for each, or for each tool where they vary"),
        (("m1", "m2", "m3"), "other repeated calls"),
        (("u",), "single calls"),
        (("w1",), "would have warned"),
        (("w2",), "would have refused"),
        (("w3",), "would have ended the run"),
        (("span",), "from the first call of a loop to its last"),
        (("cut",), "compaction"),
    )
    return '<div class="key">' + "".join(
        f"<span>{swatch(*names)}{text}</span>" for names, text in entries
    ) + "</div>"  # fmt: skip


def _runs_with_loops(runs: list[tuple[FileReport, Run]], names: dict[tuple[str, str], str]) -> str:
    if not runs:
        return ""
    shown = runs[:RUNS_IN_DETAIL]
    body = "\n".join(
        _run(place, file, run, names[file.path, run.stream]) for place, (file, run) in enumerate(shown, 1)
    )
    what = "Runs with loops" if shown[-1][1].stuck else "Runs with loops or repetitions"
    return (
        f"<h2>{what}, the worst first</h2>{_rest(len(runs) - len(shown), what[0].lower() + what[1:])}"
        f'<div id="runs">\n{body}\n</div>'
    )


def _rest(count: int, what: str) -> str:
    if count <= 0:
        return ""
    where = "<code>loopwarden scan --json</code> has all"
    return f'<p class="note">{count:,} more {what} are not on this page; {where}.</p>'


def _run(place: int, file: FileReport, run: Run, name: str) -> str:
    picture = strip(run)
    spend = run.waste + run.repeated
    chosen = colours(run)
    level = "critical" if run.stuck else "warning"
    detectors = " ".join(dict.fromkeys(name for loop in run.loops for name in loop.detectors))
    label = _attribute(
        f"{words.plural(run.calls, 'call')} of {name}, {run.calls_in_loops:,} of them in loops"
    )
    drawing = svg(picture, label)
    unit = f"; a mark stands for {picture.step:,} calls" if picture.step > 1 else ""
    data = orjson.dumps(picture.data).decode().replace("<", "\\u003c")
    loops = "\n".join(_loop(loop, chosen) for loop in run.loops[:LOOPS_OF_A_RUN])
    return (
        f'<details class="run" id="run-{place}" data-rank="{place}" data-level="{level}"'
        f' data-detectors="{detectors}" data-waste="{spend.calls}"'
        f' data-tokens="{round(spend.tokens or 0)}" data-calls="{run.calls}"'
        f' data-at="{run.last_at or 0:.0f}"{" open" if place == 1 else ""}>'
        f'<summary><span class="badge {level}">{level}</span><span class="name">{_text(name)}</span>'
        f' <span class="sums">{_sums(run)}</span>{drawing}</summary>'
        f'<div class="inside"><div class="scale"><span>call 1 {words.moment(run.first_at)}</span>'
        f"<span>call {run.calls:,} {words.moment(run.last_at)}{unit}</span></div>"
        f"{_facts(_run_facts(file, run))}{loops}"
        f"{_rest(len(run.loops) - LOOPS_OF_A_RUN, 'loops of this run')}</div>"
        f'<script type="application/json">{data}</script></details>'
    )


def _sums(run: Run) -> str:
    parts = [words.plural(run.calls, "call")]
    if run.stuck:
        share = words.percent(run.calls_in_loops / run.calls) if run.calls else "0 %"
        parts[0] += (
            f", {words.plural(run.stuck, 'loop')}, {share} in loops; after warnings: {words.spend(run.waste)}"
        )
    if run.repetitions:
        parts.append(
            f"{words.plural(run.repetitions, 'repetition')}, only warned about: {words.spend(run.repeated)}"
        )
    return "; ".join(parts)


def _run_facts(file: FileReport, run: Run) -> Iterable[tuple[str, str]]:
    yield "File", f'<code class="path">{_text(file.path)}</code> ({html.escape(file.format or "")})'
    for name, value in (
        ("Stream", run.stream),
        ("Started by", run.parent),
        ("Agent", run.agent),
        ("Model", run.model),
    ):
        if value and value != run.title:
            yield name, _text(value)
    if run.timeline.compactions:
        yield "Compactions", words.number(len(run.timeline.compactions))
    yield "Whole run", words.spend(run.spent)


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    return (
        '<dl class="facts">' + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts) + "</dl>"
    )


def _loop(loop: Loop, chosen: dict[int, str]) -> str:
    also = f" (also {', '.join(loop.detectors[1:])})" if len(loop.detectors) > 1 else ""
    steps = "".join(
        f'<li><svg viewBox="0 0 1 1" aria-hidden="true"><path class="{chosen.get(step.signature, "u")}"'
        f' d="M0 0h1v1H0z"/></svg><code>{_text(step.tool)}({_text(step.arguments)})</code>'
        f'<span class="times">{words.plural(step.calls, "time")}</span></li>'
        for step in loop.steps
    )
    more = f'<li class="note">and {loop.more_steps:,} more</li>' if loop.more_steps else ""
    return (
        f'<article class="loop"><h3><span class="badge {_LEVELS[loop.level]}">{loop.level}</span>'
        f"{loop.detectors[0]}{also}</h3>"
        f"<div>{words.how(loop)}; {words.results(loop)}</div><ol>{steps}{more}</ol>"
        f"{_facts(_loop_facts(loop))}</article>"
    )


def _loop_facts(loop: Loop) -> Iterable[tuple[str, str]]:
    across = f", across {words.plural(loop.compactions, 'compaction')}" if loop.compactions else ""
    yield "Where", f"from {words.place(loop.first)} to {words.place(loop.last)}{across}"
    yield "Counted", f"{loop.count:,}, threshold {loop.threshold:,}"
    yield "Guard", _sentence(words.guard_line(loop))
    yield "Spent after that", words.spend(loop.after_warning)
    if loop.after_block is not None and loop.warned is not None:
        yield "After the refusal", words.spend(loop.after_block)
    if loop.message:
        yield "Message to the model", _text(loop.message)


def _runs_without(runs: list[tuple[FileReport, Run]], names: dict[tuple[str, str], str]) -> str:
    if not runs:
        return ""
    rows = []
    for file, run in runs[:RUNS_IN_TABLE]:
        name = names[file.path, run.stream]
        label = _attribute(f"{words.plural(run.calls, 'call')} of {name}")
        rows.append(
            f'<tr class="run"><td><span class="name">{_text(name)}</span>'
            f' <span class="note path">{_text(file.path)}</span></td>'
            f'<td class="number">{run.calls:,}</td>'
            f'<td class="bar">{svg(strip(run), label, small=True)}</td></tr>'
        )
    return (
        f"<h2>Runs without loops</h2>{_rest(len(runs) - RUNS_IN_TABLE, 'runs without loops')}"
        '<div class="scroll"><table><thead><tr><th>Run</th><th>Calls</th><th class="bar">Timeline</th></tr>'
        "</thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _unread(report: Report) -> str:
    files = report.unreadable
    if not files:
        return ""
    items = "".join(
        f'<li><code class="path">{_text(file.path)}</code>:'
        f' <span class="fault">{_text(file.error or "")}</span></li>'
        for file in files[:FILES_NAMED]
    )
    return (
        f"<h2>Not read</h2><ul>{items}</ul>{_rest(len(files) - FILES_NAMED, 'files that could not be read')}"
    )


def _notes(report: Report) -> str:
    counts: dict[str, int] = {}
    for file in report.files:
        for kind, count in file.notes.items():
            counts[kind] = counts.get(kind, 0) + count
    if not counts:
        return ""
    items = "".join(
        f"<li>{count:,}: {html.escape(NOTE_KINDS.get(kind, kind))}</li>"
        for kind, count in sorted(counts.items(), key=lambda pair: -pair[1])
    )
    return f"<h2>Met while reading</h2><ul>{items}</ul>"


def _footer(report: Report) -> str:
    warnings = "".join(f"<br>{html.escape(warning)}" for warning in report.config_warnings)
    looked = "".join(
        f"<br>Looked for {html.escape(product)} in {html.escape(place)}: {count:,} files"
        for product, place, count in report.looked_in
    )
    return (
        f"<footer>Judged by: {html.escape(report.config)}{warnings}{looked}"
        "<br>Keys: <kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> next and previous run,"
        " <kbd>Enter</kbd> open, <kbd>t</kbd> light or dark. Times are in UTC.</footer>"
    )
