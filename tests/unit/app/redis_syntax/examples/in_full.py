"""A stream with all that can be below it, and what XINFO STREAM FULL tells of it."""

from __future__ import annotations

from tests.unit.app.redis_syntax.console import ALL_READ, entries

# c holds 1 and 4, d holds 5, nobody holds 2 and 3.
HANDED_OUT = [
    *ALL_READ,
    *("WAIT 5", "XCLAIM s g d 0 5", "XNACK s g FAIL IDS 2 3 2", "XGROUP CREATECONSUMER s g a"),
    "XGROUP CREATE s f 3",
]

IN_FULL = [
    *("length", 5, "radix-tree-keys", 2, "radix-tree-nodes", 3, "last-generated-id", "5-0"),
    *("max-deleted-entry-id", "0-0", "entries-added", 5, "recorded-first-entry-id", "1-0"),
    *("idmp-duration", 100, "idmp-maxsize", 100, "pids-tracked", 0, "iids-tracked", 0),
    *("iids-added", 0, "iids-duplicates", 0, "entries", entries(1, 2, 3, 4, 5)),
    "groups",
    [
        [
            *("name", "f", "last-delivered-id", "3-0", "entries-read", None, "lag", None),
            *("pel-count", 0, "nacked-count", 0, "pending", [], "consumers", []),
        ],
        [
            *("name", "g", "last-delivered-id", "5-0", "entries-read", 5, "lag", 0),
            *("pel-count", 5, "nacked-count", 2),
            "pending",
            [
                *(["1-0", "c", 1000, 1], ["2-0", "", 0, 1], ["3-0", "", 0, 1]),
                *(["4-0", "c", 1000, 1], ["5-0", "d", 1005, 2]),
            ],
            "consumers",
            [
                ["name", "a", "seen-time", 1005, "active-time", -1, "pel-count", 0, "pending", []],
                [
                    *("name", "c", "seen-time", 1000, "active-time", 1000, "pel-count", 2),
                    *("pending", [["1-0", 1000, 1], ["4-0", 1000, 1]]),
                ],
                [
                    *("name", "d", "seen-time", 1005, "active-time", 1005, "pel-count", 1),
                    *("pending", [["5-0", 1005, 2]]),
                ],
            ],
        ],
    ],
]
"""The reply of XINFO STREAM FULL about it."""
