"""Commands newer than Redis 7.0, worked out by hand: commands, and the reply of the last one.

What was observed on a running Redis stands in `observed.py` and `traps.py` instead.
"""

from __future__ import annotations

from tests.unit.app.redis_syntax.console import (
    ALL_READ,
    FIVE,
    GROUP,
    I64_MAX,
    INVALID_ID,
    LEFT,
    PENDING,
    READ,
    SEVEN,
    SYNTAX,
    TWO,
    Case,
    claimed,
    entries,
)

NUMIDS = "ERR The `numids` parameter must match the number of arguments"

IDEMPOTENCY: list[Case] = [
    ("a retry gets the first id", ["XADD s IDMP p i * a 1"] * 2, "1000-0"),
    (
        "a retry may say something else",
        ["XADD s IDMP p i * a 1", "XADD s IDMP p i * b 2"],
        "1000-0",
    ),
    ("a retry adds nothing", [*["XADD s IDMP p i * a 1"] * 2, "XLEN s"], 1),
    ("another key adds", ["XADD s IDMP p i * a 1", "XADD s IDMP p j * a 1"], "1000-1"),
    ("another producer adds", ["XADD s IDMP p i * a 1", "XADD s IDMP q i * a 1"], "1000-1"),
    ("auto: same fields", ["XADD s IDMPAUTO p * a 1 b 2"] * 2, "1000-0"),
    (
        "auto: the order does not count",
        ["XADD s IDMPAUTO p * a 1 b 2", "XADD s IDMPAUTO p * b 2 a 1"],
        "1000-0",
    ),
    (
        "auto: pairs do not run together",
        ["XADD s IDMPAUTO p * a 1b", "XADD s IDMPAUTO p * a1 b"],
        "1000-1",
    ),
    (
        "auto: values may not be swapped",
        ["XADD s IDMPAUTO p * a 1 b 2", "XADD s IDMPAUTO p * a 2 b 1"],
        "1000-1",
    ),
    (
        "auto: a pair counts each time",
        ["XADD s IDMPAUTO p * a 1", "XADD s IDMPAUTO p * a 1 a 1"],
        "1000-1",
    ),
    (
        "a retry does not trim",
        [*FIVE, "XADD s IDMP p i * a 1", "XADD s MAXLEN 1 IDMP p i * a 1", "XLEN s"],
        6,
    ),
    ("a missing stream is not made", ["XADD s NOMKSTREAM IDMP p i * a 1"], None),
    (
        "and nothing is remembered then",
        ["XADD s NOMKSTREAM IDMP p i * a 1", "XADD s * x y", "XADD s IDMP p i * a 1"],
        "1000-1",
    ),
    (
        "deleting the key forgets",
        ["XADD s IDMP p i * a 1", "DEL s", "WAIT 5", "XADD s IDMP p i * a 1"],
        "1005-0",
    ),
    (
        "renaming the key does not",
        ["XADD s IDMP p i * a 1", "RENAME s t", "WAIT 5", "XADD t IDMP p i * a 1"],
        "1000-0",
    ),
    (
        "expiry: within the time",
        ["XADD s IDMP p i * a 1", "WAIT 100000", "XADD s IDMP p i * a 1"],
        "1000-0",
    ),
    (
        "expiry: past it",
        ["XADD s IDMP p i * a 1", "WAIT 100001", "XADD s IDMP p i * a 1"],
        "101001-0",
    ),
    (
        "expiry: by the clock even if ids run ahead",
        ["XADD s 9999999999 a 1", "XADD s IDMP p i * a 1", "WAIT 100001", "XADD s IDMP p i * a 1"],
        "9999999999-2",
    ),
    (
        "expiry: a retry does not prolong",
        [
            "XADD s IDMP p i * a 1",
            "WAIT 60000",
            "XADD s IDMP p i * a 1",
            "WAIT 60000",
            "XADD s IDMP p i * a 1",
        ],
        "121000-0",
    ),
    (
        "size: the oldest goes",
        [
            "XADD s * x y",
            "XCFGSET s IDMP-MAXSIZE 1",
            "XADD s IDMP p i * a 1",
            "XADD s IDMP p j * a 1",
            "XADD s IDMP p i * a 1",
        ],
        "1000-3",
    ),
    (
        "size: the newest stays",
        [
            "XADD s * x y",
            "XCFGSET s IDMP-MAXSIZE 1",
            "XADD s IDMP p i * a 1",
            "XADD s IDMP p j * a 1",
            "XADD s IDMP p j * a 1",
        ],
        "1000-2",
    ),
    (
        "size: per producer",
        [
            "XADD s * x y",
            "XCFGSET s IDMP-MAXSIZE 1",
            "XADD s IDMP p i * a 1",
            "XADD s IDMP q j * a 1",
            "XADD s IDMP p i * a 1",
        ],
        "1000-1",
    ),
    (
        "counters",
        [
            "XADD s IDMP p i * a 1",
            "XADD s IDMP p i * a 1",
            "XADD s IDMP q j * a 1",
            "XADD s IDMPAUTO q * a 1",
            "XINFO STREAM s | pids-tracked iids-tracked iids-added iids-duplicates",
        ],
        [2, 3, 3, 1],
    ),
    ("settings shown", ["XADD s * a 1", "XINFO STREAM s | idmp-duration idmp-maxsize"], [100, 100]),
    (
        "counters survive a wipe",
        [
            *["XADD s IDMP p i * a 1"] * 3,
            "XCFGSET s IDMP-DURATION 5",
            "XINFO STREAM s | idmp-duration pids-tracked iids-tracked iids-added iids-duplicates",
        ],
        [5, 0, 0, 1, 2],
    ),
    *(
        (f"refused: {words}", [f"XADD s {words}"], text)
        for words, text in {
            "IDMP p i 5-* a 1": f"{SYNTAX}, IDMP/IDMPAUTO can be used only with auto-generated IDs",
            "IDMP p i 5-1 a 1": f"{SYNTAX}, IDMP/IDMPAUTO can be used only with auto-generated IDs",
            "IDMPAUTO p 5 a 1": f"{SYNTAX}, IDMP/IDMPAUTO can be used only with auto-generated IDs",
            "IDMP p i IDMP p j * a 1": f"{SYNTAX}, IDMP/IDMPAUTO specified multiple times",
            "IDMP p i IDMPAUTO p * a 1": f"{SYNTAX}, IDMP/IDMPAUTO specified multiple times",
            'IDMP "" i * a 1': f"{SYNTAX}, IDMP requires a non-empty producer ID",
            'IDMP p "" * a 1': f"{SYNTAX}, IDMP requires a non-empty idempotent ID",
            'IDMPAUTO "" * a 1': f"{SYNTAX}, IDMPAUTO requires a non-empty producer ID",
            "IDMP p * a 1": INVALID_ID,
        }.items()
    ),
]

