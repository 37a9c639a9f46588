"""What a run looks like in a terminal, as it happens."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from loopwarden.masking import clean, mask, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from loopwarden.runner.happenings import Happening

_INDENT: Final = 10
_LONG: Final = 160
_MESSAGE: Final = 400
_LINE: Final = 20_000
_READ: Final = 4_000
_MOST_CALLS: Final = 10_000

_VERDICTS: Final = {
    "warn": ("warning", "yellow"),
    "block": ("refused", "red"),
    "abort": ("stopped", "bold red"),
}
_USED: Final = ("requests", "input_tokens", "output_tokens")
_ENDS: Final = {"done": "green", "aborted": "bold red", "cancelled": "yellow", "failed": "bold red"}


class View:
    """A watcher that writes what happens. Nothing that comes from outside is obeyed by the terminal.

    Args:
        console: Where to.
        gone: Called when nothing can be written any more.

    Attributes:
        closed: Why nothing can be written any more: nobody reads, or the disk is full; `None`: it can.
    """

    def __init__(self, console: Console, gone: Callable[[], None]) -> None:
        self._console = console
        self._gone = gone
        self.closed: OSError | None = None
        self._tools: dict[str, str] = {}
        self._refused: set[str] = set()
        self._explained: set[tuple[str, str]] = set()
        self._calls = 0
        self._below: Counter[str] = Counter()
        self._streamed = 0
        self._run: str | None = None

    def __call__(self, happening: Happening) -> None:
        """Something happened."""
        if self.closed is not None:
            return
        if self._run is None:
            self._run = happening.run
        try:
            if happening.run == self._run:
                self._show(happening.kind, happening.data)
            else:
                self._show_below(happening)
            self._console.file.flush()
        except OSError as error:
            self.closed = error
            self._gone()

    def say(self, word: str, text: str, style: str = "") -> None:
        """A line of the view's own: `word` names what it is."""
        self._end_text()
        self._console.print(Text(f"{word:<{_INDENT}}", style=style), end="")
        self._console.print(Text(text), soft_wrap=True)

    def _show(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "text":
                self._text(str(data.get("text", "")), bool(data.get("partial")))
            case "call":
                self._call(data)
            case "verdict":
                self._verdict(data)
            case "outcome":
                self._outcome(data)
            case "compaction":
                self._compaction(data)
            case "user_message":
                self.say("person", _line(data.get("text")), "bold")
            case "notice" if data.get("channel"):  # the agent wrote it to a person
                self.say("message", _lines(str(data.get("text", ""))), "bold")
            case "notice":
                self.say("notice", _line(data.get("text"), _MESSAGE), "dim")
            case "ended":
                self._ended(data)

    def _show_below(self, happening: Happening) -> None:
        """A sub-agent's run: only how it begins and ends, and what the guard says of it."""
        data, name = happening.data, clean(happening.agent)
        if happening.kind == "began":
            self.say("sub-agent", f"{name}: {_line(data.get('task'))}", "cyan")
        elif happening.kind == "call":
            self._below["calls"] += 1
        elif happening.kind == "verdict":
            word, style = _VERDICTS.get(str(data.get("action")), ("noticed", "dim"))
            loop = (f"{happening.run} {data.get('key')}", str(data.get("action")))
            self.say(word, f"{name}: {_found(data, whole=loop not in self._explained)}", style)
            self._explained.add(loop)
        elif happening.kind == "ended":
            self._below.update({used: data.get(used) or 0 for used in _USED})
            why = _line(data.get("message") or data.get("answer"))
            self.say("sub-agent", f"{name} ended, {data.get('reason')}: {why}", "cyan")

    def _text(self, text: str, partial: bool) -> None:
        if not partial:
            if not self._streamed:
                self._piece(text)
            self._end_text()
        elif text:
            self._piece(text)

    def _piece(self, text: str) -> None:
        if not self._streamed:
            self._console.print(Text(f"{'says':<{_INDENT}}", style="bold"), end="")
        self._console.print(Text(_lines(text)), end="", soft_wrap=True)
        self._streamed += len(text)

    def _end_text(self) -> None:
        if self._streamed:
            self._console.print()
            self._streamed = 0

    def _call(self, data: Mapping[str, Any]) -> None:
        tool = clean(str(data.get("tool", "")), 80)
        self._calls += 1
        if len(self._tools) >= _MOST_CALLS:
            self._tools.clear()
            self._refused.clear()
            self._explained.clear()
        self._tools[str(data.get("call_id"))] = tool
        self.say("call", f"{tool} {shorten(data.get('arguments'))}".rstrip(), "blue")

    def _verdict(self, data: Mapping[str, Any]) -> None:
        call_id, action = str(data.get("call_id")), str(data.get("action"))
        tool, loop = self._tools.get(call_id), (str(data.get("key")), action)
        found = _found(data, whole=loop not in self._explained)
        self._explained.add(loop)
        if tool is not None:
            found = f"{tool}: {found}"
        if action in _VERDICTS:
            if action == "block":
                self._refused.add(call_id)
            word, style = _VERDICTS[action]
            self.say(word, found, style)
        elif data.get("would") in _VERDICTS:
            word, style = _VERDICTS[data["would"]]
            self.say("observed", f"{found} (would be: {word})", style)

    def _outcome(self, data: Mapping[str, Any]) -> None:
        call_id = str(data.get("call_id"))
        if call_id in self._refused:
            return
        tool = self._tools.get(call_id, "")
        word, style = ("result", "dim") if data.get("ok") else ("failed", "red")
        ended = f" ({clean(str(data['ended']), 40)})" if data.get("ended") else ""
        self.say(word, f"{tool}: {_line(data.get('text'))}{ended}", style)

    def _compaction(self, data: Mapping[str, Any]) -> None:
        before, after = data.get("tokens_before"), data.get("tokens_after")
        why = "the context is nearly full" if data.get("cause") == "ahead" else "the context overflowed"
        sizes = f": about {before:,} tokens, now {after:,}" if isinstance(before, int) and after else ""
        self.say("compacted", f"{why}{sizes}", "cyan")
        window = data.get("window")
        if window:
            self.say("armed", f"the guard compares the next {window} results with each other", "cyan")

    def _ended(self, data: Mapping[str, Any]) -> None:
        reason = str(data.get("reason"))
        used = _used(data, self._calls)
        if self._below:
            used += f"; sub-agents: {_used(self._below, self._below['calls'])}"
        self.say(reason, used, _ENDS.get(reason, ""))
        why = " ".join(_line(data[name], _MESSAGE) for name in ("code", "message") if data.get(name))
        if why:
            self.say("", why)


def _used(data: Mapping[str, Any], calls: int) -> str:
    """What a run, or several, took."""
    requests, read, written = (data.get(name) or 0 for name in _USED)
    tokens = f", {read:,} tokens read, {written:,} written" if read or written else ""
    return f"{_many(calls, 'call')}, {_many(requests, 'request')}{tokens}"


def _found(data: Mapping[str, Any], *, whole: bool = True) -> str:
    """Which detector found what; the words for the model where they are not known yet (`whole`)."""
    times = f", {data['count']} times" if data.get("count") else ""
    message = f": {_line(data.get('message'), _MESSAGE)}" if whole and data.get("message") else ""
    return f"{data.get('detector')}{times}{message}"


def _lines(text: str) -> str:
    """All of the text, safe to show, its lines below each other."""
    lines = text.replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return f"\n{' ' * _INDENT}".join(clean(line, _LINE) for line in lines)


def _line(text: object, limit: int = _LONG) -> str:
    """The first line that says something, safe to show: one with more than brackets, if there is one."""
    lines = [line.strip() for line in str(text or "")[:_READ].splitlines() if line.strip()]
    telling = (line for line in lines if any(map(str.isalnum, line)))
    return clean(mask(next(telling, lines[0] if lines else "")), limit)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
