"""Replies as JSON: what they are, and that others come between."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.redis_syntax.answers import Answers
from headgate.app.redis_syntax.replies import Reply, Status
from headgate.app.redis_syntax.words import CommandError
from headgate.engine import threads
from headgate.engine.errors import Draining, Unavailable

leaves: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**64),
    st.binary(max_size=5),
    st.sampled_from([Status("OK"), Status("PONG"), b'"', "é".encode()]),
)
replies: st.SearchStrategy[Reply] = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=9), max_leaves=40
)


def shaped(reply: Reply, *, is_base64: bool = False) -> Any:
    if is_base64 and isinstance(reply, bytes | str) and reply != "OK":
        return base64.b64encode(reply.encode() if isinstance(reply, str) else reply).decode()
    if isinstance(reply, bytes):
        return reply.decode(errors="replace")
    if isinstance(reply, list):
        return [shaped(item, is_base64=is_base64) for item in reply]
    return reply


async def written(*many: Reply, is_base64: bool = False) -> bytes:
    answers = Answers(is_base64=is_base64)
    for reply in many:
        await answers.add(reply)
    return answers.all()


@given(st.lists(replies, max_size=3), st.integers(1, 4), st.booleans())
def test_replies_are_written_as_they_are(many: list[Reply], at_once: int, is_base64: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.app.redis_syntax.answers._ITEMS_AT_ONCE", at_once)
        patch.setattr("headgate.app.redis_syntax.answers._PIECE_BYTES", 3)
        output = asyncio.run(written(*many, is_base64=is_base64))
    assert json.loads(output) == [{"result": shaped(reply, is_base64=is_base64)} for reply in many]
    assert (
        output == json.dumps(json.loads(output), separators=(",", ":"), ensure_ascii=False).encode()
    )


async def test_strings_may_be_base64() -> None:
    reply: Reply = [Status("OK"), Status("PONG"), b"\xff", [None, 1]]
    assert await written(reply, is_base64=True) == b'[{"result":["OK","UE9ORw==","/w==",[null,1]]}]'


async def test_errors_are_told_in_the_words_of_redis() -> None:
    answers = Answers(is_base64=False)
    for error in (CommandError("ERR no"), Draining(), Unavailable("the disk is full")):
        await answers.add(error)
    texts = [load["error"] for load in json.loads(answers.all())]
    assert texts[0] == "ERR no"
    assert [text.split()[0] for text in texts[1:]] == ["ERR", "MISCONF"]


@pytest.mark.parametrize(
    "reply",
    [
        [b"key"] * 5000,
        [[b"1-0", [b"a", b"1"]]] * 5000,
        [[b"1-0", [b"a", bytes(100_000)]]] * 50,
        b"\xff\xc3\xa9" * 2_000_000,
    ],
)
async def test_others_come_between_in_writing(
    reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "TURN_MS_MAX", 0)
    writing = asyncio.create_task(written(reply))
    others = 0
    while not writing.done():
        await asyncio.sleep(0)
        others += 1
    assert others > 15
    assert json.loads(writing.result()) == [{"result": shaped(reply)}]
