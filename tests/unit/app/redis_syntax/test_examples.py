"""Examples of commands: the last reply, and the changes that INFO counts as Redis does."""

from __future__ import annotations

import pytest

from headgate.engine.config import StreamConfig
from headgate.engine.requests.streams import CreateStream, DescribeStream
from tests.unit.app.redis_syntax.console import Console, reply_of
from tests.unit.app.redis_syntax.examples.table import EXAMPLES


@pytest.mark.parametrize("subject", EXAMPLES)
async def test_the_last_reply_is(subject: str) -> None:
    differing = [
        (name, reply, expected)
        for name, lines, expected in EXAMPLES[subject]
        if (reply := await reply_of(lines)) != expected
    ]
    assert differing == []


async def test_groups_are_listed_by_name() -> None:
    console = Console()
    for name in ("b", "%C3%A9", "a", "B", '""', "ab"):
        await console.say(f"XGROUP CREATE s {name} $ MKSTREAM")
    groups = await console.say("XINFO GROUPS s")
    assert [group[1] for group in groups] == ["", "B", "a", "ab", "b", "é"]


@pytest.mark.parametrize(
    "words", ["nonsense MKSTREAM", "0 MKSTREAM ENTRIESREAD -2", "0 MKSTREAM NOW", "- MKSTREAM"]
)
async def test_a_group_that_cannot_be_made_leaves_no_stream_behind(words: str) -> None:
    console = Console()
    assert str(await console.say(f"XGROUP CREATE s g {words}")).startswith("ERR ")
    assert await console.say("EXISTS s") == 0


STORY = """\
1 XADD s 1 a b / 1 XADD s 2 a b / 1 XADD s MAXLEN 1 3 a b / 1 XADD s 4 a b / 1 XADD s 5 a b /
1 XADD s 6 a b / 1 XTRIM s MAXLEN 3 / 0 XTRIM s MAXLEN 3 / 1 XDEL s 4 9 /
1 XGROUP CREATE s g 0 / 1 XGROUP CREATE t g 0 MKSTREAM / 1 XGROUP CREATECONSUMER s g c /
0 XGROUP CREATECONSUMER s g c / 1 XREADGROUP GROUP g c STREAMS s > /
0 XREADGROUP GROUP g c STREAMS s > / 0 XREADGROUP GROUP g c STREAMS s 0 /
1 XREADGROUP GROUP g d STREAMS s 0 / 2 XCLAIM s g d 0 5 6 / 3 XCLAIM s g z 0 5 6 JUSTID /
0 XCLAIM s g z 99999 5 6 / 1 XDEL s 5 / 2 XCLAIM s g d 0 5 6 / 1 XCLAIM s g d 0 9 LASTID 7 /
1 XAUTOCLAIM s g c 0 0 / 1 XADD s 8 a b / 1 XADD s 9 a b /
2 XREADGROUP GROUP g f NOACK COUNT 1 STREAMS s > / 1 XREADGROUP GROUP g f STREAMS s > /
2 XACK s g 6 9 10 / 1 XGROUP SETID s g 0 / 1 XREADGROUP GROUP g f STREAMS s > /
1 XGROUP DELCONSUMER s g f / 0 XGROUP DELCONSUMER s g f / 1 XGROUP DESTROY s g / 1 XSETID s 99 /
0 XRANGE s - + / 1 RENAME s u / 1 RENAME u t / 1 EXPIRE t 100 / 1 PERSIST t / 1 XADD v 1 a b /
2 DEL t v / 1 XADD a 1 a b / 1 XADD b 1 a b / 0 CONFIG SET stream-node-max-entries 7 /
1 EXPIRE b -1 / 1 FLUSHALL / 0 FLUSHALL
"""
"""Commands, each behind the number of changes that Redis counts for it."""


async def changes(console: Console) -> int:
    info = await console.say("INFO persistence")
    return int(info.partition("rdb_changes_since_last_save:")[2].split()[0])


async def test_each_command_counts_what_redis_counts() -> None:
    console, before = Console(), 0
    steps = [step.strip() for step in STORY.replace("\n", " ").split("/")]
    counted = []
    for command in (step.partition(" ")[2] for step in steps):
        await console.say(command)
        now = await changes(console)
        counted.append(f"{now - before} {command}")
        before = now
    assert counted == steps


@pytest.mark.parametrize("count", [1, 3])
async def test_a_transaction_counts_what_its_commands_do(count: int) -> None:
    console = Console()
    await console.say_at_once("XADD s 1 a b", *["XADD s * a b"] * count, "XTRIM s MAXLEN 0")
    assert await changes(console) == 2 * (1 + count)


async def test_what_is_not_named_stays() -> None:
    console = Console()
    await console.engine.perform(CreateStream(b"s", StreamConfig(7, 80_000, 9_000, 10)))
    for words, config in (
        ("IDMP-MAXSIZE 3", StreamConfig(7, 80_000, 9_000, 3)),
        ("IDMP-DURATION 2", StreamConfig(7, 80_000, 2_000, 3)),
    ):
        assert await console.say(f"XCFGSET s {words}") == "OK"
        assert (await console.engine.perform(DescribeStream(b"s"))).config == config
