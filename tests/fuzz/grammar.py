"""Grammar: random words of each command, made of what COMMAND DOCS says of its arguments."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from headgate.app.redis_syntax.catalog import CATALOG, Argument
from headgate.app.redis_syntax.server import COMMANDS, SUBCOMMANDS

ABOUT_SERVERS = ["CONFIG GET", "CONFIG SET", "CONFIG RESETSTAT", "INFO"]
NAMES = [
    *(name.decode() for name in COMMANDS),
    *(f"{name.decode()} {sub.decode()}" for name, subs in SUBCOMMANDS.items() for sub in subs),
    *ABOUT_SERVERS,
]

RARE = 0.02
"""Share of commands that leave little, or have wrong words."""

_RUINOUS = {"DEL", "UNLINK", "FLUSHALL", "FLUSHDB", "XSETID", "RENAME", "RENAMENX"}
_RUINOUS |= {"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"}
_OFTEN = [*["XADD", "XREADGROUP"] * 2, "XGROUP CREATE"]
_OTHERS = [name for name in NAMES if name not in _RUINOUS]

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
    names = NAMES if pick.random() < RARE else pick.choice([_OTHERS, _OFTEN, _OFTEN])
    words = words_of(pick.choice(names), pick, pick.choice([0.0, 0.4, 0.4]))
    if pick.random() < RARE:
        at = pick.randrange(1, len(words) + 1)
        words[at : at + pick.randint(0, 1)] = pick.choice([[], [number(pick)], [b"\xff" * 2000]])
    return words


def words_of(name: str, pick: random.Random, share: float) -> list[bytes]:
    """Return random words of a command, with this share of the arguments that are optional."""
    arguments = CATALOG[name.lower().replace(" ", "|")].arguments
    return [
        *(_in_some_case(word, pick) for word in name.encode().split()),
        *_words_of(arguments, pick, share, name),
    ]


def number(pick: random.Random) -> bytes:
    """Return a number, mostly one that means something."""
    return b"%d" % pick.randint(0, 12) if pick.random() < 0.7 else pick.choice(NUMBERS)


def _words_of(
    arguments: Sequence[Argument], pick: random.Random, share: float, name: str
) -> list[bytes]:
    """Return words of arguments that belong together: what comes several times does so alike."""
    words: list[bytes] = []
    several = pick.choice([1, 1, 2, 4])
    for argument in arguments:
        if argument.is_optional and pick.random() >= share:
            continue
        for place in range(several if argument.is_multiple else 1):
            if argument.token is not None and (not place or argument.repeats_token):
                words.append(_in_some_case(argument.token.encode(), pick))
            if argument.name == "numids" and pick.random() < 0.8:
                words.append(b"%d" % several)
            elif argument.kind == "oneof":
                words += _words_of([pick.choice(argument.parts)], pick, share, name)
            elif argument.kind == "block":
                words += _words_of(argument.parts, pick, share, name)
            elif argument.kind != "pure-token":
                words.append(_value_of(argument, name)(pick))
    return words


def _in_some_case(word: bytes, pick: random.Random) -> bytes:
    return word if pick.random() < 0.9 else word.lower()


def _value_of(argument: Argument, name: str) -> Value:
    return (
        _OF_COMMANDS.get((name, argument.name))
        or _VALUES.get(argument.name)
        or _KINDS[argument.kind]
    )


def _id(pick: random.Random) -> bytes:
    if pick.random() < 0.85:
        return b"%d-%d" % (pick.randint(0, 20), pick.randint(0, 2))
    return pick.choice(IDS)


Value = Callable[[random.Random], bytes]


def _choice_of(*words: bytes) -> Value:
    return lambda pick: pick.choice(words)


_SETTINGS = [
    *(b"stream-node-max-bytes", b"stream-node-max-entries"),
    *(b"stream-idmp-duration", b"stream-idmp-maxsize", b"no"),
]
_NAMES = _choice_of(b"g", b"g", b"g", b"h", b"")


def _bound(pick: random.Random) -> bytes:
    return pick.choice([b"-", b"+", _id(pick), b"(" + _id(pick)])


_KINDS: dict[str, Value] = {
    "key": _choice_of(b"s", b"s", b"s", b"t", b"u", b"", b"\xff"),
    "integer": number,
    "unix-time": number,
    "pattern": lambda pick: bytes(pick.choices(b"*?[]^-\\sat", k=pick.randint(0, 9))),
    "string": _choice_of(b"a", b"b", b"", b"\xff\x00", b"stream", b"all", b"x" * 1025),
}
"""Values of arguments by their types."""

_VALUES: dict[str, Value] = {
    **dict.fromkeys(("group", "groupname", "consumer", "consumername"), _NAMES),
    **dict.fromkeys(("id", "last-id", "max_deleted_entry_id"), _id),
    **dict.fromkeys(("start", "end"), _bound),
    "min-idle-time": number,
    "threshold": lambda pick: pick.choice([number, _id])(pick),
    "field": _choice_of(b"f", b""),
    "value": _choice_of(b"v", b"\xff", b"v" * 5000),
    "parameter": _choice_of(*_SETTINGS),
}
"""Values of arguments by their names."""

_OF_COMMANDS: dict[tuple[str, str], Value] = {
    ("XADD", "id"): lambda pick: pick.choice([b"*", _id(pick), b"%d-*" % pick.randint(0, 20)]),
    ("XGROUP CREATE", "id"): lambda pick: pick.choice([b"0", b"0", _id(pick)]),
    ("XREAD", "id"): lambda pick: pick.choice([b"$", b"0", b"0", _id(pick)]),
    ("XREADGROUP", "id"): lambda pick: pick.choice([b">", b">", b"0", _id(pick)]),
    ("CONFIG SET", "value"): number,
    ("CONFIG GET", "parameter"): _KINDS["pattern"],
}
"""Values of arguments of one command."""