NO_COMPARE = "ERR The ID specified in XSETID is smaller than"

SETTINGS: list[Case] = [
    ("xcfgset", ["XADD s * a 1", "XCFGSET s IDMP-DURATION 5 IDMP-MAXSIZE 7"], "OK"),
    ("xcfgset: the key comes first", ["XCFGSET s nonsense"], "ERR no such key"),
    *(
        (f"xcfgset: {words}", ["XADD s * a 1", f"XCFGSET s {words}"], text)
        for words, text in {
            "IDMP-DURATION 0": "ERR IDMP-DURATION must be between 1 and 86400 seconds",
            "IDMP-DURATION 86401": "ERR IDMP-DURATION must be between 1 and 86400 seconds",
            "IDMP-MAXSIZE 10001": "ERR IDMP-MAXSIZE must be between 1 and 10000 entries",
            "IDMP-MAXSIZE 5 IDMP-MAXSIZE 5": "ERR IDMP-MAXSIZE specified multiple times",
            "IDMP-DURATION 5 IDMP-DURATION 5": "ERR IDMP-DURATION specified multiple times",
            "": "ERR At least one parameter must be specified",
            "IDMP-SPEED 5": SYNTAX,
        }.items()
    ),
    ("xidmprecord", ["XADD s 5 a 1", "XIDMPRECORD s p i 5", "XADD s IDMP p i * a 1"], "5-0"),
    ("xidmprecord: the same again", ["XADD s 5 a 1", *["XIDMPRECORD s p i 5"] * 2], "OK"),
    (
        "xidmprecord: another id",
        [*FIVE, "XIDMPRECORD s p i 5", "XIDMPRECORD s p i 4"],
        "ERR IID already exists for this producer with a different stream ID",
    ),
    (
        "xidmprecord: no entry",
        ["XADD s 5 a 1", "XIDMPRECORD s p i 6"],
        "ERR No such message in stream",
    ),
    ("xidmprecord: no producer", ['XIDMPRECORD s "" i 6'], "ERR producer ID must be non-empty"),
    ("xidmprecord: no iid", ['XIDMPRECORD s p "" 6'], "ERR idempotent ID must be non-empty"),
    ("xidmprecord: no key", ["XIDMPRECORD s p i 6"], "ERR no such key"),
    ("xsetid: the id is read first", ["XSETID s x ENTRIESADDED -1"], INVALID_ID),
    (
        "xsetid: then the count",
        ["XSETID s 1 ENTRIESADDED -1"],
        "ERR entries_added must be positive",
    ),
    (
        "xsetid: then what was deleted",
        ["XSETID s 1 MAXDELETEDID 2"],
        f"{NO_COMPARE} the provided max_deleted_entry_id",
    ),
    ("xsetid: then the key", ["XSETID s 1 ENTRIESADDED 5"], "ERR no such key"),
    (
        "xsetid: then the newest deleted",
        [*FIVE, "XDEL s 5", "XSETID s 4"],
        f"{NO_COMPARE} current max_deleted_entry_id",
    ),
    (
        "xsetid: then the entries",
        [*FIVE, "XSETID s 4 ENTRIESADDED 1"],
        f"{NO_COMPARE} the target stream top item",
    ),
    (
        "xsetid: then their number",
        [*FIVE, "XSETID s 5 ENTRIESADDED 4"],
        "ERR The entries_added specified in XSETID is smaller than the target stream length",
    ),
    ("xsetid: down to the top entry", [*FIVE, "XSETID s 9", "XSETID s 5", "XADD s 6 a 1"], "6-0"),
]

