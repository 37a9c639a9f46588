"""The plug-ins, in JavaScript, of agents that start no hook command.

They are plain ES modules without a dependency. What is installed is one file, with the part that they share
in it and the hook command, for the time when no service is running yet.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHARED: Final = "ask.js"
_IMPORT: Final = re.compile(r'^import \{.*\} from "\./ask\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=async function|function)", re.MULTILINE)
_COMMAND: Final = re.compile(r"^const COMMAND = .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """The plug-in of one host.

    Attributes:
        module: The module of the plug-in, here.
        target: Where it is installed, below the user's folder of the host.
        others: Further files: where they are installed, by their name here.
    """

    module: str
    target: str
    others: Mapping[str, str]

    def contents(self, command: Sequence[str]) -> dict[str, str]:
        """All files by their path below the user's folder of the host, the plug-in first.

        Args:
            command: Program and arguments that start the hook, before the name of the host.
        """
        others = {target: _read(name) for name, target in self.others.items()}
        return {self.target: self._whole(command), **others}

    def _whole(self, command: Sequence[str]) -> str:
        """The plug-in with what it imports."""
        line = f"const COMMAND = {json.dumps(list(command))};"
        shared = _COMMAND.sub(lambda _: line, _EXPORT.sub("", _read(_SHARED)))
        return _IMPORT.sub(lambda _: shared, _read(self.module))


PLUGINS: Final[Mapping[str, Plugin]] = {
    "opencode": Plugin(
        module="opencode.js",
        target="plugins/loopwarden.js",
        others={},
    ),
    "openclaw": Plugin(
        module="openclaw.js",
        target="extensions/loopwarden/openclaw.js",
        others={
            "openclaw.plugin.json": "extensions/loopwarden/openclaw.plugin.json",
            "package.json": "extensions/loopwarden/package.json",
        },
    ),
}
"""By the name of the host."""


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
