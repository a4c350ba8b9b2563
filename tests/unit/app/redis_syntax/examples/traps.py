"""The twenty traps of the rules of Redis Streams (§14), in their order.

What a trap says about waiting (§14.2, §14.10, §14.14) stands in
`tests/model/test_blocking_differential.py`. Redis loses what a history read counts when it
restarts; here nothing is lost, see `engine/README.md`.
"""

from __future__ import annotations

from tests.unit.app.redis_syntax.console import (
    ALL_READ,
    FIVE,
    GROUP,
    INVALID_ID,
    LEFT,
    PENDING,
    READ,
    SYNTAX,
    TWO,
    Case,
    claimed,
    entries,
    entry,
)

CLAIM = "XREADGROUP GROUP g d CLAIM 50 STREAMS s >"
HISTORY = "XREADGROUP GROUP g c STREAMS s 0"
IDS = "XINFO STREAM s | max-deleted-entry-id recorded-first-entry-id"
LAG = "XINFO GROUPS s | entries-read lag"

TRAPS: list[Case] = [
    ("14.1 XRANGE COUNT 0 is null", [*FIVE, "XRANGE s - + COUNT 0"], None),
    ("14.1 XREVRANGE COUNT -1 is null", [*FIVE, "XREVRANGE s + - COUNT -1"], None),
    ("14.1 a missing key is an empty array", ["XRANGE s - + COUNT 0"], []),
    ("14.1 a missing key is an empty array, downwards", ["XREVRANGE s + -"], []),
    ("14.2 an empty history is no null", [*FIVE, GROUP, HISTORY], [["s", []]]),
    (
        "14.2 a history read counts",
        [*TWO, "WAIT 5", HISTORY, PENDING],
        [["1-0", "c", 0, 2], ["2-0", "c", 0, 2]],
    ),
    (
        "14.2 a deleted entry has null",
        [*TWO, "XDEL s 1", HISTORY],
        [["s", [["1-0", None], entry(2)]]],
    ),
    (
        "14.2 a deleted entry does not count",
        [*TWO, "XDEL s 1", "WAIT 5", HISTORY, PENDING],
        [["1-0", "c", 5, 1], ["2-0", "c", 0, 2]],
    ),
    ("14.3 > on an empty stream is null", ["XGROUP CREATE s g 0 MKSTREAM", READ], None),
    (
        "14.3 the consumer is there afterwards",
        ["XGROUP CREATE s g 0 MKSTREAM", READ, "XINFO CONSUMERS s g | name pending inactive"],
        ["c", 0, -1],
    ),
    (
        "14.4 CLAIM tells what was before",
        [*TWO, "WAIT 60", CLAIM],
        [["s", [claimed(1, 60, 1), claimed(2, 60, 1)]]],
    ),
    (
        "14.4 new entries have zeros",
        [*TWO, "WAIT 60", "XADD s 3 f v3", CLAIM],
        [["s", [claimed(1, 60, 1), claimed(2, 60, 1), claimed(3, 0, 0)]]],
    ),
    (
        "14.4 XPENDING tells what is after",
        [*TWO, "WAIT 60", CLAIM, PENDING],
        [["1-0", "d", 0, 2], ["2-0", "d", 0, 2]],
    ),
    ("14.5 XCLAIM FORCE", [*FIVE, GROUP, "XCLAIM s g d 0 1 FORCE"], entries(1)),
    (
        "14.5 XCLAIM FORCE counts two",
        [*FIVE, GROUP, "XCLAIM s g d 0 1 FORCE", PENDING],
        [["1-0", "d", 0, 2]],
    ),
    (
        "14.5 XCLAIM FORCE JUSTID counts one",
        [*FIVE, GROUP, "XCLAIM s g d 0 1 FORCE JUSTID", PENDING],
        [["1-0", "d", 0, 1]],
    ),
    (
        "14.6 ids that are gone use up COUNT",
        [*ALL_READ, "XDEL s 1 2", "XAUTOCLAIM s g d 0 - COUNT 2"],
        ["3-0", [], ["1-0", "2-0"]],
    ),
    (
        "14.6 the next page goes on",
        [*ALL_READ, "XDEL s 1 2", "XAUTOCLAIM s g d 0 - COUNT 2", "XAUTOCLAIM s g d 0 3-0"],
        ["0-0", entries(3, 4, 5), []],
    ),
    (
        "14.6 nothing idle enough, and more to look at",
        [*(f"XADD s {n} f v" for n in range(1, 13)), GROUP, READ, "XAUTOCLAIM s g d 9 0 COUNT 1"],
        ["11-0", [], []],
    ),
    (
        "14.7 the summary counts in strings",
        [*TWO, "XPENDING s g"],
        [2, "1-0", "2-0", [["c", "2"]]],
    ),
    ("14.7 the long form in integers", [*TWO, "XPENDING s g - + 1"], [["1-0", "c", 0, 1]]),
    ("14.7 nothing pending", [*FIVE, GROUP, "XPENDING s g"], [0, None, None, None]),
    ("14.8 XTRIM moves the first id only", [*FIVE, "XTRIM s MAXLEN 3", IDS], ["0-0", "3-0"]),
    ("14.8 XADD MAXLEN too", [*FIVE, "XADD s MAXLEN 3 6 a b", IDS], ["0-0", "4-0"]),
    ("14.8 XDEL moves both", [*FIVE, "XDEL s 1 2", IDS], ["2-0", "3-0"]),
    ("14.8 XDEL inside moves one", [*FIVE, "XDEL s 3", IDS], ["3-0", "1-0"]),
    ("14.9 an unknown option is an invalid id", ["XADD s MAXLENGTH 5 * a b"], INVALID_ID),
    (
        "14.9 LIMIT needs ~",
        ["XADD s MAXLEN 5 LIMIT 3 * a b"],
        f"{SYNTAX}, LIMIT cannot be used without the special ~ option",
    ),
    (
        "14.10 SETID takes -",
        [*ALL_READ, "XGROUP SETID s g -", READ],
        [["s", entries(1, 2, 3, 4, 5)]],
    ),
    ("14.10 SETID takes +", [*FIVE, GROUP, "XGROUP SETID s g +", READ], None),
    ("14.10 CREATE does not take -", [*FIVE, "XGROUP CREATE s g -"], INVALID_ID),
    ("14.10 CREATE does not take +", [*FIVE, "XGROUP CREATE s g +"], INVALID_ID),
    ("14.10 SETID forgets entries-read", [*ALL_READ, "XGROUP SETID s g 5", LAG], [None, 0]),
    ("14.11 DELCONSUMER tells what is lost", [*TWO, "XGROUP DELCONSUMER s g c"], 2),
    (
        "14.11 what it held is not pending",
        [*TWO, "XGROUP DELCONSUMER s g c", "XPENDING s g"],
        [0, None, None, None],
    ),
    ("14.11 and not new again", [*TWO, "XGROUP DELCONSUMER s g c", READ], None),
    ("14.12 XACK without a group", [*FIVE, "XACK s g nonsense"], 0),
    ("14.12 XACK without a key", ["XACK s g nonsense"], 0),
    ("14.12 XACK with a group", [*TWO, "XACK s g 1 nonsense"], INVALID_ID),
    (
        "14.13 XDELEX ACKED keeps what never was",
        [*FIVE, "XGROUP CREATE s g 2", "XDELEX s ACKED IDS 1 9"],
        [2],
    ),
    (
        "14.13 XDELEX ACKED tells older ones right",
        [*FIVE, "XGROUP CREATE s g 2", "XDELEX s ACKED IDS 1 1-5"],
        [-1],
    ),
    ("14.13 XACKDEL of what is not pending", [*FIVE, GROUP, "XACKDEL s g DELREF IDS 1 1"], [-1]),
    (
        "14.13 XACKDEL leaves it alone",
        [*FIVE, GROUP, "XACKDEL s g DELREF IDS 1 1", LEFT],
        entries(1, 2, 3, 4, 5),
    ),
    ("14.15 entries-read unknown, lag known", [*FIVE, GROUP, LAG], [None, 5]),
    (
        "14.15 entries-read known, lag unknown",
        [*FIVE, GROUP, "XREADGROUP GROUP g c COUNT 2 STREAMS s >", "XDEL s 4", LAG],
        [2, None],
    ),
    (
        "14.16 a deleted original still answers",
        ["XADD s IDMP p i * a 1", "XDEL s 1000-0", "XADD s IDMP p i * a 1"],
        "1000-0",
    ),
    (
        "14.16 a trimmed original still answers",
        ["XADD s MAXLEN 0 IDMP p i * a 1", "XADD s IDMP p i * a 1"],
        "1000-0",
    ),
    (
        "14.17 the last id survives emptiness",
        ["XADD s 5 a b", "XDEL s 5", "XADD s 5 a b"],
        "ERR The ID specified in XADD is equal or smaller than the target stream top item",
    ),
    (
        "14.18 consumers by name",
        [
            *FIVE,
            GROUP,
            *(f"XREADGROUP GROUP g {name} COUNT 1 STREAMS s >" for name in ("b", "a", "Z", "aa")),
            "XPENDING s g",
        ],
        [4, "1-0", "4-0", [["Z", "1"], ["a", "1"], ["aa", "1"], ["b", "1"]]],
    ),
    (
        "14.18 pending by id, whatever the time",
        [*TWO, "WAIT 5", "XCLAIM s g d 0 1", PENDING],
        [["1-0", "d", 0, 2], ["2-0", "c", 5, 1]],
    ),
    (
        "14.18 CLAIM by delivery time",
        [*TWO, "WAIT 5", "XCLAIM s g c 0 1", "WAIT 60", CLAIM],
        [["s", [claimed(2, 65, 1), claimed(1, 60, 2)]]],
    ),
    (
        "14.18 nacked first",
        [*TWO, "XNACK s g FAIL IDS 1 2", "WAIT 60", CLAIM],
        [["s", [claimed(2, 0, 1), claimed(1, 60, 1)]]],
    ),
    (
        "14.19 fields keep order and duplicates",
        ["XADD s 1 b 1 a 2 b 3 b 1", LEFT],
        [["1-0", ["b", "1", "a", "2", "b", "3", "b", "1"]]],
    ),
    (
        "14.20 ids do not go back with the clock",
        ["XADD s * a b", "WAIT -500", "XADD s * a b"],
        "1000-1",
    ),
    (
        "14.20 after a far id all share its time",
        ["XADD s 99999-5 a b", "WAIT 10", "XADD s * a b", "WAIT 10", "XADD s * a b"],
        "99999-7",
    ),
]
