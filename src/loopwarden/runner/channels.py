"""Where the tool `message` sends to: the terminal, files of the workspace, webhooks on loopback."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loopwarden.runner.folder import Folder, OutsideError
from loopwarden.runner.webhook import post

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from loopwarden.config.runtime import ChannelBlock

    Show: TypeAlias = Callable[["Message"], None]

TERMINAL: Final = "terminal"

FILE_BYTES: Final = 16 * 1024 * 1024
"""A file channel is full then."""

READ_BYTES: Final = 256 * 1024
"""Bytes at the end of a file channel in which messages are looked for."""


class ChannelError(Exception):
    """A message could not be sent or read; the text says why, for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message that is sent.

    Attributes:
        channel: Name of the channel.
        message_id: Unique.
        timestamp: Milliseconds since the epoch.
        text: What is said.
        sender: Id of the agent.
        reply_to: Id of the message that it answers.
        file: What is known of a file that goes with it: `fileId`, `name`, `bytes`, `sha256`, `content`
            (base64).
    """

    channel: str
    message_id: str
    timestamp: int
    text: str
    sender: str
    reply_to: str | None = None
    file: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is written to files and webhooks."""
        fields = {
            "messageId": self.message_id,
            "timestamp": self.timestamp,
            "from": self.sender,
            "text": self.text,
            "replyTo": self.reply_to,
            "file": None if self.file is None else dict(self.file),
        }
        return {name: value for name, value in fields.items() if value is not None}


class Channels:
    """The channels of one agent.

    Args:
        blocks: Channels by name, as configured.
        workspace: Folder of the files.
        show: Shows a message in the terminal, at once; `None`: there is no terminal.
    """

    def __init__(
        self, blocks: Mapping[str, ChannelBlock], workspace: Path, *, show: Show | None = None
    ) -> None:
        self._blocks = dict(blocks)
        self._folder = Folder(workspace)
        self._show = show

    def names(self) -> dict[str, str]:
        """What stands behind each channel, by name; the terminal only where there is one."""
        named: dict[str, str] = {name: block.type for name, block in self._blocks.items()}
        if self._show is not None:
            named.setdefault(TERMINAL, "terminal")
        return named

    async def send(
        self,
        channel: str,
        text: str,
        *,
        sender: str,
        reply_to: str | None = None,
        file: Mapping[str, Any] | None = None,
    ) -> Message:
        """Send a message, and give it back as it was sent.

        Raises:
            ChannelError: There is no such channel, or it didn't take the message.
        """
        message = Message(
            channel=channel,
            message_id=f"msg-{uuid.uuid4().hex}",
            timestamp=int(time.time() * 1000),
            text=text,
            sender=sender,
            reply_to=reply_to,
            file=file,
        )
        block = self._blocks.get(channel)
        if (block.type if block is not None else channel) == TERMINAL:
            self._to_terminal(message)
        elif block is None:
            raise ChannelError(self._unknown(channel))
        elif block.type == "file":
            line = json.dumps(message.as_json()).encode() + b"\n"
            path = block.path or ""
            await _on_file(channel, lambda: self._folder.append(path, line, FILE_BYTES))
        else:
            try:
                await post(block.url or "", message.as_json())
            except (OSError, ValueError) as error:
                raise ChannelError(f"{channel}: {error}") from error
        return message

    async def read(self, channel: str, limit: int) -> list[dict[str, Any]]:
        """The newest messages of a channel, the oldest of them first.

        A line of a file that is no JSON object, as a person may write it, is `{"text": LINE}`.

        Raises:
            ChannelError: There is no such channel, it can't be read, or can't be read now.
        """
        block = self._blocks.get(channel)
        if block is None and channel != TERMINAL:
            raise ChannelError(self._unknown(channel))
        if block is None or block.type != "file":
            raise ChannelError(f"{channel}: only file channels can be read")
        path = block.path or ""
        data = await _on_file(channel, lambda: self._end_of(path))
        lines = [line for line in data.decode("utf-8", "replace").split("\n") if line.strip()]
        return [_message(line) for line in lines[-limit:]]

    def _end_of(self, path: str) -> bytes:
        """What stands last in a file; nothing in one that nobody has written to yet."""
        try:
            return self._folder.end_of(path, READ_BYTES)
        except FileNotFoundError:
            return b""

    def _to_terminal(self, message: Message) -> None:
        if self._show is None:
            raise ChannelError("terminal: this agent runs without one")
        try:
            self._show(message)
        except (OSError, ValueError) as error:  # closed, or gone
            raise ChannelError(f"terminal: {error}") from error

    def _unknown(self, channel: str) -> str:
        known = ", ".join(sorted(self.names())) or "none"
        return f"there is no channel {channel!r}; channels: {known}"


async def _on_file(channel: str, work: Callable[[], Any]) -> Any:
    try:
        return await asyncio.to_thread(work)
    except OutsideError as error:
        raise ChannelError(f"{channel}: {error}") from error
    except OSError as error:
        raise ChannelError(f"{channel}: {error.strerror or 'its file can not be used'}") from error


def _message(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {"text": line}
    return value if isinstance(value, dict) else {"text": line}
