"""Observations on a running Redis, by sections of the rules of Redis Streams.

Statements that are traps as well stand in `traps.py` with the number of the trap: §3 COUNT 0
(§14.1), §4 the id of SETID (§14.10), §7 XACK without a group (§14.12) and the count of a forced
claim (§14.5), §8 XDELEX ACKED (§14.13). Whatever waits (§3, §4, §5.3, §6) is in `test_blocking.py`
and `tests/model/test_blocking_differential.py`.
"""

from __future__ import annotations

from tests.unit.app.redis_syntax.console import (
    ALL_READ,
    FIVE,
    GROUP,
    INVALID_ID,
    MAX_ID_TEXT,
    NOT_AN_INTEGER,
    PENDING,
    READ,
    TWO,
    Case,
    claimed,
    entries,
)

NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use "
    "the MKSTREAM option to create an empty stream automatically."
)
NO_GROUP = "NOGROUP No such consumer group 'g' for key name 's'"

EMPTIED = {
    "XDEL": ["XADD s 5 a b", "XDEL s 5"],
    "XTRIM": ["XADD s 5 a b", "XTRIM s MAXLEN 0"],
    "XADD MAXLEN 0": ["XADD s MAXLEN 0 5 a b"],
    "XADD MINID": ["XADD s MINID 6 5 a b"],
}

DATA: list[Case] = [
    *(
        (f"0 {how} leaves {what}", [*lines, ask], expected)
        for how, lines in EMPTIED.items()
        for what, ask, expected in [
            ("a stream", "TYPE s", "stream"),
            ("no entry", "XLEN s", 0),
            ("the last id", "XINFO STREAM s | last-generated-id", ["5-0"]),
            ("auto ids above it", "XADD s 5-* a b", "5-1"),
        ]
    ),
    ("0 MKSTREAM makes a stream", ["XGROUP CREATE s g $ MKSTREAM", "TYPE s"], "stream"),
    ("0 DEL removes it", ["XADD s 5 a b", "XDEL s 5", "DEL s", "TYPE s"], "none"),
    ("0 an empty name is a name", [*FIVE, GROUP, 'XGROUP CREATECONSUMER s g ""'], 1),
    (
        "0 it is listed like any other",
        [*FIVE, GROUP, 'XGROUP CREATECONSUMER s g ""', "XINFO CONSUMERS s g | name pending"],
        ["", 0],
    ),
    ("0 a key may be empty", ['XADD "" 1 a b', 'XLEN ""'], 1),
    ("0 so may fields and values", ['XADD s 1 "" ""', "XRANGE s - +"], [["1-0", ["", ""]]]),
    ("0 names have a case", [*FIVE, GROUP, "XGROUP CREATE s G 0"], "OK"),
    (
        "0 any bytes are a name",
        [
            "XGROUP CREATE %00%FF%0D%0A %C3%28 $ MKSTREAM",
            "XADD %00%FF%0D%0A 1 %00 %FF",
            "XREADGROUP GROUP %C3%28 %20 STREAMS %00%FF%0D%0A >",
        ],
        [["\x00\\xff\r\n", [["1-0", ["\x00", "\\xff"]]]]],
    ),
    (
        "0 also in an error",
        ["XADD s 1 a b", "XREADGROUP GROUP %FF c STREAMS s >"],
        "NOGROUP No such key 's' or consumer group '�' in XREADGROUP with GROUP option",
    ),
]

LONGEST = "1-" + "0" * 124 + "1"  # 127 bytes

