"""Grammar: what may stand in each command, and random words of it.

`[a b]` may be left out, `(a | b c)` is one of them, `a+` comes once or more often. Names in
capitals are words of the command; those in small letters stand for random ones.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

COMMANDS = [
    (
        "XADD key [NOMKSTREAM] [(KEEPREF | DELREF | ACKED)] [(IDMPAUTO name | IDMP name name)]"
        " [(MAXLEN [(= | ~)] number | MINID [(= | ~)] id) [LIMIT number]] new pair+"
    ),
    "XADD key new pair+",
    (
        "XTRIM key (MAXLEN [(= | ~)] number | MINID [(= | ~)] id) [LIMIT number]"
        " [(KEEPREF | DELREF | ACKED)]"
    ),
    "XLEN key",
    "XRANGE key bound bound [COUNT number]",
    "XREVRANGE key bound bound [COUNT number]",
    "XREAD [COUNT number] [MAXCOUNT number] [MAXSIZE number] [BLOCK number] STREAMS key after",
    "XREAD [COUNT number] [BLOCK number] STREAMS key key after after",
    "XDEL key id+",
    "XDELEX key [(KEEPREF | DELREF | ACKED)] IDS few id+",
    "XSETID key id [ENTRIESADDED number] [MAXDELETEDID id]",
    "XCFGSET key [IDMP-DURATION number] [IDMP-MAXSIZE number]",
    "XIDMPRECORD key name name id",
    "XGROUP CREATE key group start [MKSTREAM] [ENTRIESREAD number]",
    "XGROUP SETID key group start [ENTRIESREAD number]",
    "XGROUP DESTROY key group",
    "XGROUP CREATECONSUMER key group consumer",
    "XGROUP DELCONSUMER key group consumer",
    "XGROUP HELP",
    "XINFO STREAM key [FULL [COUNT number]]",
    "XINFO GROUPS key",
    "XINFO CONSUMERS key group",
    "XINFO HELP",
    (
        "XREADGROUP GROUP group consumer [COUNT number] [MAXCOUNT number] [MAXSIZE number]"
        " [BLOCK number] [CLAIM number] [NOACK] STREAMS key unread"
    ),
    "XREADGROUP GROUP group consumer [COUNT number] STREAMS key key unread unread",
    "XACK key group id+",
    "XACKDEL key group [(KEEPREF | DELREF | ACKED)] IDS few id+",
    "XNACK key group (SILENT | FAIL | FATAL) IDS few id+ [RETRYCOUNT number] [FORCE]",
    "XPENDING key group [[IDLE number] bound bound number [consumer]]",
    (
        "XCLAIM key group consumer number id+ [IDLE number] [TIME number] [RETRYCOUNT number]"
        " [FORCE] [JUSTID] [LASTID id]"
    ),
    "XAUTOCLAIM key group consumer number bound [COUNT number] [JUSTID]",
    "PING [name]",
    "ECHO name",
    "TIME",
    "DEL key+",
    "UNLINK key+",
    "EXISTS key+",
    "TYPE key",
    "KEYS pattern",
    "SCAN number [MATCH pattern] [COUNT number] [TYPE name]",
    "DBSIZE",
    "RENAME key key",
    "RENAMENX key key",
    "COPY key key [DB number] [REPLACE]",
    "DUMP key",
    "RESTORE key number name [REPLACE] [ABSTTL] [IDLETIME number] [FREQ number]",
    "MEMORY USAGE key [SAMPLES number]",
    "MEMORY HELP",
    "OBJECT ENCODING key",
    "OBJECT FREQ key",
    "OBJECT IDLETIME key",
    "OBJECT REFCOUNT key",
    "OBJECT HELP",
    "TOUCH key+",
    "RANDOMKEY",
    "EXPIREAT key number [(NX | XX | GT | LT)]",
    "PEXPIREAT key number [(NX | XX | GT | LT)]",
    "EXPIRETIME key",
    "PEXPIRETIME key",
    "EXPIRE key number [(NX | XX | GT | LT)]",
    "PEXPIRE key number [(NX | XX | GT | LT)]",
    "TTL key",
    "PTTL key",
    "PERSIST key",
    "FLUSHALL [(ASYNC | SYNC)]",
    "FLUSHDB [(ASYNC | SYNC)]",
    "CONFIG GET pattern",
    "CONFIG SET setting number",
    "CONFIG RESETSTAT",
    "INFO [name]",
]

RARE = 0.02
"""Share of commands that leave little, or have wrong words."""

_RUINOUS = ("FLUSHALL", "FLUSHDB", "XSETID", "DEL key", "UNLINK", "EXPIRE", "PEXPIRE", "RENAME")
_OFTEN = ("XADD", "XREADGROUP", "XGROUP CREATE ")

NUMBERS = [
    *(b"0", b"1", b"2", b"-1", b"9", b"100"),
    *(
        b"%d" % (sign * 2**bits + less)
        for sign in (1, -1)
        for bits in (31, 32, 53)
        for less in (-1, 0)
    ),
    *(
        b"%d" % (sign * 2**bits + less)
        for sign in (1, -1)
        for bits in (63, 64)
        for less in (-1, 0, 1)
    ),
    *(b"9" * 19, b"9" * 20, b"9" * 400, b"-" + b"9" * 400),
    *(b"", b"+1", b"01", b"1.5", b"1e9", b"0x1", b" 1", b"1 ", "\u0663".encode(), b"NaN", b"inf"),
]
"""Numbers at limits, and texts that only look like numbers."""

U64 = 2**64 - 1
IDS = [
    *(b"0", b"0-0", b"0-1", b"1", b"5-5", b"9", b"-", b"+", b"$", b">", b"*"),
    *(b"%d" % U64, b"%d-%d" % (U64, U64), b"%d-0" % U64, b"0-%d" % U64, b"%d-%d" % (U64, U64 - 1)),
    *(
        b"%d" % (U64 + 1),
        b"0-%d" % (U64 + 1),
        b"-1",
        b"1--1",
        b"1-1-1",
        b"x",
        b"",
        b"1-*",
        b"%d-*" % U64,
    ),
    *(b"(1", b"(0-0", b"(%d-%d" % (U64, U64), b"(", b"((1"),
]


def command(pick: random.Random) -> list[bytes]:
    """Return random words of a random command."""
    forms = [form for form in COMMANDS if not form.startswith(_RUINOUS)]
    often = [form for form in COMMANDS if form.startswith(_OFTEN)]
    chosen = pick.choice([forms, often, often])
    words = words_of(pick.choice(COMMANDS if pick.random() < RARE else chosen), pick)
    if pick.random() < RARE:
        at = pick.randrange(1, len(words) + 1)
        words[at : at + pick.randint(0, 1)] = pick.choice([[], [number(pick)], [b"\xff" * 2000]])
    return words


def words_of(form: str, pick: random.Random) -> list[bytes]:
    """Return random words of a form."""
    parts = re.findall(r"[\[\]()|]|[^\[\]()|\s]+", form)
    words, remaining = _sequence(parts, pick)
    assert not remaining, form
    return words


def number(pick: random.Random) -> bytes:
    """Return a number, mostly one that means something."""
    return b"%d" % pick.randint(0, 12) if pick.random() < 0.7 else pick.choice(NUMBERS)


def _sequence(parts: list[str], pick: random.Random) -> tuple[list[bytes], list[str]]:
    """Return words up to a closing bracket or a bar, and the parts left from there."""
    words: list[bytes] = []
    while parts and parts[0] not in ("]", ")", "|"):
        part, *parts = parts
        if part == "[":
            optional, parts = _sequence(parts, pick)
            words += optional if pick.random() < 0.4 else []
            parts = parts[1:]
        elif part == "(":
            choices = []
            closing = "|"
            while closing == "|":
                optional, parts = _sequence(parts, pick)
                choices.append(optional)
                closing, *parts = parts
            words += pick.choice(choices)
        else:
            for _ in range(pick.randint(1, 4) if part.endswith("+") else 1):
                words += _word(part.removesuffix("+"), pick)
    return words, parts


def _id(pick: random.Random) -> bytes:
    if pick.random() < 0.85:
        return b"%d-%d" % (pick.randint(0, 20), pick.randint(0, 2))
    return pick.choice(IDS)


def _choice_of(*words: bytes) -> Callable[[random.Random], list[bytes]]:
    return lambda pick: [pick.choice(words)]


_SETTINGS = [
    *(b"stream-node-max-bytes", b"stream-node-max-entries"),
    *(b"stream-idmp-duration", b"stream-idmp-maxsize", b"no"),
]
_NAMES = _choice_of(b"g", b"g", b"g", b"h", b"")

_WORDS: dict[str, Callable[[random.Random], list[bytes]]] = {
    "key": _choice_of(b"s", b"s", b"s", b"t", b"u", b"", b"\xff"),
    "group": _NAMES,
    "consumer": _NAMES,
    "name": _choice_of(b"a", b"b", b"", b"\xff\x00", b"stream", b"all", b"x" * 1025),
    "pair": lambda pick: [pick.choice([b"f", b""]), pick.choice([b"v", b"\xff", b"v" * 5000])],
    "number": lambda pick: [number(pick)],
    "few": lambda pick: [b"%d" % pick.randint(1, 4) if pick.random() < 0.8 else number(pick)],
    "id": lambda pick: [_id(pick)],
    "new": lambda pick: [pick.choice([b"*", b"*", b"*", _id(pick), b"%d-*" % pick.randint(0, 20)])],
    "start": lambda pick: [pick.choice([b"$", b"0", b"0", _id(pick)])],
    "after": lambda pick: [pick.choice([b"$", b"0", b"0", _id(pick)])],
    "unread": lambda pick: [pick.choice([b">", b">", b"0", _id(pick)])],
    "bound": lambda pick: [pick.choice([b"-", b"+", _id(pick), b"(" + _id(pick)])],
    "pattern": lambda pick: [bytes(pick.choices(b"*?[]^-\\sat", k=pick.randint(0, 9)))],
    "setting": _choice_of(*_SETTINGS),
}


def _word(kind: str, pick: random.Random) -> list[bytes]:
    if kind in _WORDS:
        return _WORDS[kind](pick)
    return [kind.encode() if pick.random() < 0.9 else kind.lower().encode()]