TRIMMING: list[Case] = [
    (
        "keepref leaves pending",
        [*ALL_READ, "XTRIM s MAXLEN 4 KEEPREF", "XPENDING s g"],
        [5, "1-0", "5-0", [["c", "5"]]],
    ),
    (
        "delref does not",
        [*ALL_READ, "XTRIM s MAXLEN 3 DELREF", "XPENDING s g"],
        [3, "3-0", "5-0", [["c", "3"]]],
    ),
    (
        "delref by id",
        [*ALL_READ, "XTRIM s MINID 3 DELREF", "XPENDING s g"],
        [3, "3-0", "5-0", [["c", "3"]]],
    ),
    ("acked keeps what is pending", [*ALL_READ, "XTRIM s MAXLEN 0 ACKED"], 0),
    ("acked keeps what is unread", [*FIVE, GROUP, "XTRIM s MAXLEN 2 ACKED"], 0),
    ("acked without groups", [*FIVE, "XTRIM s MAXLEN 2 ACKED"], 3),
    (
        "acked leaves holes",
        [*ALL_READ, "XACK s g 2 3", "XTRIM s MAXLEN 0 ACKED", LEFT],
        entries(1, 4, 5),
    ),
    (
        "acked ends with the length",
        [*ALL_READ, "XACK s g 1 2 3", "XTRIM s MAXLEN 4 ACKED", LEFT],
        entries(2, 3, 4, 5),
    ),
    (
        "acked ends behind the first node that stays",
        [*SEVEN, GROUP, READ, "XACK s g 2 3 4 5", "XTRIM s MAXLEN 5 ACKED"],
        2,
    ),
    ("acked by id", [*ALL_READ, "XACK s g 1 3 4", "XTRIM s MINID 4 ACKED", LEFT], entries(2, 4, 5)),
    (
        "one forgotten group keeps all",
        [*ALL_READ, "XACK s g 1 2 3 4 5", "XGROUP CREATE s old 0", "XTRIM s MAXLEN 0 ACKED"],
        0,
    ),
    (
        "noack counts as acked",
        [*FIVE, GROUP, "XREADGROUP GROUP g c NOACK STREAMS s >", "XTRIM s MAXLEN 1 ACKED"],
        4,
    ),
    (
        "xadd acked, acked",
        [*ALL_READ, "XACK s g 1 2", "XADD s ACKED MAXLEN 2 6 f v6", LEFT],
        entries(3, 4, 5, 6),
    ),
    (
        "xadd delref",
        [*ALL_READ, "XADD s MAXLEN 2 DELREF 6 f v6", "XPENDING s g"],
        [1, "5-0", "5-0", [["c", "1"]]],
    ),
    (
        "xadd keepref",
        [*ALL_READ, "XADD s KEEPREF MAXLEN 2 6 f v6", "XPENDING s g"],
        [5, "1-0", "5-0", [["c", "5"]]],
    ),
    ("~ keepref goes by nodes", [*SEVEN, "XTRIM s MAXLEN ~ 2 KEEPREF"], 3),
    ("~ delref goes by entries", [*SEVEN, "XTRIM s MAXLEN ~ 2 DELREF"], 5),
    ("~ acked goes by entries", [*SEVEN, "XTRIM s MAXLEN ~ 2 ACKED"], 5),
    ("~ delref by id", [*SEVEN, "XTRIM s MINID ~ 6 DELREF"], 5),
    ("~ delref, limit below a node", [*SEVEN, "XTRIM s MAXLEN ~ 2 LIMIT 2 DELREF"], 0),
    ("~ delref, limit of a node", [*SEVEN, "XTRIM s MAXLEN ~ 2 LIMIT 4 DELREF"], 3),
    ("~ acked, limit of a node", [*SEVEN, "XTRIM s MAXLEN ~ 2 LIMIT 4 ACKED"], 3),
    ("~ acked, no limit", [*SEVEN, "XTRIM s MAXLEN ~ 2 LIMIT 0 ACKED"], 5),
    (
        "trimming is not deleting",
        [
            *FIVE,
            "XTRIM s MAXLEN 2 ACKED",
            "XINFO STREAM s | max-deleted-entry-id entries-added recorded-first-entry-id",
        ],
        ["0-0", 5, "4-0"],
    ),
    ("two ways at once", [*FIVE, "XTRIM s MAXLEN 2 ACKED DELREF"], SYNTAX),
]