IDS: list[Case] = [
    *(
        (
            f"0.1 {word} is 1-1",
            ["XADD s 1-1 a b", f"XRANGE s {word} {word}"],
            [["1-1", ["a", "b"]]],
        )
        for word in ("%201-1", "+1-1", "01-01", "1-+1", "1-%0901", LONGEST)
    ),
    *(
        (f"0.1 {word} is no id", ["XADD s 1-1 a b", f"XDEL s {word}"], INVALID_ID)
        for word in (
            *("1--1", "-1", "2-", '""', "1-1-1", "-", "+", "(", "1-1%20", "1.0", "0x1", "1-*"),
            *(f"0{LONGEST}", str(2**64), f"1-{2**64}", "%FF", "%C2%B2"),
        )
    ),
    ("0.1 a lone ( is no bound", [*FIVE, "XRANGE s ( +"], INVALID_ID),
    ("0.1 neither is (-", [*FIVE, "XRANGE s (- +"], INVALID_ID),
    (
        "0.1 nothing is above the greatest id",
        [f"XRANGE s ({MAX_ID_TEXT} +"],
        "ERR invalid start ID for the interval",
    ),
    ("0.1 nothing is below 0-0", ["XRANGE s - (0-0"], "ERR invalid end ID for the interval"),
    ("0.1 the greatest id", [f"XADD s {MAX_ID_TEXT} a b"], MAX_ID_TEXT),
    (
        "0.1 is the last",
        [f"XADD s {MAX_ID_TEXT} a b", "XADD s * a b"],
        "ERR The stream has exhausted the last possible ID, unable to add more items",
    ),
    (
        "0.1 a full sequence goes on with the next time",
        [f"XADD s 99999-{2**64 - 1} a b", "XADD s * a b"],
        "100000-0",
    ),
    (
        "0.1 but not if the time is given",
        [f"XADD s 5-{2**64 - 1} a b", "XADD s 5-* a b"],
        "ERR The ID specified in XADD is equal or smaller than the target stream top item",
    ),
    ("0.1 64 bits are enough", [f"XADD s {2**63}-{2**63} a b"], f"{2**63}-{2**63}"),
    *(
        (f"0.1 COUNT {word} is no integer", [*FIVE, f"XRANGE s - + COUNT {word}"], NOT_AN_INTEGER)
        for word in ("+10", "-0", "010", "5.5", '""', "%201", "1%20", str(2**63), str(-(2**63) - 1))
    ),
    ("0.1 COUNT of 63 bits", [*FIVE, f"XRANGE s 5 + COUNT {2**63 - 1}"], entries(5)),
    ("0.1 COUNT of 63 bits below zero", [*FIVE, f"XRANGE s 5 + COUNT {-(2**63)}"], None),
    ("0.1 XTRIM of 63 bits", [*FIVE, f"XTRIM s MAXLEN {2**63 - 1}"], 0),
]

THIRTY_FIVE = [
    "CONFIG SET stream-node-max-entries 10",
    *(f"XADD s {number} a b" for number in range(1, 36)),
]

WRITING: list[Case] = [
    ("1 a second strategy is an invalid id", ["XADD s KEEPREF DELREF * a 1"], INVALID_ID),
    ("1 a misspelt option is an invalid id", ["XADD s NOMKSTREAMS * a 1"], INVALID_ID),
    ("1 so is an option without its value", ["XADD s NOMKSTREAM NOMKSTREAM MAXLEN"], INVALID_ID),
    ("1 nothing is made then", ["XADD t 1 a b", "EXISTS s"], 0),
    ("2 ~ goes by nodes", [*THIRTY_FIVE, "XTRIM s MAXLEN ~ 12"], 20),
    ("2 what it leaves", [*THIRTY_FIVE, "XTRIM s MAXLEN ~ 12", "XLEN s"], 15),
    ("2 again it finds nothing", [*THIRTY_FIVE, *["XTRIM s MAXLEN ~ 12"] * 2], 0),
    ("2 a LIMIT below the first node", [*THIRTY_FIVE, "XTRIM s MAXLEN ~ 12 LIMIT 9"], 0),
    ("2 a LIMIT of one node", [*THIRTY_FIVE, "XTRIM s MAXLEN ~ 12 LIMIT 19"], 10),
    (
        "2 ACKED keeps what is unread",
        [*FIVE, GROUP, "XADD s MAXLEN 2 ACKED 6 f v6", "XLEN s"],
        6,
    ),
]

