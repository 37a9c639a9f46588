from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loopwarden.transcripts.conversations import Conversations
from loopwarden.transcripts.messages import Call, Exchange, Message, Reply, Result, Summary, Words
from loopwarden.transcripts.model import ReadNotes
from tests.transcripts.handmade import assert_sound
from tests.transcripts.tale import tales

if TYPE_CHECKING:
    from loopwarden.transcripts.messages import Author, Step
    from loopwarden.transcripts.model import Item

AUTHORS: dict[str, Author] = {"u": "user", "m": "model", "s": "system"}


def message(word: str) -> Message:
    """`u:text`, `m:text` or `s:text`, `#name` a summary, `c1` calls read(1), `=1` its result, `c1+2` both."""
    if word[1] == ":":
        return Message(by_model=word[0] == "m", steps=(Words(author=AUTHORS[word[0]], text=word[2:]),))
    if word[0] == "#":
        return Message(by_model=True, steps=(Summary(name=word[1:]),))
    numbers = word[1:].split("+")
    steps: list[Step]
    if word[0] == "=":
        steps = [Result(call_id=number, result=number) for number in numbers]
    else:
        steps = [Call(tool="read", arguments=int(number), call_id=number) for number in numbers]
    return Message(by_model=word[0] == "c", steps=tuple(steps))


def exchange(line: str) -> Exchange:
    """`history > answer`, each of words as in `message`."""
    history, _, answer = line.partition(">")
    steps = tuple(step for word in answer.split() for step in message(word).steps)
    return Exchange(
        history=tuple(map(message, history.split())),
        reply=Reply(message=Message(by_model=True, steps=steps)) if steps else None,
    )


def told(*lines: str) -> tuple[list[str], dict[str, int]]:
    notes = ReadNotes()
    conversations = Conversations(notes)
    items: list[Item] = [item for line in lines for item in conversations.add(exchange(line))]
    conversations.finish()
    assert_sound(items)
    counts = {kind: count for kind, count in notes.counts.items() if kind != "copied_history"}
    return [text.replace("read", "").replace('"', "") for text in tales(items)], counts


@pytest.mark.parametrize(
    ("lines", "streams"),
    [
        pytest.param(
            ["u:a > c1", "u:a c1 =1 > c2", "u:a c1 =1 c2 =2 > m:x"], ["u (1) =1 (2) =2"], id="growing"
        ),
        pytest.param(["u:a > c1", "u:a c1 =1 u:b > m:x"], ["u (1) =1 u"], id="words of a person"),
        pytest.param(
            ["u:a > c1", "u:b > c1", "u:a c1 =1", "u:b c1 =1"], ["u (1) =1", "u (1) =1"], id="interleaved"
        ),
        pytest.param(
            ["u:a > c1", "u:a > c2", "u:a c1 =1", "u:a c2 =2"], ["u (1) =1", "u (2) =2"], id="same start"
        ),
        pytest.param(["u:a >", "u:a > c1"], ["u (1)"], id="failed request"),
        pytest.param(
            ["u:a c1 =1 > c2", "u:a c1 =1 > c3", "u:a c1 =1 c3 =3"], ["u (1) =1 (2) <1 (3) =3"], id="retry"
        ),
        pytest.param(
            ["u:a > c1", "u:a c1 =1 > c2", "u:a c1 =1 u:b > c3"], ["u (1) =1 (2) <1 u (3)"], id="rewound"
        ),
        pytest.param(["u:a > c1+2", "u:a c1 =1 > m:x"], ["u (1) (2) <1 =1"], id="part of an answer"),
        pytest.param(["s:now1 u:a > c1", "s:now2 u:a c1 =1 > m:x"], ["u (1) =1"], id="prompt changes"),
        pytest.param(
            ["u:a > c1", "u:a c1 =1 > c2", "u:sum c2 =2 > c3", "u:sum c2 =2 c3 =3"],
            ["u (1) =1 (2) | =2 (3) =3"],
            id="summarised, last call kept",
        ),
        pytest.param(
            ["u:a > c1", "u:a c1 =1 > c2", "u:a m:sum c2 =2 > c3"],
            ["u (1) =1 (2) | =2 (3)"],
            id="summary as words of the model",
        ),
        pytest.param(
            ["u:a > c1", "u:a c1 =1 > c2", "u:a c1 =1 c2 =2 > c3", "u:a u:sum > c4"],
            ["u (1) =1 (2) =2 (3) | (4)"],
            id="summarised, first words kept",
        ),
        pytest.param(
            ["u:a > c1", "u:a c1 =1 > c2", "c2 =2 > c3", "c3 =3 u:b > m:x"],
            ["u (1) =1 (2) =2 (3) =3 u"],
            id="old messages dropped",
        ),
        pytest.param(
            ["u:a > c1", "u:a c1 =1 > #z c2", "#z c2 =2 > c3", "#z c2 =2 c3 =3"],
            ["u (1) =1 | (2) =2 (3) =3"],
            id="compacted by the API",
        ),
        pytest.param(
            ["u:pre u:a > c1", "u:pre u:a c1 =1", "u:pre u:b > c1"],
            ["u u (1) =1", "u u (1)"],
            id="same preamble",
        ),
        pytest.param(["u:a c1 =1 c2 =2"], ["u (1) =1 (2) =2"], id="history alone"),
    ],
)
def test_histories(lines: list[str], streams: list[str]) -> None:
    assert told(*lines)[0] == streams


