"""Commands, each with the largest arguments it takes."""

from __future__ import annotations

from tests.stalls.case import Case, Target, command, long_command
from tests.stalls.keyspace import (
    BIG,
    CROWD,
    FIRST_MS,
    FRESH,
    GROUP,
    GROUPED,
    HALF,
    HOLDER,
    WIDE,
    WIDEST,
    WIDEST_COUNT,
    Size,
    entry_id,
    stream_name,
)

_VALUE = "v" * 1000


def _names(size: Size) -> list[str]:
    return [stream_name(number) for number in range(min(size.many, size.streams))]


def _ids(size: Size) -> list[str]:
    return size.scattered_ids(size.entries)


def _pending_ids(size: Size) -> list[str]:
    return size.scattered_ids(size.pending)


def _block(ids: list[str]) -> list[str]:
    return ["IDS", str(len(ids)), *ids]


def _keys_and(position: str, size: Size) -> list[str]:
    names = _names(size)
    return ["STREAMS", *names, *[position] * len(names)]


async def _read_the_rest(target: Target) -> None:
    """Let only the group be there, with the first part pending and the rest acknowledged."""
    await target.client.command("XGROUP", "DESTROY", BIG, FRESH)
    await target.client.command("XGROUP", "DESTROY", BIG, HALF)
    await target.client.command("XGROUP", "SETID", BIG, GROUP, "$")


async def _name_of_one_letter(target: Target) -> None:
    await target.client.command("XADD", "s" * 199 + "t", "*", "f", "v")


async def _raise_last_id(target: Target) -> None:
    await target.client.command("XSETID", BIG, f"{FIRST_MS * 2}-0")


def _acked_trim(size: Size) -> list[str]:
    return f"XTRIM {BIG} MAXLEN = {size.entries * 3 // 4} ACKED".split()


READING: list[Case] = [
    command("PING"),
    command("TIME"),
    long_command("ECHO 1 MB", lambda _: ["ECHO", "e" * 10**6]),
    command("DBSIZE"),
    command("INFO everything"),
    command("CONFIG GET *"),
    command(f"TYPE {BIG}"),
    command("COMMAND"),
    command("COMMAND DOCS"),
    command("RANDOMKEY"),
    command(f"OBJECT ENCODING {BIG}"),
    command(f"OBJECT FREQ {BIG}"),
    command(f"OBJECT IDLETIME {BIG}"),
    command(f"OBJECT REFCOUNT {BIG}"),
    command("MEMORY HELP"),
    command("OBJECT HELP"),
    command(f"MEMORY USAGE {BIG} SAMPLES 0"),
    command(f"DUMP {BIG}"),
    command(f"DUMP {CROWD}"),
    command(f"EXPIRETIME {BIG}"),
    command(f"PEXPIRETIME {BIG}"),
    long_command("TOUCH of many keys", lambda size: ["TOUCH", *_names(size)]),
    long_command("RESTORE of 1 MB", lambda _: ["RESTORE", "restored", "0", "r" * 10**6]),
    command(f"TTL {BIG}"),
    command(f"PTTL {BIG}"),
    long_command("EXISTS of many keys", lambda size: ["EXISTS", *_names(size)]),
    command("KEYS *"),
    long_command("KEYS with many stars", lambda _: ["KEYS", "*s" * 40], _name_of_one_letter),
    command("SCAN 0 COUNT 1000000"),
    long_command(
        "SCAN at the end", lambda size: ["SCAN", str(size.streams - 1), "COUNT", "1000000"]
    ),
    command(f"XLEN {BIG}"),
    command(f"XRANGE {BIG} - +"),
    command(f"XREVRANGE {BIG} + -"),
    command(f"XRANGE {BIG} - + COUNT 10000"),
    command(f"XRANGE {WIDE} - +"),
    command(f"XRANGE {WIDE} - + COUNT 400"),
    command(f"XREAD STREAMS {BIG} 0"),
    command(f"XREAD STREAMS {WIDE} 0"),
    command(f"XREAD STREAMS {WIDEST} 0"),
    command(f"XRANGE {WIDEST} - + COUNT 1"),
    long_command("XREAD of many streams", lambda size: ["XREAD", *_keys_and("0", size)]),
    long_command(
        "XREAD BLOCK on many streams", lambda size: ["XREAD", "BLOCK", "500", *_keys_and("$", size)]
    ),
    command(f"XINFO STREAM {BIG}"),
    command(f"XINFO STREAM {BIG} FULL COUNT 0"),
    command(f"XINFO STREAM {CROWD} FULL COUNT 0"),
    command(f"XINFO GROUPS {BIG}"),
    command(f"XINFO GROUPS {GROUPED}"),
    command(f"XINFO STREAM {GROUPED} FULL COUNT 0"),
    command(f"XINFO STREAM {WIDE} FULL COUNT 0"),
    command(f"XINFO CONSUMERS {CROWD} {CROWD}"),
    command("XINFO HELP"),
    command("XGROUP HELP"),
    command(f"XPENDING {BIG} {GROUP}"),
    command(f"XPENDING {CROWD} {CROWD}"),
    command(f"XPENDING {BIG} {GROUP} - + 1000000"),
    command(f"XPENDING {BIG} {GROUP} IDLE 1000000000 - + 10"),
    command(f"XPENDING {BIG} {GROUP} - + 1000000 nobody"),
]