READING: list[Case] = [
    (
        "3 a key named twice is read twice",
        [*FIVE, "XREAD STREAMS s s 3 4"],
        [["s", entries(4, 5)], ["s", entries(5)]],
    ),
    ("4 DESTROY of a missing key", ["XGROUP DESTROY s g"], NO_KEY),
    *(
        (f"4 {words} of a missing key", [f"XGROUP {words}"], NO_KEY)
        for words in ("CREATE s g $", "SETID s g $", "CREATECONSUMER s g c", "DELCONSUMER s g c")
    ),
    *(
        (f"4 {words} of a missing group", ["XADD s 1 a b", f"XGROUP {words}"], NO_GROUP)
        for words in ("SETID s g $", "CREATECONSUMER s g c", "DELCONSUMER s g c")
    ),
    ("4 DESTROY of a missing group", ["XADD s 1 a b", "XGROUP DESTROY s g"], 0),
    (
        "5.2 who has no history is made",
        [*FIVE, GROUP, "XREADGROUP GROUP g c STREAMS s 0", "XINFO CONSUMERS s g | name"],
        ["c"],
    ),
    (
        "5.2 NOACK leaves history pending",
        [*TWO, "WAIT 5", "XREADGROUP GROUP g c NOACK STREAMS s 0", PENDING],
        [["1-0", "c", 0, 2], ["2-0", "c", 0, 2]],
    ),
    (
        "5.2 the greatest id is >",
        [*FIVE[:1], GROUP, f"XREADGROUP GROUP g c STREAMS s {MAX_ID_TEXT}"],
        [["s", entries(1)]],
    ),
    (
        "5.2 and so can be null",
        [*TWO, f"XREADGROUP GROUP g c STREAMS s {MAX_ID_TEXT}"],
        None,
    ),
]

CLAIM = "XREADGROUP GROUP g d CLAIM 50 STREAMS s >"
BACK = [*FIVE[:1], GROUP, READ, "WAIT 60", "XGROUP SETID s g 0", CLAIM]
OTHER = [*TWO, "XGROUP CREATE t g 0 MKSTREAM"]

CLAIMING: list[Case] = [
    (
        "5.3 entries that are gone are skipped",
        [*TWO, "XDEL s 1", "WAIT 60", CLAIM],
        [["s", [claimed(2, 60, 1)]]],
    ),
    (
        "5.3 and stay pending",
        [*TWO, "XDEL s 1", "WAIT 60", CLAIM, PENDING],
        [["1-0", "c", 60, 1], ["2-0", "d", 0, 2]],
    ),
    (
        "5.3 after going back an entry comes twice",
        BACK,
        [["s", [claimed(1, 60, 1), claimed(1, 0, 0)]]],
    ),
    ("5.3 but is pending once", [*BACK, PENDING], [["1-0", "d", 0, 1]]),
    (
        "5.3 history switches it off for what follows",
        [*OTHER, "WAIT 60", "XREADGROUP GROUP g d CLAIM 50 STREAMS t s 0 >"],
        [["t", []]],
    ),
    (
        "5.3 new entries then have two parts",
        [*OTHER, "XADD s 3 f v3", "XREADGROUP GROUP g d CLAIM 50 STREAMS t s 0 >"],
        [["t", []], ["s", entries(3)]],
    ),
    (
        "5.3 not for what came before",
        [*OTHER, "WAIT 60", "XREADGROUP GROUP g d CLAIM 50 STREAMS s t > 0"],
        [["s", [claimed(1, 60, 1), claimed(2, 60, 1)]], ["t", []]],
    ),
]

