"""Commands that wait: §3 to §6 of the rules of Redis Streams, as far as Redis 7.0 cannot show them.

Time is virtual: it passes when nothing else can happen. `tests/model/test_blocking_differential.py`
has the stories that a redis-server shows, `loop/test_waiters.py` asks the same of the engine
without the words. A key that gets another type is not among them: here all are streams.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.app.redis_syntax.console import PENDING, TWO, Console
from tests.virtual_time import VirtualClock, in_virtual_time, now_ms, settle

MKSTREAM = "XGROUP CREATE s g $ MKSTREAM"
TAKE = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"
NO_GROUP = "NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"


async def console_after(*lines: str) -> Console:
    console = Console(VirtualClock())
    for line in lines:
        await console.say(line)
    return console


async def waiting(console: Console, *lines: str) -> list[asyncio.Task[Any]]:
    """Start commands one after the other, each until it waits."""
    tasks = []
    for line in lines:
        tasks.append(asyncio.create_task(console.say(line)))
        await settle()
        assert not tasks[-1].done(), f"{line}: {tasks[-1].result()}"
    return tasks


# §3


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("x", "ERR timeout is not an integer or out of range"),
        ("1.5", "ERR timeout is not an integer or out of range"),
        (str(2**63), "ERR timeout is not an integer or out of range"),
        ("-1", "ERR timeout is negative"),
    ],
)
async def test_a_time_that_cannot_be_waited_is_refused(word: str, text: str) -> None:
    for line in (f"XREAD BLOCK {word} STREAMS s $", f"{TAKE.replace('BLOCK 0', f'BLOCK {word}')}"):
        assert await Console().say(line) == text


# §5.3: BLOCK and CLAIM


def claiming(consumer: str, min_idle_ms: int) -> str:
    return f"XREADGROUP GROUP g {consumer} BLOCK 0 CLAIM {min_idle_ms} STREAMS s >"


@in_virtual_time
async def test_a_wait_to_claim_ends_with_null_at_its_time() -> None:
    console = await console_after(*TWO)
    assert await console.say(claiming("a", 300).replace("BLOCK 0", "BLOCK 200")) is None
    assert now_ms() == 200
    assert await console.say(PENDING) == [["1-0", "c", 200, 1], ["2-0", "c", 200, 1]]


@pytest.mark.parametrize("line", ["DEL s", "UNLINK s", "RENAME s t", "FLUSHALL", "EXPIRE s 0"])
@in_virtual_time
async def test_a_reader_of_a_group_does_not_outlive_its_key(line: str) -> None:
    console = await console_after(MKSTREAM)
    (task,) = await waiting(console, TAKE)
    await console.say(line)
    assert await task == NO_GROUP