CHANGING: list[Case] = [
    long_command(
        "XADD with many fields", lambda size: ["XADD", "wide", "*", *["f", "v"] * 10 * size.many]
    ),
    long_command("XADD of 1 MB", lambda _: ["XADD", "long", "*", "f", "v" * 10**6]),
    command("CONFIG SET stream-idmp-maxsize 10000"),
    command(f"XCFGSET {BIG} IDMP-MAXSIZE 10000"),
    long_command(
        "XIDMPRECORD", lambda size: ["XIDMPRECORD", BIG, "p", "k", entry_id(size.entries - 1)]
    ),
    command(f"EXPIRE {BIG} 100000"),
    command(f"PEXPIRE {BIG} 100000000"),
    command(f"EXPIREAT {BIG} 9999999999"),
    command(f"PEXPIREAT {BIG} 9999999999999"),
    command(f"COPY {BIG} copied"),
    command(f"COPY {CROWD} copied"),
    command(f"RENAMENX {BIG} {CROWD}"),
    command(f"PERSIST {BIG}"),
    command(f"XGROUP CREATE {BIG} another 0"),
    command(f"XGROUP SETID {BIG} another $"),
    command(f"XGROUP CREATECONSUMER {CROWD} {CROWD} another"),
    long_command("XDEL of many", lambda size: ["XDEL", BIG, *_ids(size)]),
    long_command("XDELEX of many", lambda size: ["XDELEX", BIG, "DELREF", *_block(_ids(size))]),
    long_command("XACK of many", lambda size: ["XACK", BIG, GROUP, *_pending_ids(size)[::2]]),
    long_command(
        "XACKDEL of many",
        lambda size: ["XACKDEL", BIG, GROUP, "DELREF", *_block(_pending_ids(size))],
    ),
    long_command(
        "XNACK of many", lambda size: ["XNACK", BIG, GROUP, "FAIL", *_block(_pending_ids(size))]
    ),
    long_command(
        "XCLAIM of many", lambda size: ["XCLAIM", BIG, GROUP, "other", "0", *_pending_ids(size)]
    ),
    command(f"XAUTOCLAIM {BIG} {GROUP} {HOLDER} 1000000000 0 COUNT 1000000"),
    command(f"XAUTOCLAIM {BIG} {GROUP} {HOLDER} 0 0 COUNT 1000000 JUSTID"),
    command(f"XAUTOCLAIM {BIG} {GROUP} other 0 0 COUNT 1000000"),
    long_command(
        "XCLAIM of the widest",
        lambda _: ["XCLAIM", WIDEST, WIDEST, "other", "0", *map(entry_id, range(WIDEST_COUNT))],
    ),
    command(f"XAUTOCLAIM {WIDEST} {WIDEST} other 0 0"),
    command(f"XREADGROUP GROUP {WIDEST} {HOLDER} STREAMS {WIDEST} 0"),
    command(f"XREADGROUP GROUP {GROUP} {HOLDER} STREAMS {BIG} 0"),
    command(f"XREADGROUP GROUP {GROUP} {HOLDER} COUNT 10 CLAIM 1000000000 STREAMS {BIG} >"),
]

DESTRUCTIVE: list[Case] = [
    command(line, is_destructive=True)
    for line in (
        f"XREADGROUP GROUP {HALF} {HOLDER} STREAMS {BIG} >",
        f"XREADGROUP GROUP {HALF} {HOLDER} NOACK STREAMS {BIG} >",
        f"XTRIM {BIG} MAXLEN 0",
        f"XTRIM {BIG} MAXLEN 0 DELREF",
        f"DEL {BIG}",
        "FLUSHALL",
        f"RENAME {CROWD} {BIG}",
        f"XGROUP DESTROY {BIG} {GROUP}",
        f"XGROUP DELCONSUMER {BIG} {GROUP} {HOLDER}",
    )
] + [
    long_command("XTRIM ACKED", _acked_trim, _read_the_rest, is_destructive=True),
    long_command(
        "XSETID back, with much pending",
        lambda size: ["XSETID", BIG, entry_id(size.entries)],
        _raise_last_id,
        is_destructive=True,
    ),
    long_command(
        "XDEL of the widest",
        lambda _: ["XDEL", WIDEST, *map(entry_id, range(WIDEST_COUNT))],
        is_destructive=True,
    ),
    command(f"XTRIM {WIDEST} MAXLEN = 1 DELREF", is_destructive=True),
    long_command("DEL of many keys", lambda size: ["DEL", *_names(size)], is_destructive=True),
]
