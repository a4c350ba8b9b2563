"""Transactions: each command on the largest it can be about, as often as one transaction may."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.stalls.case import Act, Case, Target
from tests.stalls.client import Answer
from tests.stalls.keyspace import (
    BIG,
    CROWD,
    FIRST_MS,
    GROUP,
    GROUPED,
    HALF,
    HOLDER,
    WIDE,
    WIDEST,
    Size,
)
from tests.stalls.resp import Words, exchange, written

COMMANDS_MAX = 12_500

_END = "that is all"

READING = (
    "PING",
    "KEYS *",
    "INFO everything",
    f"EXISTS {BIG}",
    f"XLEN {BIG}",
    f"XRANGE {BIG} - +",
    f"XREVRANGE {BIG} + - COUNT 1",
    f"XRANGE {WIDE} - + COUNT 400",
    f"XRANGE {WIDEST} - + COUNT 1",
    f"XREVRANGE {WIDEST} + - COUNT 1",
    f"XREAD COUNT 1 STREAMS {WIDEST} 0",
    f"XREAD STREAMS {BIG} 0",
    f"XINFO STREAM {BIG} FULL COUNT 0",
    f"XINFO STREAM {CROWD} FULL COUNT 0",
    f"XINFO GROUPS {GROUPED}",
    f"XINFO CONSUMERS {CROWD} {CROWD}",
    f"XPENDING {CROWD} {CROWD}",
    f"XPENDING {BIG} {GROUP} - + 1000000",
    f"XPENDING {BIG} {GROUP} IDLE 1000000000 - + 10",
    f"MEMORY USAGE {BIG} SAMPLES 0",
    f"MEMORY USAGE {GROUPED}",
    f"DUMP {WIDE}",
    f"DUMP {CROWD}",
    f"DUMP {GROUPED}",
)

CHANGING = (
    "XADD many * f v",
    "XADD many MAXLEN 10 * f v",
    f"COPY {WIDE} copied REPLACE",
    f"COPY {CROWD} copied REPLACE",
    f"COPY {GROUPED} copied REPLACE",
    f"XGROUP CREATE {BIG} another 0",
    f"XGROUP SETID {BIG} {HALF} $",
    f"XGROUP CREATECONSUMER {CROWD} {CROWD} another",
    f"XREADGROUP GROUP {HALF} {HOLDER} STREAMS {BIG} >",
    f"XREADGROUP GROUP {GROUP} {HOLDER} STREAMS {BIG} 0",
    f"XREADGROUP GROUP {WIDEST} {HOLDER} STREAMS {WIDEST} 0",
    f"XREADGROUP GROUP {WIDEST} {HOLDER} COUNT 1 STREAMS {WIDEST} 0",
    f"XCLAIM {WIDEST} {WIDEST} other 0 {FIRST_MS}-0",
    f"XAUTOCLAIM {WIDEST} {WIDEST} other 0 0 COUNT 1",
    f"XAUTOCLAIM {BIG} {GROUP} other 0 0 COUNT 1000000 JUSTID",
    f"XAUTOCLAIM {WIDEST} {WIDEST} other 0 0",
    f"XTRIM {BIG} MAXLEN 0",
    f"XTRIM {BIG} MAXLEN 0 DELREF",
    f"XGROUP DELCONSUMER {BIG} {GROUP} {HOLDER}",
    f"XGROUP DESTROY {CROWD} {CROWD}",
    f"XSETID {BIG} 9999999999999-0",
    f"PEXPIRE {BIG} 100000000",
    f"DEL {GROUPED}",
    "FLUSHALL",
)

_RENAMES = [f"RENAME {GROUPED} other", f"RENAME other {GROUPED}"]


def _as_often_as_possible(*lines: str) -> Act:
    """Return an act that sends commands in turns, in the longest transaction that is accepted."""
    turns = [line.split() for line in lines]

    async def act(target: Target) -> Answer:
        count = COMMANDS_MAX
        while True:
            commands = [turns[at % len(turns)] for at in range(count)]
            answer = await target.client.commands(commands, "multi-exec")
            assert isinstance(answer, Answer)
            if answer.status < 400 or count == 1:
                return answer
            count = max(count * 2 // 3, 1)

    return act


def _case(*lines: str, is_destructive: bool = False) -> Case:
    name = f"as often as possible: {' and '.join(lines)}"
    act = _as_often_as_possible(*lines)
    return Case(name, ("route runTransaction",), act, is_destructive=is_destructive)


async def _restore_often(target: Target) -> Answer:
    """Restore a stream with groups as often as a transaction may, over RESP: it takes bytes."""
    payload = (await exchange(target, [["DUMP", GROUPED]]))[0]
    assert isinstance(payload, bytes), payload
    count = COMMANDS_MAX
    while True:
        restored: list[Words] = [["RESTORE", "restored", "0", payload, "REPLACE"]] * count
        outcome = (await exchange(target, [["MULTI"], *restored, ["EXEC"]]))[-1]
        if isinstance(outcome, list) or count == 1:
            return Answer(200, len(payload) * count, b"")
        count = max(count // 4, 1)


async def _append_often(target: Target) -> Answer:
    appends = [["XADD", "many", "*", "f", "v"]] * (COMMANDS_MAX // 2)
    outcomes = await exchange(target, [["MULTI"], *appends, ["EXEC"]])
    return Answer(200, len(json.dumps(str(outcomes[-1]))), b"")


async def _read_and_do_not_take(target: Target) -> None:
    """Let many clients ask for all of a stream, four times each, and take nothing."""
    ask = written([["XRANGE", BIG, "-", "+"]] * 4)
    for _ in range(_clients(target.size)):
        reader, writer = await target.open_redis()
        writer.write(ask)
        target.held.append((reader, writer))
    await target.client.command("XRANGE", BIG, "-", "+", "COUNT", 10)
    for reader, _ in target.held:
        await reader.readexactly(1)


def _clients(size: Size) -> int:
    return min(size.members, 60)


def _all_of(*commands: Sequence[str]) -> Act:
    """Return an act that takes the replies to commands, of any size."""

    async def act(target: Target) -> None:
        reader, writer = await target.open_redis()
        target.held.append((reader, writer))
        writer.write(written([*commands, ["ECHO", _END]]))
        last = b""
        while _END.encode() not in last:
            data = await reader.read(2**20)
            assert data
            last = last[-len(_END) :] + data

    return act


HARMLESS: list[Case] = [
    *map(_case, READING),
    Case("RESP: clients that ask for all and take nothing", (), _read_and_do_not_take),
    Case("RESP: all of the stream", (), _all_of(["XRANGE", BIG, "-", "+"])),
    Case("RESP: all of the stream, backwards", (), _all_of(["XREVRANGE", BIG, "+", "-"])),
    Case("RESP: dumps", (), _all_of(*[["DUMP", name] for name in (WIDE, CROWD, GROUPED)] * 5)),
    Case("RESP: MULTI of many XADD", (), _append_often),
]

DESTRUCTIVE: list[Case] = [
    *(_case(line, is_destructive=True) for line in CHANGING),
    _case(*_RENAMES, is_destructive=True),
    Case("RESP: RESTORE as often as possible", (), _restore_often, is_destructive=True),
]
