"""`message`: says something to a channel, or reads it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import uuid
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field
from pydantic_ai import Tool, ToolReturn

from loopwarden.runner.channels import TERMINAL, ChannelError
from loopwarden.runner.folder import OutsideError, read_bytes
from loopwarden.runner.tools.arguments import RETRIES, Arguments
from loopwarden.runner.tools.shapes import TEXT, refused, shaped

if TYPE_CHECKING:
    from loopwarden.runner.folder import Folder
    from loopwarden.runner.tools.bench import Bench

FILE_BYTES: Final = 256 * 1024
"""Of a file that goes with a message."""

_DESCRIPTION = """\
Send a message to a channel, reply to one, read the newest messages of a channel, or list the channels."""


class MessageArguments(Arguments):
    """Arguments of `message`."""

    action: Annotated[Literal["send", "reply", "read", "list"], Field(description="What to do.")]
    channel: Annotated[str, Field(min_length=1, max_length=200, description="Name of the channel.")] = (
        TERMINAL
    )
    message: Annotated[str, Field(max_length=100_000, description="send, reply: the text.")] = ""
    reply_to: Annotated[
        str | None, Field(max_length=200, description="reply: messageId of the message that is answered.")
    ] = None
    file: Annotated[
        str | None,
        Field(max_length=4096, description="send, reply: file of the workspace to go with it, up to 256 kB."),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="read: most messages to give.")] = 20


def message_tool(bench: Bench) -> Tool[Any]:
    """The tool `message`."""

    async def run(arguments: MessageArguments) -> ToolReturn[str]:
        if arguments.action == "list":
            names = bench.channels.names()
            text = "\n".join(f"{name}: {kind}" for name, kind in names.items())
            return shaped(text or "There are no channels.", {"channels": names})
        if arguments.action == "read":
            return await _read(bench, arguments)
        return await _send(bench, arguments)

    return Tool(run, takes_ctx=False, name="message", description=_DESCRIPTION, max_retries=RETRIES)


async def _send(bench: Bench, arguments: MessageArguments) -> ToolReturn[str]:
    if not arguments.message and arguments.file is None:
        return refused(f"{arguments.action}: needs a message or a file")
    if arguments.action == "reply" and arguments.reply_to is None:
        return refused("reply: needs replyTo, the messageId of the message that is answered")
    file: dict[str, Any] | None = None
    try:
        if arguments.file is not None:
            file = await asyncio.to_thread(_file, bench.folder, arguments.file)
        message = await bench.channels.send(
            arguments.channel,
            arguments.message,
            sender=bench.agent.id,
            reply_to=arguments.reply_to,
            file=file,
        )
    except (ChannelError, OutsideError) as error:
        return refused(f"not sent: {error}", channel=arguments.channel)
    except OSError as error:
        return refused(f"not sent: {arguments.file}: {error.strerror}", channel=arguments.channel)
    details = {
        "ok": True,
        "channel": message.channel,
        "messageId": message.message_id,
        "timestamp": message.timestamp,
        "runId": bench.run,
    }
    if file is not None:
        details |= {"fileId": file["fileId"], "sha256": file["sha256"], "bytes": file["bytes"]}
    return shaped(f"Sent to {message.channel} as {message.message_id}.", details)


def _file(folder: Folder, path: str) -> dict[str, Any]:
    with folder.reading(path) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > FILE_BYTES:
            raise OutsideError(f"{path}: larger than {FILE_BYTES} bytes")
        data = read_bytes(descriptor, FILE_BYTES)
    return {
        "fileId": f"file-{uuid.uuid4().hex}",
        "name": os.path.basename(path),  # noqa: PTH119 - a text, not a place
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "content": base64.b64encode(data).decode(),
    }


async def _read(bench: Bench, arguments: MessageArguments) -> ToolReturn[str]:
    try:
        messages = await bench.channels.read(arguments.channel, arguments.limit)
    except ChannelError as error:
        return refused(str(error), channel=arguments.channel)
    lines: list[str] = []
    room = TEXT
    for message in reversed(messages):  # the newest are the ones to see
        line = json.dumps(_without_content(message), ensure_ascii=False)
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    left_out = len(messages) - len(lines)
    if left_out:
        lines.append(f"[... {left_out} older ones left out ...]")
    text = "\n".join(reversed(lines)).encode("utf-8", "backslashreplace").decode()
    return shaped(text or "No messages.", {"channel": arguments.channel, "count": len(messages)})


def _without_content(message: dict[str, Any]) -> dict[str, Any]:
    file = message.get("file")
    if not isinstance(file, dict):
        return message
    return message | {"file": {name: value for name, value in file.items() if name != "content"}}
