"""XREADGROUP that names a stream twice: the first is given something, the second what is left."""

from __future__ import annotations

from tests.unit.app.redis_syntax.console import (
    FIVE,
    GROUP,
    PENDING,
    TWO,
    Case,
    claimed,
    entries,
)

THREE = [*FIVE[:3], GROUP]
TWO_AND_NEW = [*TWO, "WAIT 60", "XADD s 3 f v3"]
LAG = "XINFO GROUPS s | last-delivered-id entries-read lag"


def read(streams: str, options: str = "", consumer: str = "c") -> str:
    """Return a group read of `s`, as often as there are ids."""
    keys = " ".join("s" for _ in streams.split())
    return f"XREADGROUP GROUP g {consumer} {options} STREAMS {keys} {streams}"


NAMED_TWICE: list[Case] = [
    ("new, then nothing is left", [*THREE, read("> >")], [["s", entries(1, 2, 3)]]),
    (
        "new, then the rest",
        [*THREE, read("> >", "COUNT 2")],
        [["s", entries(1, 2)], ["s", entries(3)]],
    ),
    (
        "each is pending once",
        [*THREE, read("> >", "COUNT 1"), PENDING],
        [["1-0", "c", 0, 1], ["2-0", "c", 0, 1]],
    ),
    ("the group goes on behind both", [*THREE, read("> >", "COUNT 1"), LAG], ["2-0", 2, 1]),
    (
        "NOACK moves on as well",
        [*THREE, read("> >", "COUNT 1 NOACK")],
        [["s", entries(1)], ["s", entries(2)]],
    ),
    ("and leaves no history", [*THREE, read("> 0", "NOACK")], [["s", entries(1, 2, 3)], ["s", []]]),
    (
        "new, then history has it",
        [*THREE, read("> 0")],
        [["s", entries(1, 2, 3)], ["s", entries(1, 2, 3)]],
    ),
    (
        "and counts it",
        [*THREE, read("> 1"), PENDING],
        [["1-0", "c", 0, 1], ["2-0", "c", 0, 2], ["3-0", "c", 0, 2]],
    ),
    (
        "history has old and new in order",
        [*THREE, read(">", "COUNT 1"), "XGROUP SETID s g 2", read("> 0")],
        [["s", entries(3)], ["s", entries(1, 3)]],
    ),
    ("history, then new", [*THREE, read("0 >")], [["s", []], ["s", entries(1, 2, 3)]]),
    (
        "history twice counts twice",
        [*TWO, read("0 0"), PENDING],
        [["1-0", "c", 0, 3], ["2-0", "c", 0, 3]],
    ),
    (
        "after going back it is new again, and counts anew",
        [*TWO, read("0"), "XGROUP SETID s g 0", read("0 >"), PENDING],
        [["1-0", "c", 0, 1], ["2-0", "c", 0, 1]],
    ),
    (
        "MAXCOUNT goes over both",
        [*THREE, read("> >", "COUNT 2 MAXCOUNT 3"), PENDING],
        [["1-0", "c", 0, 1], ["2-0", "c", 0, 1], ["3-0", "c", 0, 1]],
    ),
    (
        "what MAXCOUNT held back is left to the next",
        [*THREE, read("> >", "MAXCOUNT 2"), read(">")],
        [["s", entries(3)]],
    ),
    (
        "claimed, then nothing is left",
        [*TWO, "WAIT 60", read("> >", "CLAIM 0", "d")],
        [["s", [claimed(1, 60, 1), claimed(2, 60, 1)]]],
    ),
    (
        "claimed one by one, then new",
        [*TWO_AND_NEW, read("> > > >", "COUNT 1 CLAIM 0", "d")],
        [["s", [claimed(1, 60, 1)]], ["s", [claimed(2, 60, 1)]], ["s", [claimed(3, 0, 0)]]],
    ),
    (
        "a claim counts once",
        [*TWO_AND_NEW, read("> > > >", "COUNT 1 CLAIM 0", "d"), PENDING],
        [["1-0", "d", 0, 2], ["2-0", "d", 0, 2], ["3-0", "d", 0, 1]],
    ),
    (
        "claimed, then history has it",
        [*TWO_AND_NEW, read("> 0", "CLAIM 50", "d")],
        [
            ["s", [claimed(1, 60, 1), claimed(2, 60, 1), claimed(3, 0, 0)]],
            ["s", entries(1, 2, 3)],
        ],
    ),
    (
        "history, then no claim",
        [*TWO_AND_NEW, read("0 >", "CLAIM 50", "d")],
        [["s", []], ["s", entries(3)]],
    ),
]