SETTLING: list[Case] = [
    ("7 XPENDING ignores more words", [*TWO, "XPENDING s g - + 1 c junk"], [["1-0", "c", 0, 1]]),
    ("7 up to nine", [*TWO, "XPENDING s g IDLE 0 - + 1 c"], [["1-0", "c", 0, 1]]),
    ("7 not ten", [*TWO, "XPENDING s g IDLE 0 - + 1 c junk"], "ERR syntax error"),
    (
        "8 DELREF of what is gone tells so",
        [*ALL_READ, "XDEL s 1", "XDELEX s DELREF IDS 1 1"],
        [-1],
    ),
    (
        "8 and purges it all the same",
        [*ALL_READ, "XDEL s 1", "XDELEX s DELREF IDS 1 1", "XPENDING s g"],
        [4, "2-0", "5-0", [["c", "4"]]],
    ),
]

LAG = "XINFO GROUPS s | entries-read lag"
READ_TWO = "XREADGROUP GROUP g c COUNT 2 STREAMS s >"

LAGS: list[Case] = [
    ("10 at $", [*FIVE, "XGROUP CREATE s g $", LAG], [None, 0]),
    ("10 in the middle", [*FIVE, "XGROUP CREATE s g 3", LAG], [None, None]),
    ("10 from the middle to the end", [*FIVE, "XGROUP CREATE s g 3", READ, LAG], [5, 0]),
    ("10 at the first", [*FIVE, "XGROUP CREATE s g 1", LAG], [None, 4]),
    ("10 in the future", [*FIVE, "XGROUP CREATE s g 9", LAG], [None, None]),
    ("10 that has read some", [*FIVE, GROUP, READ_TWO, LAG], [2, 3]),
    ("10 and passed", [*FIVE, GROUP, READ_TWO, "XDEL s 4", READ, LAG], [5, 0]),
    ("10 trimmed", [*FIVE, GROUP, "XTRIM s MAXLEN 2", LAG], [None, 2]),
    ("10 group and tombstone before the first", [*FIVE, GROUP, "XDEL s 1 2", LAG], [None, 3]),
    (
        "10 deleted behind, then trimmed",
        [*FIVE, GROUP, "XDEL s 2", "XTRIM s MINID 4", LAG],
        [None, 2],
    ),
    ("10 empty", [*FIVE, GROUP, "XTRIM s MAXLEN 0", LAG], [None, 0]),
    ("10 never filled", ["XGROUP CREATE s g 0 MKSTREAM", LAG], [None, 0]),
    ("10 told", [*FIVE, "XGROUP CREATE s g 3 ENTRIESREAD 3", LAG], [3, 2]),
    ("10 told too much", [*FIVE, "XGROUP CREATE s g 3 ENTRIESREAD 99", LAG], [5, 0]),
    (
        "10 LASTID leaves it stale",
        [*FIVE, GROUP, READ_TWO, "XCLAIM s g c 0 1 LASTID 5", LAG],
        [2, 3],
    ),
]

KEYED = "XADD s IDMP p i * a 1"
SEVEN_KEYS = "XCFGSET s IDMP-MAXSIZE 7"

SETTINGS: list[Case] = [
    ("11 XCFGSET: a change wipes", [KEYED, SEVEN_KEYS, KEYED], "1000-1"),
    (
        "11 XCFGSET: the same again does not",
        ["XADD s * a 1", SEVEN_KEYS, KEYED, SEVEN_KEYS, KEYED],
        "1000-1",
    ),
    (
        "11 XCFGSET: what held by default is no change",
        [KEYED, "XCFGSET s IDMP-MAXSIZE 100 IDMP-DURATION 100", KEYED],
        "1000-0",
    ),
]

REFUSED: list[Case] = [
    (f"refused: {command}", [*FIVE, GROUP, command], text)
    for command, text in {
        "XADD s 0-0 a b": "ERR The ID specified in XADD must be greater than 0-0",
        "XGROUP CREATE s g 0": "BUSYGROUP Consumer Group name already exists",
        "XPENDING s h": "NOGROUP No such key 's' or consumer group 'h'",
    }.items()
]

OBSERVED = [*DATA, *IDS, *WRITING, *READING, *CLAIMING, *SETTLING, *LAGS, *SETTINGS, *REFUSED]
