"""Messages to the terminal, to files and to webhooks on this machine."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra runner")

from loopwarden.config.runtime import ChannelBlock
from loopwarden.runner import channels, webhook
from loopwarden.runner.channels import ChannelError, Channels
from tests.runner.tools.benches import Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Hook:
    """A webhook server on loopback that keeps what it was sent.

    Attributes:
        answer: Bytes that are answered; empty: nothing, the connection stays open.
        requests: Heads and bodies.
    """

    def __init__(self) -> None:
        self.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
        self.requests: list[tuple[str, bytes]] = []
        self.open = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length")
            )
            self.requests.append((head, await reader.readexactly(length)))
            if self.answer:
                writer.write(self.answer)
                await writer.drain()
            else:
                await self.open.wait()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def hook() -> AsyncIterator[Hook]:
    served = Hook()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        served.open.set()
        server.close()
        await server.wait_closed()


def agent(**blocks: dict[str, Any]) -> dict[str, Any]:
    return {"tools": {"channels": blocks}}


def unchecked(workspace: Path, **block: Any) -> Channels:
    """One channel that a configuration would be refused for."""
    return Channels({"one": ChannelBlock.model_construct(**block)}, workspace)


def test_the_terminal_shows_a_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            sent = await scene.call("message", action="send", message="hello")
            [shown] = scene.shown
            assert (shown.text, shown.sender, shown.channel) == ("hello", "tester", "terminal")
            assert sent.details["messageId"] == shown.message_id
            assert sent.details["timestamp"] == shown.timestamp
            assert sent.text == f"Sent to terminal as {shown.message_id}."
            assert (await scene.call("message", action="read", channel="terminal")).failed
            assert (await scene.call("message", action="list")).text == "terminal: terminal"

    asyncio.run(main())


def test_without_a_terminal_the_model_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path) as scene:
            scene.bench.channels = Channels({}, tmp_path)
            sent = await scene.call("message", action="send", message="hello")
            assert (sent.failed, sent.text) == (True, "not sent: terminal: this agent runs without one")
            assert (await scene.call("message", action="list")).text == "There are no channels."

            def closed(_: object) -> None:
                raise BrokenPipeError("gone")

            scene.bench.channels = Channels({}, tmp_path, show=closed)
            assert (await scene.call("message", action="send", message="hello")).failed

    asyncio.run(main())


def test_a_file_keeps_messages_and_replies(tmp_path: Path) -> None:
    async def main() -> None:
        blocks = agent(log={"type": "file", "path": "out/log.jsonl"})
        async with Scene(tmp_path, blocks) as scene:
            assert (await scene.call("message", action="read", channel="log")).text == "No messages."
            await scene.call("write", path="a.txt", content="attached")
            sent = await scene.call("message", action="send", channel="log", message="one\ntwo", file="a.txt")
            first = sent.details["messageId"]
            await scene.call("message", action="reply", channel="log", message="three", replyTo=first)
            with (tmp_path / "out/log.jsonl").open("a", encoding="utf-8") as file:
                file.write('a person\'s line\n{"text": "\\ud800"}\n')
            lines = (tmp_path / "out/log.jsonl").read_text(encoding="utf-8").splitlines()
            one, two = json.loads(lines[0]), json.loads(lines[1])
            assert one["text"] == "one\ntwo"
            assert one["messageId"] == first
            assert one["file"]["fileId"] == sent.details["fileId"]
            assert base64.b64decode(one["file"]["content"]) == b"attached"
            assert two["replyTo"] == first
            read = await scene.call("message", action="read", channel="log", limit=3)
            assert [json.loads(line) for line in read.text.splitlines()] == [
                two, {"text": "a person's line"}, {"text": "\ud800"},
            ]  # fmt: skip
            read.text.encode()
            everything = await scene.call("message", action="read", channel="log")
            assert "content" not in everything.text
            assert (await scene.call("message", action="list")).details["channels"] == {
                "log": "file", "terminal": "terminal",
            }  # fmt: skip

    asyncio.run(main())
    assert stat.S_IMODE((tmp_path / "out/log.jsonl").stat().st_mode) == 0o600


def test_a_file_channel_stays_in_the_workspace_and_ends_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path)

    async def main() -> None:
        blocks = agent(
            link={"type": "file", "path": "link/out"},
            full={"type": "file", "path": "full"},
        )
        async with Scene(tmp_path / "work", blocks) as scene:
            assert (await scene.call("message", action="send", channel="link", message="x")).failed
            assert (await scene.call("message", action="read", channel="link")).failed
            up = unchecked(tmp_path / "work", type="file", path="../out")
            with pytest.raises(ChannelError, match="not allowed"):
                await up.send("one", "x", sender="a")
            monkeypatch.setattr(channels, "FILE_BYTES", 300)
            assert not (await scene.call("message", action="send", channel="full", message="x")).failed
            full = await scene.call("message", action="send", channel="full", message="x" * 300)
            assert "full" in full.text

    asyncio.run(main())
    assert not (tmp_path / "out").exists()


def test_a_webhook_gets_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    async def main() -> None:
        async with hook() as served:
            blocks = agent(
                name={"type": "webhook", "url": f"http://localhost:{served.port}/a?b=c"},
                number={"type": "webhook", "url": f"http://127.0.0.1:{served.port}/"},
            )
            async with Scene(tmp_path, blocks) as scene:
                for channel in ("name", "number"):
                    sent = await scene.call("message", action="send", channel=channel, message="hi")
                    assert not sent.failed, sent.text
                    head, body = served.requests[-1]
                    assert json.loads(body)["messageId"] == sent.details["messageId"]
                    assert json.loads(body)["text"] == "hi"
                assert served.requests[0][0].startswith("POST /a?b=c HTTP/1.1\r\n")
                assert f"host: localhost:{served.port}" in served.requests[0][0].lower()
                assert "authorization" not in head.lower()

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        b"",
    ],
)
def test_a_webhook_that_does_not_take_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    if not answer:
        monkeypatch.setattr(webhook, "SECONDS", 2)

    async def main() -> None:
        async with hook() as served:
            served.answer = answer
            blocks = agent(hook={"type": "webhook", "url": f"http://127.0.0.1:{served.port}/"})
            async with Scene(tmp_path, blocks) as scene:
                sent = await scene.call("message", action="send", channel="hook", message="hi")
                assert sent.failed
                assert len(served.requests) == 1, "no redirect is followed, nothing is sent twice"

    asyncio.run(main())


def test_an_answer_without_end_is_not_read_to_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with hook() as served:
            served.answer = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5_000_000
            blocks = agent(hook={"type": "webhook", "url": f"http://127.0.0.1:{served.port}/"})
            async with Scene(tmp_path, blocks) as scene:
                assert not (await scene.call("message", action="send", channel="hook", message="hi")).failed

    asyncio.run(main())


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1/", "http://[2001:db8::1]/", "https://127.0.0.1/", "file:///etc/passwd",
        "http://", "x",
        "http://user:password@127.0.0.1/", "http://0.0.0.0/", "http://169.254.169.254/",
        "http://[::ffff:8.8.8.8]/",
        "http://127.0.0.1.invalid/", "http://3232235777/", "http://127.0.0.1:99999/", "http://a b/",
    ],
)  # fmt: skip
def test_only_this_machine_is_reached(tmp_path: Path, url: str) -> None:
    async def main() -> None:
        with pytest.raises(ChannelError) as caught:
            await unchecked(tmp_path, type="webhook", url=url).send("one", "hi", sender="a")
        assert "password" not in str(caught.value).replace("name and password", "")

    asyncio.run(main())


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    async def main() -> None:
        async with Scene(tmp_path, agent(log={"type": "file", "path": "log"})) as scene:
            calls: list[dict[str, Any]] = [
                {"action": "send"},
                {"action": "reply", "message": "x"},
                {"action": "send", "message": "x", "channel": "none"},
                {"action": "read", "channel": "none"},
                {"action": "send", "file": "none"},
                {"action": "send", "file": "../x"},
                {"action": "send", "file": "large"},
            ]
            (tmp_path / "large").write_bytes(b"x" * 300_000)
            for call in calls:
                assert (await scene.call("message", **call)).failed, call
            assert "channels: log, terminal" in (await scene.call("message", **calls[2])).text
            assert not scene.shown

    asyncio.run(main())


def test_a_message_for_a_file_without_its_workspace_is_not_said_to_be_sent(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()

    async def main() -> None:
        async with Scene(folder, agent(log={"type": "file", "path": "log"})) as scene:
            folder.rmdir()
            sent = await scene.call("message", action="send", channel="log", message="hello")
            assert (sent.failed, sent.text) == (True, "not sent: log: No such file or directory")
            folder.mkdir()
            assert not (await scene.call("message", action="send", channel="log", message="hello")).failed

    asyncio.run(main())