DELETING: list[Case] = [
    ("xdelex", [*FIVE, "XDELEX s IDS 3 1 9 2"], [1, -1, 1]),
    ("xdelex: no key", ["XDELEX s IDS 2 1 2"], [-1, -1]),
    ("xdelex: named twice", [*FIVE, "XDELEX s IDS 2 1 1"], [1, -1]),
    (
        "xdelex keepref",
        [*ALL_READ, "XDELEX s KEEPREF IDS 1 1", "XPENDING s g"],
        [5, "1-0", "5-0", [["c", "5"]]],
    ),
    (
        "xdelex delref",
        [*ALL_READ, "XDELEX s DELREF IDS 2 1 5", "XPENDING s g"],
        [3, "2-0", "4-0", [["c", "3"]]],
    ),
    ("xdelex acked", [*ALL_READ, "XACK s g 1", "XDELEX s ACKED IDS 2 1 2"], [1, 2]),
    (
        "xdelex acked: unread",
        [*FIVE, "XGROUP CREATE s g 2", "XDELEX s ACKED IDS 3 1 2 3"],
        [1, 1, 2],
    ),
    ("xdelex acked: no groups", [*FIVE, "XDELEX s ACKED IDS 2 1 9"], [1, -1]),
    ("xdelex: options behind the ids", [*ALL_READ, "XDELEX s IDS 1 1 ACKED"], [2]),
    ("xdelex: too many ids", [*FIVE, "XDELEX s IDS 1 1 2"], SYNTAX),
    ("xdelex: two options", [*FIVE, "XDELEX s ACKED IDS 1 1 DELREF"], SYNTAX),
    ("xdelex: no ids", [*FIVE, "XDELEX s ACKED IDS 1"], NUMIDS),
    ("xdelex: the last IDS counts", [*FIVE, "XDELEX s IDS 1 9 IDS 2 1 2"], [1, 1]),
    ("xdelex: words come before ids", [*FIVE, "XDELEX s IDS 1 x FOO"], SYNTAX),
    ("xdelex: too few ids", ["XDELEX s IDS 3 1 2"], NUMIDS),
    ("xdelex: no number", ["XDELEX s IDS x 1"], "ERR Number of IDs must be a positive integer"),
    ("xdelex: zero ids", ["XDELEX s IDS 0 1"], "ERR Number of IDs must be a positive integer"),
    ("xdelex: another word", ["XDELEX s FOO 1 1"], SYNTAX),
    ("xackdel", [*ALL_READ, "XACKDEL s g IDS 2 1 9"], [1, -1]),
    ("xackdel: deleted", [*ALL_READ, "XACKDEL s g IDS 2 1 2", LEFT], entries(3, 4, 5)),
    ("xackdel: gone already", [*ALL_READ, "XDEL s 1", "XACKDEL s g IDS 1 1"], [1]),
    ("xackdel: no group", [*FIVE, "XACKDEL s g IDS 2 1 2"], [-1, -1]),
    ("xackdel: no key", ["XACKDEL s g IDS 2 1 2"], [-1, -1]),
    ("xackdel: named twice", [*ALL_READ, "XACKDEL s g IDS 2 1 1"], [1, -1]),
    ("xackdel acked: the only group", [*ALL_READ, "XACKDEL s g ACKED IDS 1 1"], [1]),
    (
        "xackdel acked: another has not read",
        [*ALL_READ, "XGROUP CREATE s h 1", "XACKDEL s g ACKED IDS 2 1 2"],
        [1, 2],
    ),
    (
        "xackdel acked: acked all the same",
        [*ALL_READ, "XGROUP CREATE s h 0", "XACKDEL s g ACKED IDS 1 1", "XPENDING s g"],
        [4, "2-0", "5-0", [["c", "4"]]],
    ),
    (
        "xackdel keepref: others keep theirs",
        [
            *ALL_READ,
            "XGROUP CREATE s h 0",
            "XREADGROUP GROUP h d STREAMS s >",
            "XACKDEL s g IDS 1 1",
            "XPENDING s h",
        ],
        [5, "1-0", "5-0", [["d", "5"]]],
    ),
    (
        "xackdel delref: others lose theirs",
        [
            *ALL_READ,
            "XGROUP CREATE s h 0",
            "XREADGROUP GROUP h d STREAMS s >",
            "XACKDEL s g DELREF IDS 1 1",
            "XPENDING s h",
        ],
        [4, "2-0", "5-0", [["d", "4"]]],
    ),
    ("xackdel: too few ids", ["XACKDEL s g IDS 2 1"], NUMIDS),
    ("xackdel: too many ids", [*ALL_READ, "XACKDEL s g IDS 1 1 2"], SYNTAX),
    ("xackdel: options behind the ids", [*ALL_READ, "XACKDEL s g IDS 1 1 DELREF"], [1]),
]

