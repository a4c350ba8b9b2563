"""The commands that read entries and settle them, each by hand."""

import json

import pytest

from tests.api.commands.command_line import headgate
from tests.api.conftest import Live

GROUP = ["orders", "billing"]


@pytest.fixture
async def ids(live: Live) -> list[str]:
    """Append three entries, and make a group that has read nothing."""
    ids = await live.append("orders", "1", "2", "3")
    await headgate(live.url, "group", "create", *GROUP, "--start", "0", "--max-deliveries", "5",
                  "--dead-letter-stream", "dead")  # fmt: skip
    return ids


async def taken(live: Live, limit: int = 1, consumer: str = "me") -> list[str]:
    words = ["--group", "billing", "--consumer", consumer, "--limit", str(limit)]
    ended = await headgate(live.url, "read", "orders", *words)
    assert ended.code == 0, ended.error
    return [line.split()[0] for line in ended.lines]


async def test_a_range_is_read_forwards_and_backwards(live: Live, ids: list[str]) -> None:
    first, second, third = ids

    everything = await headgate(live.url, "read", "orders")
    later = await headgate(live.url, "read", "orders", "--after", first, "--limit", "1")
    back = await headgate(live.url, "read", "orders", "--end", second, "--reverse", "--json")
    waited = await headgate(live.url, "read", "orders", "--after", third, "--wait", "20ms")
    assert waited == (0, "", "")

    assert everything.lines == [f"{first} v=1", f"{second} v=2", f"{third} v=3"]
    assert later.lines == [f"{second} v=2"]
    assert [json.loads(line)["id"] for line in back.lines] == [second, first]


async def test_what_was_delivered_is_pending_until_its_ack(live: Live, ids: list[str]) -> None:
    assert await taken(live, limit=2) == ids[:2]

    pending = await headgate(live.url, "pending", *GROUP)
    summary = await headgate(live.url, "pending", *GROUP, "--summary", "--json")
    acked = await headgate(live.url, "ack", *GROUP, ids[0])
    again = await headgate(live.url, "ack", *GROUP, ids[0], ids[1], "--json")

    header, *lines = [line.split("\t") for line in pending.lines]
    assert header[:4] == ["id", "consumer", "idle_ms", "deliveries"]
    assert header[4:] == ["last_error", "waits_for", "delay_ms"]
    assert [(line[0], line[1], *line[3:]) for line in lines] == [
        (entry_id, "me", "1", "-", "-", "-") for entry_id in ids[:2]
    ]
    assert json.loads(summary.output)["consumers"] == [{"name": "me", "pending": 2}]
    assert (acked.code, acked.lines[1]) == (0, f"{ids[0]}\tacked")
    assert again.code == 1, "one of them was not pending"
    assert [json.loads(line)["outcome"] for line in again.lines] == ["not_pending", "acked"]


async def test_an_error_is_shown_with_the_entry_and_its_dead_letter(
    live: Live, ids: list[str]
) -> None:
    await taken(live)
    error = "exit 3: no such\tSKU"

    await headgate(live.url, "nack", *GROUP, ids[0], "--error", error)
    pending = await headgate(live.url, "pending", *GROUP)
    words = ["--group", "billing", "--consumer", "me", "--json"]
    again = await headgate(live.url, "read", "orders", "--limit", "1", *words)
    await headgate(live.url, "nack", *GROUP, ids[0], "--mode", "fatal")
    dead = await headgate(live.url, "dead-letters", *GROUP, "--json")

    assert pending.lines[1].split("\t")[4] == r'"exit 3: no such\tSKU"'
    assert json.loads(again.output)["last_error"] == error
    [dead_letter] = [json.loads(line) for line in dead.lines]
    assert (dead_letter["error"], dead_letter["fields"]) == (error, {"v": "1"})


async def test_what_is_given_back_comes_again_unless_it_is_delayed(
    live: Live, ids: list[str]
) -> None:
    await taken(live)
    ended = await headgate(live.url, "nack", *GROUP, ids[0], "--mode", "silent")
    assert (ended.code, ended.lines[1]) == (0, f"{ids[0]}\treleased")
    assert await taken(live) == ids[:1]
    await headgate(live.url, "nack", *GROUP, ids[0], "--delay", "1h")
    assert await taken(live, limit=3) == ids[1:]


async def test_entries_are_taken_over_by_id_or_by_idle_time(live: Live, ids: list[str]) -> None:
    await taken(live, limit=3)

    named = await headgate(live.url, "claim", *GROUP, ids[0], "--consumer", "other")
    idle = await headgate(live.url, "claim", *GROUP, "--consumer", "third", "--min-idle", "0ms")
    none = await headgate(live.url, "claim", *GROUP, "--consumer", "me", "--min-idle", "7d")

    assert named.lines == [f"{ids[0]} v=1"]
    assert [line.split()[0] for line in idle.lines] == ids
    assert none == (0, "", "")


async def test_dead_letters_are_shown_and_sent_back(live: Live, ids: list[str]) -> None:
    await taken(live, limit=2)
    await headgate(live.url, "nack", *GROUP, *ids[:2], "--mode", "fatal")

    shown = await headgate(live.url, "dead-letters", *GROUP, "--json")
    table = await headgate(live.url, "dead-letters", *GROUP)
    dead = [json.loads(line) for line in shown.lines]
    first = await headgate(live.url, "redrive", *GROUP, dead[0]["id"])
    others = await headgate(live.url, "redrive", *GROUP, "--all", "--json")

    assert [(item["entry_id"], item["fields"]) for item in dead] == [
        (ids[0], {"v": "1"}),
        (ids[1], {"v": "2"}),
    ]
    columns = ["id", "entry_id", "deliveries", "reason", "error", "fields"]
    assert table.lines[0].split("\t") == columns
    assert first.code == 0
    assert [json.loads(line)["entry_id"] for line in others.lines] == [ids[1]]
    assert set(await taken(live, limit=3)) == set(ids)


async def test_a_group_without_dead_letters_says_how_to_keep_them(live: Live) -> None:
    await live.append("orders", "1")
    await headgate(live.url, "group", "create", *GROUP)

    ended = await headgate(live.url, "dead-letters", *GROUP)

    assert ended.code == 1
    assert "headgate group policy orders billing --dead-letter-stream STREAM" in ended.error
