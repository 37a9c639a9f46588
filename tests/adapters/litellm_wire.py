"""What the three APIs of a LiteLLM proxy look like on the wire, on both of its sides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.adapters.contract import Ask

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
        calls = [item for item in reply if item.get("type") == "function_call"]
        return [(call["call_id"], call["name"], call["arguments"]) for call in calls]

    @staticmethod
    def text(reply: list[Item]) -> str:
        return "".join(item["content"][0]["text"] for item in reply if item["type"] == "message")


FORMATS: dict[str, Any] = {"chat": Chat, "anthropic": Anthropic, "responses": Responses}
