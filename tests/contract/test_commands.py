"""Redis commands, one by one and as transactions."""

from __future__ import annotations

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.replies import NULL_ARRAY, Reply
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.errors import StreamError
from tests.contract.backends import Kind

pytestmark = pytest.mark.needs(Ability.COMMANDS)


async def run(backend: Backend, command: str) -> Reply:
    """Run a command; returns its reply, or the text of its error."""
    try:
        return await CommandRunner(backend).run(command.encode().split())
    except StreamError as error:
        return error_text(error)


async def run_all(backend: Backend, *commands: str) -> list[Reply]:
    """Run a transaction; returns the replies and the texts of errors."""
    try:
        replies = await CommandRunner(backend).run_all(
            [command.encode().split() for command in commands]
        )
    except StreamError as error:
        return [error_text(error)]
    return [error_text(reply) if isinstance(reply, StreamError) else reply for reply in replies]


async def test_a_transaction_is_one_step(backend: Backend) -> None:
    assert await run_all(
        backend,
        "XADD {s}a 1-1 a b",
        "XADD {s}b 1-1 a b",
        "XADD {s}a 1-1 a b",
        "XLEN {s}a",
        "XREAD BLOCK 0 STREAMS {s}a {s}b 0 0",
        "XREAD BLOCK 0 STREAMS {s}a 9",
        "PING",
        "XDEL {s}a 1-1",
        "XLEN {s}a",
    ) == [
        b"1-1",
        b"1-1",
        "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        1,
        [[b"{s}a", [[b"1-1", [b"a", b"b"]]]], [b"{s}b", [[b"1-1", [b"a", b"b"]]]]],
        NULL_ARRAY,
        "PONG",
        1,
        0,
    ]


async def test_a_transaction_delivers_and_settles(backend: Backend) -> None:
    await run(backend, "XADD s 1-1 a b")
    await run(backend, "XGROUP CREATE s old 0")
    assert await run_all(
        backend,
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP old ana BLOCK 0 STREAMS s >",
        "XREADGROUP GROUP old ana BLOCK 0 STREAMS s >",
        "XPENDING s old",
        "XACK s old 1-1",
        "XCLAIM s old ben 0 1-1",
        "XGROUP DESTROY s g",
        "XINFO GROUPS s",
    ) == [
        "OK",
        [[b"s", [[b"1-1", [b"a", b"b"]]]]],
        NULL_ARRAY,
        [1, b"1-1", b"1-1", [[b"ana", b"1"]]],
        1,
        [],
        1,
        [
            [
                *(b"name", b"old", b"consumers", 2, b"pending", 0),
                *(b"last-delivered-id", b"1-1", b"entries-read", 1, b"lag", 0),
            ]
        ],
    ]


async def test_a_transaction_with_a_wrong_command_does_nothing(backend: Backend) -> None:
    [text] = await run_all(backend, "XADD s 1-1 a b", "NOPE")
    assert str(text).startswith("EXECABORT Transaction discarded because of previous errors.")
    assert await run(backend, "XLEN s") == 0


async def test_a_transaction_over_slots_is_all_or_nothing(kind: Kind, backend: Backend) -> None:
    replies = await run_all(backend, "XADD a 1-1 a b", "XADD b 1-1 a b")
    if kind.name == "cluster":
        [text] = replies
        assert str(text).startswith("EXECABORT Transaction discarded")
        assert str(text).endswith("(CROSSSLOT Keys in request don't hash to the same slot)")
        assert await run(backend, "EXISTS a b") == 0
    else:
        assert replies == [b"1-1", b"1-1"]


async def test_all_names_are_shown_once_whatever_the_page(backend: Backend) -> None:
    names = {b"s%d" % number for number in range(40)}
    for name in names:
        await run(backend, f"XADD {name.decode()} 1-1 a b")
    shown: list[bytes] = []
    cursor = b"0"
    while True:
        reply = await run(backend, f"SCAN {cursor.decode()} COUNT 7")
        assert isinstance(reply, list)
        cursor, page = reply
        shown += page
        if cursor == b"0":
            break
    assert sorted(shown) == sorted(names)
    assert await run(backend, "FLUSHALL") == "OK"
    assert await run(backend, "DBSIZE") == 0


async def test_info_is_answered(kind: Kind, backend: Backend) -> None:
    text = await run(backend, "INFO")
    assert isinstance(text, bytes)
    assert b"redis_version:" in text
    assert b"headgate_version:" in text
    assert (b"\r\n\r\n# Servers\r\nserver0:product=" in text) == (kind.servers is not None)
