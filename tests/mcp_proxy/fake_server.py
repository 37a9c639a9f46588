"""An MCP server of the standard library, run as a script: `python fake_server.py [MODE]`.

What it writes depends on nothing but what it reads, so that two runs can be compared byte by byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from typing import Any

OUT = sys.stdout.buffer
MODE = sys.argv[1] if len(sys.argv) > 1 else ""
BIG = 50 * 1024 * 1024
SEEN = hashlib.sha256()


def write(line: bytes) -> None:
    OUT.write(line + b"\n")
    OUT.flush()


def read() -> Any:
    line = sys.stdin.buffer.readline()
    SEEN.update(line)
    if not line:
        leave(0)
    try:
        return json.loads(line)
    except ValueError:
        write(b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}')
        return read()


def leave(code: int) -> None:
    OUT.flush()
    os._exit(code)


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


def answer(number: Any, result: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode())


def call(number: Any, params: dict[str, Any]) -> None:
    name, arguments = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    if name == "same":
        answer(number, text("nothing here"))
    elif name == "fail":
        answer(number, text("disk on fire", isError=True))
    elif name == "odd":  # as nobody's encoder writes it
        write(
            b'  {"result" : {"structuredContent":{"x": 1.00, "n": 123456789012345678901234567890,'
            b' "e":1E400}, "content" :[ {"type":"text","text":"\\u00e9\xc3\xa9\\/ \\ud83d\\ude00"} ] ,'
            b' "_meta":{"a":[[]]}},'
            b' "id":%s  ,"jsonrpc":"2.0"} \r' % json.dumps(number).encode()
        )
    elif name == "progress":
        for step in (1, 2, 3):
            note = {"progressToken": token, "progress": step, "total": 3}
            write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": note}).encode())
        answer(number, text("done"))
    elif name == "log":
        note = {"level": "info", "data": {"result": "not one", "error": [1]}}
        write(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": note}).encode())
        answer(number, text("logged"))
    elif name in {"sampling/createMessage", "elicitation/create", "roots/list"}:
        asked = {"jsonrpc": "2.0", "id": number, "method": name, "params": {"message": "tools/call?"}}
        write(json.dumps(asked).encode())  # with the id of the call itself, which is allowed
        answer(number, text(json.dumps(read())))
    elif name == "wait":  # until it is cancelled
        cancelled = read()
        note = {"level": "info", "data": cancelled}
        write(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": note}).encode())
    elif name == "binary":
        image = {"type": "image", "data": "iVBORw0KGgo=" * 1000, "mimeType": "image/png"}
        resource = {"type": "resource", "resource": {"uri": "file:///x", "blob": "AAECAw=="}}
        answer(number, {"content": [image, resource], "structuredContent": {"n": [1, 2.5, None]}})
    elif name == "big":
        head = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"'
        write(head % json.dumps(number).encode() + b"x" * arguments.get("bytes", BIG) + b'"}]}}')
    elif name == "received":
        answer(number, text(SEEN.hexdigest()))
    elif name == "crash":
        leave(7)
    elif name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        fault = {"code": -32602, "message": f"Unknown tool: {name}"}
        write(json.dumps({"jsonrpc": "2.0", "id": number, "error": fault}).encode())


def handle(message: Any) -> None:
    if isinstance(message, list):
        results = [{"jsonrpc": "2.0", "id": one["id"], "result": text("of many")} for one in message]
        write(json.dumps(results).encode())
        return
    method = message.get("method")
    if method == "tools/call":
        call(message["id"], message["params"])
    elif method == "initialize":
        version = message["params"]["protocolVersion"]
        answer(message["id"], {"protocolVersion": version, "capabilities": {"tools": {}}})
    elif "id" in message and method is not None:
        answer(message["id"], {"echo": message})


if MODE == "closes-output":
    write(b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}')
    os.close(1)
elif MODE == "deaf":  # goes on whatever happens, until it is killed
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write(b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}')
    while True:
        signal.pause()
elif MODE == "term":
    signal.signal(signal.SIGTERM, lambda *_: leave(42))
    write(b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}')
elif MODE == "chatty":
    write(b"Server is up!")
    write(b"")
    write(b'{"result": broken')
    write(b"\xff\xfe")
while True:
    handle(read())
