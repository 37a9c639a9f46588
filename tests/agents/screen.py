"""What a terminal shows, as far as text goes: without colours, every character one column wide."""

from __future__ import annotations

import re
from typing import Final

_PARTS: Final = re.compile(
    r"\x1b\[(?P<marks>[<=>?]?)(?P<numbers>[0-9;:]*)[ -/]*(?P<what>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-~]"
    r"|(?P<text>[^\x00-\x1f\x7f]+)"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
)
_UNFINISHED: Final = re.compile(r"\x1b[^\x1b]{0,4096}\Z")


class Screen:
    """A screen of so many rows and columns."""

    def __init__(self, rows: int, columns: int) -> None:
        self._size = rows, columns
        self._lines = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._rest = ""

    @property
    def text(self) -> str:
        """What is shown, a row a line."""
        return "\n".join("".join(line).rstrip() for line in self._lines)

    def feed(self, text: str) -> None:
        """What the program writes; an escape sequence may come in two pieces."""
        text = self._rest + text
        end = 0
        for part in _PARTS.finditer(text):
            end = part.end()
            if part["text"]:
                self._write(part["text"])
            elif part["control"]:
                self._control(part["control"])
            elif part["what"] and not part["marks"]:
                self._command(
                    part["what"], [int(number or 0) for number in re.split("[;:]", part["numbers"])]
                )
        left = _UNFINISHED.search(text, end)
        self._rest = left[0] if left else ""

    def _write(self, text: str) -> None:
        rows, columns = self._size
        for char in text:
            if self._column >= columns:
                self._column = 0
                self._down()
            self._lines[min(self._row, rows - 1)][self._column] = char
            self._column += 1

    def _control(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._down()
        elif char == "\b":
            self._column = max(0, self._column - 1)

    def _down(self) -> None:
        if self._row + 1 < self._size[0]:
            self._row += 1
        else:
            self._lines = [*self._lines[1:], [" "] * self._size[1]]

    def _command(self, what: str, numbers: list[int]) -> None:
        rows, columns = self._size
        first = max(1, numbers[0])
        match what:
            case "A":
                self._row = max(0, self._row - first)
            case "B":
                self._row = min(rows - 1, self._row + first)
            case "C":
                self._column = min(columns - 1, self._column + first)
            case "D":
                self._column = max(0, self._column - first)
            case "G":
                self._column = min(columns, first) - 1
            case "d":
                self._row = min(rows, first) - 1
            case "H" | "f":
                self._row = min(rows, first) - 1
                self._column = min(columns, max(1, (*numbers, 1)[1])) - 1
            case "K":
                self._wipe(self._row, numbers[0])
            case "J":
                self._wipe(self._row, numbers[0])
                for row in range(rows):
                    if (row > self._row and numbers[0] != 1) or (row < self._row and numbers[0] != 0):
                        self._wipe(row, 2)

    def _wipe(self, row: int, how: int) -> None:
        start = 0 if how else self._column
        end = self._column + 1 if how == 1 else self._size[1]
        self._lines[row][start:end] = [" "] * (min(end, self._size[1]) - start)
