"""A proxy in this process, the scripted provider behind it, and what the three APIs look like on the wire."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.adapters.contract import Ask, Ran

KEY = "sk-a-key-that-only-this-test-knows-0001"
Item = dict[str, Any]


def events(found: list[Item], end: str = "") -> bytes:
    """Server-sent events, each named by its type where it has one."""
    lines = [
        (f"event: {each['type']}\n" if "type" in each else "") + f"data: {json.dumps(each)}\n\n"
        for each in found
    ]
    return ("".join(lines) + end).encode()


def data_of(stream: str) -> list[Item]:
    lines = [line[5:].strip() for line in stream.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


class Chat:
    """Chat completions."""

    path = "/v1/chat/completions"
    model = "chat"
    field = "messages"

    @staticmethod
    def tools(names: list[str]) -> list[Item]:
        return [
            {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
            for name in names
        ]

    @staticmethod
    def person(text: str) -> Item:
        return {"role": "user", "content": text}

    @staticmethod
    def answer(call_id: str, text: str) -> Item:
        return {"role": "tool", "tool_call_id": call_id, "content": text}

    @staticmethod
    def joined(answers: list[Item]) -> list[Item]:
        return answers

    @staticmethod
    def shown(history: list[Item]) -> list[tuple[str, str]]:
        return [(each["tool_call_id"], each["content"]) for each in history if each["role"] == "tool"]

    @staticmethod
    def body(asks: list[Ask], text: str | None) -> Item:
        message: Item = {"role": "assistant", "content": text}
        if asks:
            message["tool_calls"] = [Chat._call(ask) for ask in asks]
        reason = "tool_calls" if asks else "stop"
        choice = {"index": 0, "finish_reason": reason, "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }

    @staticmethod
    def stream(asks: list[Ask], text: str | None) -> bytes:
        deltas: list[Item] = [{"role": "assistant", "content": text or ""}]
        for index, ask in enumerate(asks):
            call = Chat._call(ask)
            written = call["function"].pop("arguments")
            call["function"]["arguments"] = ""
            deltas.append({"tool_calls": [{"index": index, **call}]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                for piece in (written[:5], written[5:])
            ]
        chunks = [(delta, None) for delta in deltas] + [({}, "tool_calls" if asks else "stop")]
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return events(
            [
                {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
                for delta, reason in chunks
            ],
            "data: [DONE]\n\n",
        )

    @staticmethod
    def _call(ask: Ask) -> Item:
        function = {"name": ask.tool, "arguments": json.dumps({"query": ask.query})}
        return {"id": ask.call_id, "type": "function", "function": function}

    @staticmethod
    def read(body: Item) -> list[Item]:
        return [body["choices"][0]["message"]]

    @staticmethod
    def assembled(stream: str) -> list[Item]:
        message: Item = {"role": "assistant", "content": ""}
        calls: list[Item] = []
        for chunk in data_of(stream):
            assert chunk["id"] == "x"
            for choice in chunk["choices"]:
                message["content"] += choice["delta"].get("content") or ""
                for piece in choice["delta"].get("tool_calls") or ():
                    if piece["index"] == len(calls):
                        calls.append({key: piece[key] for key in ("id", "type", "function")})
                    else:
                        calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
        return [message | ({"tool_calls": calls} if calls else {})]

    @staticmethod
    def asked(reply: list[Item]) -> list[tuple[str, str, str]]:
        calls = reply[0].get("tool_calls") or ()
        return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]

    @staticmethod
    def text(reply: list[Item]) -> str:
        return reply[0].get("content") or ""


class Anthropic:
    """Anthropic's messages."""

    path = "/v1/messages"
    model = "claude"
    field = "messages"
    person = Chat.person

    @staticmethod
    def tools(names: list[str]) -> list[Item]:
        return [{"name": name, "input_schema": {"type": "object"}} for name in names]

    @staticmethod
    def answer(call_id: str, text: str) -> Item:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text}]}

    @staticmethod
    def joined(answers: list[Item]) -> list[Item]:
        return [{"role": "user", "content": [block for each in answers for block in each["content"]]}]

    @staticmethod
    def shown(history: list[Item]) -> list[tuple[str, str]]:
        results: list[tuple[str, str]] = []
        asked: set[str] = set()
        for each in history:
            blocks = each["content"] if isinstance(each["content"], list) else []
            found = [block for block in blocks if block["type"] == "tool_result"]
            assert {block["tool_use_id"] for block in found} == asked, "each reply is answered at once"
            asked = {block["id"] for block in blocks if block["type"] == "tool_use"}
            results += [(block["tool_use_id"], block["content"]) for block in found]
        return results

    @staticmethod
    def _blocks(asks: list[Ask], text: str | None) -> list[Item]:
        words = [{"type": "text", "text": text}] if text else []
        return words + [
            {"type": "tool_use", "id": ask.call_id, "name": ask.tool, "input": {"query": ask.query}}
            for ask in asks
        ]

    @staticmethod
    def body(asks: list[Ask], text: str | None) -> Item:
        return {
            "id": "x",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": Anthropic._blocks(asks, text),
            "stop_reason": "tool_use" if asks else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    @staticmethod
    def stream(asks: list[Ask], text: str | None) -> bytes:
        body = Anthropic.body(asks, text)
        start = {**body, "content": [], "stop_reason": None}
        found: list[Item] = [{"type": "message_start", "message": start}]
        for index, block in enumerate(body["content"]):
            empty = {"text": ""} if block["type"] == "text" else {"input": {}}
            delta = (
                {"type": "text_delta", "text": block["text"]}
                if block["type"] == "text"
                else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            )
            found += [
                {"type": "content_block_start", "index": index, "content_block": {**block, **empty}},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        end = {"stop_reason": body["stop_reason"], "stop_sequence": None}
        found += [
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        return events(found)

    @staticmethod
    def read(body: Item) -> list[Item]:
        return [{"role": "assistant", "content": body["content"]}]

    @staticmethod
    def assembled(stream: str) -> list[Item]:
        found = data_of(stream)
        assert [each["type"] for each in found if each["type"].startswith("message_")] == [
            "message_start",
            "message_delta",
            "message_stop",
        ]
        blocks: list[Item] = []
        for each in found:
            if each["type"] == "content_block_start":
                assert each["index"] == len(blocks)
                blocks.append(each["content_block"])
            elif each["type"] == "content_block_delta":
                block, delta = blocks[each["index"]], each["delta"]
                if block["type"] == "text":
                    block["text"] += delta["text"]
                else:
                    block["input"] = json.loads(delta["partial_json"])
        return [{"role": "assistant", "content": blocks}]

    @staticmethod
    def asked(reply: list[Item]) -> list[tuple[str, str, str]]:
        return [
            (block["id"], block["name"], json.dumps(block["input"]))
            for block in reply[0]["content"]
            if block["type"] == "tool_use"
        ]

    @staticmethod
    def text(reply: list[Item]) -> str:
        return "".join(block["text"] for block in reply[0]["content"] if block["type"] == "text")


class Responses:
    """OpenAI's Responses."""

    path = "/v1/responses"
    model = "chat"
    field = "input"
    person = Chat.person

    @staticmethod
    def tools(names: list[str]) -> list[Item]:
        return [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in names]

    @staticmethod
    def answer(call_id: str, text: str) -> Item:
        return {"type": "function_call_output", "call_id": call_id, "output": text}

    joined = Chat.joined

    @staticmethod
    def shown(history: list[Item]) -> list[tuple[str, str]]:
        asked = {each["call_id"] for each in history if each.get("type") == "function_call"}
        found = [each for each in history if each.get("type") == "function_call_output"]
        assert {each["call_id"] for each in found} <= asked
        return [(each["call_id"], each["output"]) for each in found]

    @staticmethod
    def body(asks: list[Ask], text: str | None) -> Item:
        output: list[Item] = []
        if text:
            part = {"type": "output_text", "text": text, "annotations": []}
            output.append(
                {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
            )
        output += [
            {
                "type": "function_call",
                "id": f"fc-{ask.call_id}",
                "call_id": ask.call_id,
                "name": ask.tool,
                "arguments": json.dumps({"query": ask.query}),
                "status": "completed",
            }
            for ask in asks
        ]
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        head = {"id": "resp_x", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
        more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}
        return {**head, **more, "output": output}

    @staticmethod
    def stream(asks: list[Ask], text: str | None) -> bytes:
        body = Responses.body(asks, text)
        found: list[Item] = [
            {"type": "response.created", "response": {**body, "output": [], "status": "in_progress"}}
        ]
        for index, item in enumerate(body["output"]):
            place = {"output_index": index}
            found.append({"type": "response.output_item.added", **place, "item": item})
            if item["type"] == "function_call":
                more = {"item_id": item["id"], **place}
                written = item["arguments"]
                found += [
                    {"type": "response.function_call_arguments.delta", **more, "delta": written},
                    {"type": "response.function_call_arguments.done", **more, "arguments": written},
                ]
            found.append({"type": "response.output_item.done", **place, "item": item})
        found.append({"type": "response.completed", "response": body})
        return events([{**each, "sequence_number": number} for number, each in enumerate(found)])

    @staticmethod
    def read(body: Item) -> list[Item]:
        return body["output"]

    @staticmethod
    def assembled(stream: str) -> list[Item]:
        found = data_of(stream)
        assert [each["sequence_number"] for each in found] == list(range(len(found)))
        assert [each["type"] for each in found].count("response.created") == 1
        places = [each["output_index"] for each in found if each["type"] == "response.output_item.added"]
        assert places == list(range(len(places)))
        return found[-1]["response"]["output"]

    @staticmethod
    def asked(reply: list[Item]) -> list[tuple[str, str, str]]:
        calls = [item for item in reply if item["type"] == "function_call"]
        return [(call["call_id"], call["name"], call["arguments"]) for call in calls]

    @staticmethod
    def text(reply: list[Item]) -> str:
        return "".join(item["content"][0]["text"] for item in reply if item["type"] == "message")


FORMATS: dict[str, Any] = {"chat": Chat, "anthropic": Anthropic, "responses": Responses}


@dataclass(slots=True)
class Provider:
    """What is behind the proxy: gives one scripted reply a request, and writes down what it was sent.

    Attributes:
        replies: A reply is the calls it asks for; after the last one it says "done".
        words: Said before the calls.
        failures: How many requests fail before the first reply.
        bodies: What was sent, by path and body.
    """

    replies: list[list[Ask]] = field(default_factory=list)
    words: str | None = None
    failures: int = 0
    bodies: list[tuple[str, Item]] = field(default_factory=list)

    def script(self, replies: list[list[Ask]], words: str | None = None, failures: int = 0) -> None:
        self.replies, self.words, self.failures = list(replies), words, failures
        self.bodies.clear()

    def told(self, ran: Ran) -> None:
        """Write into `ran` what the model was shown."""
        ran.requests = len(self.bodies)
        for path, body in self.bodies:
            form = next(form for form in FORMATS.values() if path.endswith(form.path))
            history = body[form.field]
            for call_id, text in form.shown(history) if isinstance(history, list) else ():
                seen = ran.answers.setdefault(call_id, [])
                seen += [text] if text not in seen else []

    def reply(self, path: str, body: Item) -> tuple[int, str, bytes]:
        if self.failures:
            self.failures -= 1
            return 500, "application/json", b'{"error": {"message": "out of order", "type": "server_error"}}'
        self.bodies.append((path, body))
        form = next(form for form in FORMATS.values() if path.endswith(form.path))
        asks = self.replies.pop(0) if self.replies else []
        words = self.words if asks else "done"
        if body.get("stream"):
            return 200, "text/event-stream", form.stream(asks, words)
        return 200, "application/json", json.dumps(form.body(asks, words)).encode()


def serving(provider: Provider) -> ThreadingHTTPServer:
    """A provider on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, kind, answer = provider.reply(self.path, body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def config(folder: Path, port: int, callbacks: str | None = None) -> Path:
    """The proxy's `config.yaml`, as JSON, which is YAML too."""
    base = f"http://127.0.0.1:{port}"
    openai = {"model": "openai/m", "api_base": f"{base}/v1", "api_key": "k"}
    anthropic = {"model": "anthropic/m", "api_base": base, "api_key": "k"}
    settings: Item = {
        "model_list": [
            {"model_name": "chat", "litellm_params": openai},
            {"model_name": "claude", "litellm_params": anthropic},
        ],
        "general_settings": {"master_key": KEY},
        "router_settings": {"num_retries": 1, "retry_after": 0},
    }
    if callbacks is not None:
        settings["litellm_settings"] = {"callbacks": callbacks}
    path = folder / "config.yaml"
    path.write_text(json.dumps(settings))
    return path


def proxy(path: Path) -> Iterator[str]:
    """The address of the real proxy, in a thread of this process."""
    os.environ |= {"CONFIG_FILE_PATH": str(path), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    import uvicorn
    from litellm.proxy.proxy_server import app

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    started = threading.Event()
    while not server.started and thread.is_alive():
        started.wait(0.05)
    assert server.started
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
