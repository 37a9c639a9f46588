"""One conversation as each API would see it, and every container in which it may be recorded."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.transcripts.handmade import as_document, as_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Recording:
    """Requests that repeat their history, their answers, the last history with its answer, and streams.

    `streams` are the answers as server-sent events.
    """

    requests: list[dict[str, Any]]
    answers: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    streams: list[str]


def captures(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Containers that hold all requests and all answers."""
    pairs = list(zip(recording.requests, recording.answers, strict=True))
    texts = [(json.dumps(request), json.dumps(answer)) for request, answer in pairs]
    both = [{"request": request, "response": answer} for request, answer in pairs]
    yield "list of pairs", as_document(both)
    yield "pair a line", as_lines(both)
    yield "turns", as_document([part for pair in pairs for part in pair])
    yield "turns, one a line", as_lines([part for pair in pairs for part in pair])
    yield (
        "bodies as text",
        as_lines(
            {"request": {"method": "POST", "body": asked}, "response": {"status": 200, "body": said}}
            for asked, said in texts
        ),
    )
    yield (
        "cassette",
        as_document(
            {
                "interactions": [
                    {"request": {"body": asked, "uri": "x"}, "response": {"body": {"string": said}}}
                    for asked, said in texts
                ],
                "version": 1,
            }
        ),
    )
    yield "HAR", as_document(har([(asked, {"text": said}) for asked, said in texts]))
    packed = [
        (asked, {"encoding": "base64", "text": base64.b64encode(said.encode()).decode()})
        for asked, said in texts
    ]
    yield "HAR, base64", as_document(har(packed))
    streamed = [
        (asked, {"text": stream}) for (asked, _), stream in zip(texts, recording.streams, strict=True)
    ]
    yield "HAR, streamed", as_document(har(streamed))


def har(exchanges: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """A HAR file; its first entry is a page that has nothing to do with a model."""
    page = {"request": {"method": "GET", "url": "x"}, "response": {"content": {"text": "<html>"}}}
    entries = [
        {
            "startedDateTime": f"2026-01-01T00:00:0{place}Z",
            "request": {"method": "POST", "postData": {"mimeType": "application/json", "text": asked}},
            "response": {"status": 200, "content": said},
        }
        for place, (asked, said) in enumerate(exchanges)
    ]
    return {"log": {"version": "1.2", "entries": [page, *entries]}}


def stream(*events: dict[str, Any]) -> str:
    """Server-sent events."""
    return "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n"