NACKS: list[Case] = [
    ("how many", [*TWO, "XNACK s g FAIL IDS 3 1 2 9"], 2),
    (
        "silent",
        [*TWO, "XNACK s g SILENT IDS 1 1", PENDING],
        [["1-0", "", -1, 0], ["2-0", "c", 0, 1]],
    ),
    ("fail", [*TWO, "XNACK s g FAIL IDS 1 1", PENDING], [["1-0", "", -1, 1], ["2-0", "c", 0, 1]]),
    (
        "fatal",
        [*TWO, "XNACK s g FATAL IDS 1 1", PENDING],
        [["1-0", "", -1, I64_MAX], ["2-0", "c", 0, 1]],
    ),
    (
        "silent, not below zero",
        [*TWO, "XNACK s g SILENT IDS 2 1 1", "XPENDING s g 1 1 9"],
        [["1-0", "", -1, 0]],
    ),
    (
        "retrycount",
        [*TWO, "XNACK s g FATAL IDS 1 1 RETRYCOUNT 7", "XPENDING s g 1 1 9"],
        [["1-0", "", -1, 7]],
    ),
    (
        "retrycount before the ids",
        [*TWO, "XNACK s g SILENT RETRYCOUNT 7 IDS 1 1", "XPENDING s g 1 1 9"],
        [["1-0", "", -1, 7]],
    ),
    ("twice counts twice", [*TWO, "XNACK s g FAIL IDS 2 1 1"], 2),
    ("not pending", [*FIVE, GROUP, "XNACK s g FAIL IDS 1 1"], 0),
    ("force", [*FIVE, GROUP, "XNACK s g FAIL IDS 2 1 9 FORCE"], 1),
    (
        "force makes it pending",
        [*FIVE, GROUP, "XNACK s g FAIL IDS 1 1 FORCE", PENDING],
        [["1-0", "", -1, 0]],
    ),
    (
        "force, counted",
        [*FIVE, GROUP, "XNACK s g FAIL FORCE RETRYCOUNT 3 IDS 1 1", PENDING],
        [["1-0", "", -1, 3]],
    ),
    (
        "the summary",
        [*TWO, "XNACK s g FAIL IDS 1 1", "XPENDING s g"],
        [2, "1-0", "2-0", [["c", "1"]]],
    ),
    (
        "the idle filter",
        [*TWO, "XNACK s g FAIL IDS 1 1", "XPENDING s g IDLE 99999 - + 9"],
        [["1-0", "", -1, 1]],
    ),
    (
        "no history",
        [*TWO, "XNACK s g FAIL IDS 1 1", "XREADGROUP GROUP g c STREAMS s 0"],
        [["s", entries(2)]],
    ),
    (
        "xclaim whatever idle",
        [*TWO, "XNACK s g FAIL IDS 1 1", "XCLAIM s g d 99999 1 2"],
        entries(1),
    ),
    (
        "xautoclaim whatever idle",
        [*TWO, "XNACK s g FAIL IDS 1 1", "XAUTOCLAIM s g d 99999 0"],
        ["0-0", entries(1), []],
    ),
    (
        "delconsumer leaves it",
        [*TWO, "XNACK s g FAIL IDS 1 1", "XGROUP DELCONSUMER s g c", PENDING],
        [["1-0", "", -1, 1]],
    ),
    ("anyone may ack", [*TWO, "XNACK s g FAIL IDS 1 1", "XACK s g 1"], 1),
    ("no group", [*FIVE, "XNACK s g NO IDS 1 1"], "NOGROUP No such key 's' or consumer group 'g'"),
    ("no key", ["XNACK s g FAIL IDS 1 1"], "NOGROUP No such key 's' or consumer group 'g'"),
    *(
        (f"refused: {words}", [*TWO, f"XNACK s g {words}"], text)
        for words, text in {
            "NO IDS 1 1": "ERR mode must be SILENT, FAIL, or FATAL",
            "FAIL IDS 3 1 2": "ERR number of IDs doesn't match numids",
            "FAIL IDS 0 1": "ERR numids must be a positive integer",
            "FAIL IDS x 1": "ERR numids must be a positive integer",
            "FAIL IDS 1 1 RETRYCOUNT -1": "ERR Invalid RETRYCOUNT value, must be >= 0",
            "FAIL IDS 1 1 RETRYCOUNT x": "ERR Invalid RETRYCOUNT value, must be >= 0",
            "FAIL IDS 1 1 NOW": "ERR Unrecognized XNACK option 'NOW'",
            "FAIL FORCE RETRYCOUNT 1": "ERR syntax error, expected IDS keyword",
            "FAIL IDS 1 x": INVALID_ID,
        }.items()
    ),
]

CLAIM = "XREADGROUP GROUP g d CLAIM 50 STREAMS s >"


