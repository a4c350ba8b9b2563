"""XINFO: the fields of a stream, its groups and their consumers, and their order."""

from __future__ import annotations

from typing import Any

from tests.unit.app.redis_syntax.console import FIVE, Console, entries, reply_of
from tests.unit.app.redis_syntax.examples.in_full import HANDED_OUT

HEAD = [
    *("length", "radix-tree-keys", "radix-tree-nodes", "last-generated-id"),
    *("max-deleted-entry-id", "entries-added", "recorded-first-entry-id"),
    *("idmp-duration", "idmp-maxsize", "pids-tracked", "iids-tracked"),
    *("iids-added", "iids-duplicates"),
]


def fields(flat: list[Any]) -> dict[str, Any]:
    return dict(zip(flat[0::2], flat[1::2], strict=True))


async def test_a_stream_is_told_in_sixteen_fields() -> None:
    reply = await reply_of([*FIVE, "XDEL s 2", "XTRIM s MINID 2", "XINFO STREAM s"])
    assert reply[0::2] == [*HEAD, "groups", "first-entry", "last-entry"]
    described = fields(reply)
    assert [described[name] for name in ("length", "radix-tree-keys", "entries-added")] == [3, 2, 5]
    assert (described["last-generated-id"], described["max-deleted-entry-id"]) == ("5-0", "2-0")
    assert described["recorded-first-entry-id"] == "3-0"
    assert [described["first-entry"], described["last-entry"]] == entries(3, 5)


async def test_in_full_each_list_is_cut_by_itself_and_each_count_is_whole() -> None:
    console = Console()
    for number in range(1, 13):
        await console.say(f"XADD s {number} f v{number}")
    await console.say("XGROUP CREATE s g 0")
    await console.say("XREADGROUP GROUP g c STREAMS s >")
    lengths = {}
    for count in ("", "COUNT 1", "COUNT 0", "COUNT -3", "COUNT 99"):
        described = fields(await console.say(f"XINFO STREAM s FULL {count}"))
        group = fields(described["groups"][0])
        consumer = fields(group["consumers"][0])
        assert (described["length"], group["pel-count"], consumer["pel-count"]) == (12, 12, 12)
        lengths[count] = [
            len(entry) for entry in (described["entries"], group["pending"], consumer["pending"])
        ]
    assert lengths == {
        "": [10] * 3,
        "COUNT 1": [1] * 3,
        "COUNT 0": [12] * 3,
        "COUNT -3": [10] * 3,
        "COUNT 99": [12] * 3,
    }


async def test_groups_and_consumers_are_told_in_their_fields() -> None:
    console = Console()
    for line in HANDED_OUT:
        await console.say(line)
    await console.say("WAIT 10")
    _, group = await console.say("XINFO GROUPS s")
    assert group == [
        *("name", "g", "consumers", 3, "pending", 5),
        *("last-delivered-id", "5-0", "entries-read", 5, "lag", 0),
    ]
    assert await console.say("XINFO CONSUMERS s g") == [
        ["name", "a", "pending", 0, "idle", 10, "inactive", -1],
        ["name", "c", "pending", 2, "idle", 15, "inactive", 15],
        ["name", "d", "pending", 1, "idle", 10, "inactive", 10],
    ]
