"""The headers of streamable HTTP, which a client that speaks stdio leaves to us.

The generation with sessions wants the session's id and the version that was agreed on. The one without
(2026-07-28) wants version, method and name of each request again as headers, and those arguments of a tool
that its schema marks with `x-mcp-header`.
"""

from __future__ import annotations

import base64
import os
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.errors import LoopwardenError
from loopwarden.mcp_proxy.calls import MODERN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Message: TypeAlias = dict[str, Any]

SESSION: Final = "Mcp-Session-Id"
VERSION: Final = "MCP-Protocol-Version"

_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_ENCODED: Final = re.compile(r"=\?base64\?.*\?=")
_TOOLS: Final = 10_000
_DEPTH: Final = 20


def from_environment(text: str, where: str) -> str:
    """The text with every `${VARIABLE}` replaced by its value.

    Raises:
        LoopwardenError: A variable is not set. The message holds `where` and no value.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise LoopwardenError(f"{where}: the variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(value, text)


def read_headers(written: Sequence[str]) -> dict[str, str]:
    """Headers as a user writes them: `NAME:VALUE`, with `${VARIABLE}` read from the environment.

    Raises:
        LoopwardenError: One is not of that form, or a variable is not set. The message holds no value.
    """
    found = {}
    for one in written:
        name, colon, value = one.partition(":")
        name = name.strip()
        if not colon or not _NAME.fullmatch(name):
            raise LoopwardenError("a header has to be written as NAME:VALUE")
        value = from_environment(value, f"header {name}").strip()
        if not value.isprintable() or not value.isascii():
            raise LoopwardenError(f"header {name}: only printable ASCII can be sent")
        found[name] = value
    return found


class Headers:
    """What is to be sent with each message, learnt from those that came by.

    Attributes:
        session: The session's id, where the server gave one.
        version: The version that was agreed on at `initialize`.
    """

    def __init__(self, own: dict[str, str]) -> None:
        self._own = own
        self._marked: dict[str, dict[tuple[str, ...], str]] = {}
        self.session: str | None = None
        self.version: str | None = None

    def plain(self) -> dict[str, str]:
        """Those of any request."""
        found = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **self._own,
        }
        if self.session is not None:
            found[SESSION] = self.session
        if self.version is not None:
            found[VERSION] = self.version
        return found

    def of(self, message: object) -> dict[str, str]:
        """Those of a message that is sent."""
        found = self.plain()
        if not isinstance(message, dict):
            return found
        method, params = message.get("method"), message.get("params")
        if method == "initialize":  # it asks for a session; none of an old one
            found.pop(SESSION, None)
            found.pop(VERSION, None)
            return found
        version = version_of(message)
        if version is None or not isinstance(method, str) or not isinstance(params, dict):
            return found
        found.pop(SESSION, None)
        found |= {VERSION: encoded(version), "Mcp-Method": encoded(method)}
        name = params.get(_NAMED_BY.get(method, ""))
        if isinstance(name, str):
            found["Mcp-Name"] = encoded(name)
            if method == "tools/call":
                for path, mark in self._marked.get(name, {}).items():
                    value = _at(params.get("arguments"), path)
                    if value is not None:
                        found[f"Mcp-Param-{mark}"] = encoded(value)
        return found

    def learn(self, tools: object) -> None:
        """Remember which arguments of the tools of a list are marked."""
        for tool in tools if isinstance(tools, list) else ():
            name = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(name, str):
                continue
            marks = dict(_marks(tool.get("inputSchema"), ()))
            self._marked.pop(name, None)
            if marks and len(self._marked) < _TOOLS:
                self._marked[name] = marks


def version_of(message: Message) -> str | None:
    """The version that the message itself names; `None` in the generation with sessions."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(MODERN) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def encoded(value: str) -> str:
    """A text as the value of a header: as it is where that is possible, else in base64."""
    if _PLAIN.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _marks(schema: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(schema, dict) or len(path) > _DEPTH:
        return
    mark = schema.get("x-mcp-header")
    if path and isinstance(mark, str) and _NAME.fullmatch(mark):
        yield path, mark
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, below in properties.items():
            yield from _marks(below, (*path, name))


def _at(arguments: object, path: tuple[str, ...]) -> str | None:
    """The argument at a path as a header shows it; `None` where there is none to show."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    if isinstance(arguments, bool):
        return "true" if arguments else "false"
    return str(arguments) if isinstance(arguments, str | int | float) else None