CLAIMS: list[Case] = [
    ("only new", [*TWO, "XADD s 3 f v3", CLAIM], [["s", [claimed(3, 0, 0)]]]),
    ("neither", [*TWO, "WAIT 49", CLAIM], None),
    (
        "the count is shared",
        [*TWO, "WAIT 60", "XADD s 3 f v3", "XREADGROUP GROUP g d COUNT 1 CLAIM 50 STREAMS s >"],
        [["s", [claimed(1, 60, 1)]]],
    ),
    (
        "nacked in order of nacking",
        [*TWO, "XNACK s g FAIL IDS 2 2 1", CLAIM],
        [["s", [claimed(2, 0, 1), claimed(1, 0, 1)]]],
    ),
    (
        "nacked again goes last",
        [*TWO, "XNACK s g FAIL IDS 3 1 2 1", CLAIM],
        [["s", [claimed(2, 0, 1), claimed(1, 0, 1)]]],
    ),
    (
        "one's own too",
        [*TWO, "WAIT 60", "XREADGROUP GROUP g c CLAIM 50 STREAMS s >"],
        [["s", [claimed(1, 60, 1), claimed(2, 60, 1)]]],
    ),
    (
        "zero idle",
        [*TWO, "XREADGROUP GROUP g d CLAIM 0 STREAMS s >"],
        [["s", [claimed(1, 0, 1), claimed(2, 0, 1)]]],
    ),
    (
        "noack: claimed stay pending",
        [
            *TWO,
            "WAIT 60",
            "XADD s 3 f v3",
            "XREADGROUP GROUP g d CLAIM 50 NOACK STREAMS s >",
            PENDING,
        ],
        [["1-0", "d", 0, 2], ["2-0", "d", 0, 2]],
    ),
    (
        "noack: new ones are read",
        [*TWO, "WAIT 60", "XADD s 3 f v3", "XREADGROUP GROUP g d NOACK CLAIM 50 STREAMS s >"],
        [["s", [claimed(1, 60, 1), claimed(2, 60, 1), claimed(3, 0, 0)]]],
    ),
    (
        "history is not claiming",
        [*TWO, "WAIT 60", "XREADGROUP GROUP g d CLAIM 50 STREAMS s 0"],
        [["s", []]],
    ),
    (
        "a count does not go past 63 bits",
        [*TWO, "XNACK s g FATAL IDS 1 1", "XREADGROUP GROUP g d CLAIM 50 STREAMS s >", PENDING],
        [["1-0", "d", 0, I64_MAX], ["2-0", "c", 0, 1]],
    ),
    (
        "a bad time",
        [*TWO, "XREADGROUP GROUP g d CLAIM x STREAMS s >"],
        "ERR min-idle-time is not an integer or out of range",
    ),
    (
        "a negative time",
        [*TWO, "XREADGROUP GROUP g d CLAIM -1 STREAMS s >"],
        "ERR min-idle-time must be a positive integer",
    ),
    (
        "not with xread",
        [*TWO, "XREAD CLAIM 5 STREAMS s 0"],
        "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
    ),
]

OTHER = [*FIVE, "XADD t 1 f v1", "XADD t 2 f v2"]
GROUPS = [*OTHER, GROUP, "XGROUP CREATE t g 0"]