def test_a_retried_answer_is_no_call_without_result() -> None:
    assert told("u:a c1 =1 > c2", "u:a c1 =1 > m:x") == (["u (1) =1 (2) <1"], {"abandoned_branch": 1})


def test_answers_alone_go_on_with_the_last_conversation() -> None:
    conversations = Conversations(ReadNotes())
    reply = Reply(message=message("c1"), reply_id="r1")
    items = [*conversations.add(Exchange(history=None, reply=reply)), *conversations.add(exchange("c1 =1"))]
    assert tales(items) == ['read(1) ="1"']


def test_what_names_the_answer_before_it_goes_on_from_there() -> None:
    conversations = Conversations(ReadNotes())
    items: list[Item] = []
    for follows, history, answer, reply_id in [
        (None, "u:a", "c1", "r1"),
        (None, "u:b", "c1", "s1"),
        ("r1", "=1", "c2", "r2"),
        ("s1", "=1", "m:x", "s2"),
        ("r2", "=2", "m:x", "r3"),
        ("thread", "u:c", "c9", "t1"),
        ("thread", "=9", "m:x", "t2"),
    ]:
        asked = exchange(history)
        reply = Reply(message=message(answer), reply_id=reply_id)
        items += conversations.add(Exchange(history=asked.history, reply=reply, follows=follows))
    assert [text.replace('"', "") for text in tales(items)] == [
        "u read(1) =1 read(2) =2",
        "u read(1) =1",
        "u read(9) =9",
    ]


def test_a_call_sent_again_under_another_id_takes_its_result() -> None:
    conversations = Conversations(ReadNotes())
    first = Exchange(history=(message("u:a"),), reply=Reply(message=message("c1")))
    renamed = Message(by_model=True, steps=(Call(tool="read", arguments=1, call_id="r1:1"),))
    result = Message(by_model=False, steps=(Result(call_id="r1:1", result="one"),))
    second = Exchange(history=(message("u:a"), renamed, result))
    items = [*conversations.add(first), *conversations.add(second)]
    assert tales(items) == ['u read(1) ="one"']


def test_many_requests_cost_no_more_than_their_length() -> None:
    words = ["u:a"]
    lines = []
    for number in range(1, 300):
        lines.append(" ".join(words) + f" > c{number}")
        words += [f"c{number}", f"={number}"]
    (text,), counts = told(*lines)
    assert text.count("(") == 299
    assert not {kind for kind in counts if kind != "call_without_result"}