READING: list[Case] = [
    ("maxcount", [*OTHER, "XREAD MAXCOUNT 2 STREAMS s t 0 0"], [["s", entries(1, 2)]]),
    (
        "maxcount over streams",
        [*OTHER, "XREAD MAXCOUNT 6 STREAMS s t 0 0"],
        [["s", entries(1, 2, 3, 4, 5)], ["t", entries(1)]],
    ),
    (
        "maxcount and count",
        [*OTHER, "XREAD COUNT 2 MAXCOUNT 3 STREAMS s t 0 0"],
        [["s", entries(1, 2)], ["t", entries(1)]],
    ),
    ("maxsize: the first always", [*OTHER, "XREAD MAXSIZE 1 STREAMS s t 0 0"], [["s", entries(1)]]),
    ("maxsize: soft", [*OTHER, "XREAD MAXSIZE 40 STREAMS s t 0 0"], [["s", entries(1, 2)]]),
    (
        "maxsize: all",
        [*OTHER, "XREAD MAXSIZE 9999 STREAMS t t 0 1"],
        [["t", entries(1, 2)], ["t", entries(2)]],
    ),
    (
        "group maxcount",
        [*GROUPS, "XREADGROUP GROUP g c MAXCOUNT 2 STREAMS s t > >"],
        [["s", entries(1, 2)]],
    ),
    (
        "what did not go out is not pending",
        [*GROUPS, "XREADGROUP GROUP g c MAXSIZE 1 STREAMS s t > >", PENDING],
        [["1-0", "c", 0, 1]],
    ),
    (
        "nor is it read",
        [
            *GROUPS,
            "XREADGROUP GROUP g c MAXSIZE 1 STREAMS s t > >",
            "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
        ],
        [["s", entries(2)]],
    ),
    (
        "nor in a stream not reached",
        [*GROUPS, "XREADGROUP GROUP g c MAXCOUNT 5 STREAMS s t > >", "XPENDING t g"],
        [0, None, None, None],
    ),
    (
        "claimed and new share maxcount",
        [
            *TWO,
            "WAIT 60",
            "XADD s 3 f v3",
            "XREADGROUP GROUP g d CLAIM 50 MAXCOUNT 1 STREAMS s >",
            PENDING,
        ],
        [["1-0", "d", 0, 2], ["2-0", "c", 60, 1]],
    ),
    ("maxcount zero", ["XREAD MAXCOUNT 0 STREAMS s 0"], "ERR MAXCOUNT must be a positive integer"),
    ("maxcount text", ["XREAD MAXCOUNT x STREAMS s 0"], "ERR MAXCOUNT must be a positive integer"),
    ("maxsize zero", ["XREAD MAXSIZE 0 STREAMS s 0"], "ERR MAXSIZE must be a positive integer"),
    (
        "maxcount below count",
        ["XREAD COUNT 3 MAXCOUNT 2 STREAMS s 0"],
        "ERR MAXCOUNT must be greater than or equal to COUNT",
    ),
    ("+", [*FIVE, "XREAD STREAMS s +"], [["s", entries(5)]]),
    (
        "+ is the last live one",
        [*FIVE, "XDEL s 5", "XREAD COUNT 3 STREAMS s +"],
        [["s", entries(4)]],
    ),
    ("+ without entries", [*FIVE, "XTRIM s MAXLEN 0", "XREAD STREAMS s +"], None),
    ("+ without a key", ["XREAD STREAMS s +"], None),
]

ADD_ENTRY = "XADD s * a 1"

KEYS: list[Case] = [
    ("expire", [ADD_ENTRY, "EXPIRE s 10", "TTL s"], 10),
    ("pexpire", [ADD_ENTRY, "PEXPIRE s 1500", "WAIT 200", "PTTL s"], 1300),
    ("ttl rounds", [ADD_ENTRY, "PEXPIRE s 1499", "TTL s"], 1),
    ("ttl without", [ADD_ENTRY, "TTL s"], -1),
    ("ttl of nothing", ["TTL s"], -2),
    ("expire nothing", ["EXPIRE s 10"], 0),
    ("before", [ADD_ENTRY, "PEXPIRE s 10", "WAIT 9", "EXISTS s"], 1),
    ("over", [ADD_ENTRY, "PEXPIRE s 10", "WAIT 10", "EXISTS s"], 0),
    ("at once", [ADD_ENTRY, "EXPIRE s -1", "EXISTS s"], 0),
    ("persist", [ADD_ENTRY, "EXPIRE s 10", "PERSIST s", "TTL s"], -1),
    ("persist without", [ADD_ENTRY, "PERSIST s"], 0),
    ("nx first", [ADD_ENTRY, "EXPIRE s 10 NX"], 1),
    ("nx again", [ADD_ENTRY, "EXPIRE s 10", "EXPIRE s 20 NX"], 0),
    ("xx without", [ADD_ENTRY, "EXPIRE s 10 XX"], 0),
    ("xx", [ADD_ENTRY, "EXPIRE s 10", "EXPIRE s 20 XX", "TTL s"], 20),
    ("gt without", [ADD_ENTRY, "EXPIRE s 10 GT"], 0),
    ("gt", [ADD_ENTRY, "EXPIRE s 10", "EXPIRE s 20 GT"], 1),
    ("gt less", [ADD_ENTRY, "EXPIRE s 10", "EXPIRE s 5 GT"], 0),
    ("lt without", [ADD_ENTRY, "EXPIRE s 10 LT"], 1),
    ("lt", [ADD_ENTRY, "EXPIRE s 10", "EXPIRE s 5 LT", "TTL s"], 5),
    ("lt more", [ADD_ENTRY, "EXPIRE s 10", "EXPIRE s 20 LT"], 0),
    ("xx lt without", [ADD_ENTRY, "EXPIRE s 10 XX LT"], 0),
    (
        "nx with others",
        [ADD_ENTRY, "EXPIRE s 10 NX GT"],
        "ERR NX and XX, GT or LT options at the same time are not compatible",
    ),
    (
        "gt with lt",
        [ADD_ENTRY, "EXPIRE s 10 GT LT"],
        "ERR GT and LT options at the same time are not compatible",
    ),
    ("another word", [ADD_ENTRY, "EXPIRE s 10 NO"], "ERR Unsupported option NO"),
    ("too far", [ADD_ENTRY, f"EXPIRE s {I64_MAX}"], "ERR invalid expire time in 'expire' command"),
    ("rename keeps the time", [ADD_ENTRY, "EXPIRE s 10", "RENAME s t", "TTL t"], 10),
    (
        "rename over another",
        ["XADD t * b 2", "EXPIRE t 5", ADD_ENTRY, "RENAME s t", "XRANGE t - +"],
        [["1000-0", ["a", "1"]]],
    ),
    (
        "rename over another: its time goes",
        ["XADD t * b 2", "EXPIRE t 5", ADD_ENTRY, "RENAME s t", "TTL t"],
        -1,
    ),
    ("rename nothing", ["RENAME s t"], "ERR no such key"),
    (
        "rename keeps groups",
        [*ALL_READ, "RENAME s t", "XPENDING t g"],
        [5, "1-0", "5-0", [["c", "5"]]],
    ),
    ("scan", ["XADD b * a 1", "XADD a * a 1", "SCAN 0"], ["0", ["a", "b"]]),
    ("scan pages", ["XADD b * a 1", "XADD a * a 1", "SCAN 0 COUNT 1"], ["1", ["a"]]),
    ("scan the next", ["XADD b * a 1", "XADD a * a 1", "SCAN 1 COUNT 1"], ["0", ["b"]]),
    ("scan match", ["XADD b * a 1", "XADD a * a 1", "SCAN 0 MATCH [^a]"], ["0", ["b"]]),
    ("scan type", ["XADD b * a 1", "SCAN 0 TYPE string"], ["0", []]),
    ("scan badly", ["SCAN x"], "ERR invalid cursor"),
    ("scan before the first", ["SCAN -1"], "ERR invalid cursor"),
    ("scan far beyond", ["XADD b * a 1", f"SCAN {2**64 - 1}"], ["0", []]),
    ("scan too far", [f"SCAN {2**64}"], "ERR invalid cursor"),
    ("scan all", ["XADD b * a 1", f"SCAN 0 COUNT {I64_MAX}"], ["0", ["b"]]),
    ("keys of many stars", [f"XADD {'a' * 200} * a 1", "KEYS " + "*a" * 40 + "b"], []),
    ("keys escaped", ["XADD b * a 1", "XADD * * a 1", r"KEYS \*"], ["*"]),
    ("keys", ["XADD b1 * a 1", "XADD c * a 1", "KEYS b?"], ["b1"]),
    ("keys reversed range", ["XADD b1 * a 1", "XADD c * a 1", "KEYS [b-a]*"], ["b1"]),
    ("keys ! is a letter", ["XADD b * a 1", "XADD ! * a 1", "KEYS [!b]"], ["!", "b"]),
    ("keys escaped in a class", ["XADD b * a 1", "XADD ] * a 1", r"KEYS [\]]"], ["]"]),
    ("keys escaped bracket", ["XADD b * a 1", "XADD [b] * a 1", r"KEYS \[b\]"], ["[b]"]),
    ("keys range", ["XADD b1 * a 1", "XADD c * a 1", "KEYS [a-b]*"], ["b1"]),
    (
        "config get",
        ["CONFIG GET stream-node-*"],
        ["stream-node-max-bytes", "4096", "stream-node-max-entries", "3"],
    ),
    (
        "config set",
        ["CONFIG SET stream-idmp-maxsize 7 stream-idmp-duration 5", "CONFIG GET stream-idmp-*"],
        ["stream-idmp-duration", "5", "stream-idmp-maxsize", "7"],
    ),
    (
        "config holds later",
        ["CONFIG SET stream-node-max-entries 2", *FIVE, "XINFO STREAM s | radix-tree-keys"],
        [3],
    ),
    (
        "config leaves what is",
        [
            *FIVE[:3],
            "CONFIG SET stream-node-max-entries 1",
            *FIVE[3:],
            "XINFO STREAM s | radix-tree-keys",
        ],
        [3],
    ),
    (
        "config changes trimming",
        ["CONFIG SET stream-node-max-entries 2", *FIVE, "XTRIM s MAXLEN ~ 1"],
        4,
    ),
    (
        "config idempotency",
        [
            "CONFIG SET stream-idmp-duration 1",
            "XADD s IDMP p i * a 1",
            "WAIT 1001",
            "XADD s IDMP p i * a 1",
        ],
        "2001-0",
    ),
    (
        "config unknown",
        ["CONFIG SET foo 1"],
        "ERR Unknown option or number of arguments for CONFIG SET - 'foo'",
    ),
    (
        "config too much",
        ["CONFIG SET stream-idmp-maxsize 10001"],
        (
            "ERR CONFIG SET failed (possibly related to argument 'stream-idmp-maxsize') - "
            "argument must be between 1 and 10000 inclusive"
        ),
    ),
]

NEWER = {
    "idempotency": IDEMPOTENCY,
    "settings": SETTINGS,
    "trimming": TRIMMING,
    "deleting": DELETING,
    "nack": NACKS,
    "claim": CLAIMS,
    "reading": READING,
    "keys": KEYS,
}
