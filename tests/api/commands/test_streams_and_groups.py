"""Commands that create, set, show and delete streams, groups and schedules, and settle."""

import json
import time
from typing import Any

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.cli.durations import duration_ms, duration_text
from headgate.app.settings import Settings
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.api.commands.command_line import headgate
from tests.api.conftest import Live, running


async def shown(live: Live, *words: str) -> dict[str, Any]:
    ended = await headgate(live.url, *words, "--json")
    assert ended.code == 0, ended.error
    answer: dict[str, Any] = json.loads(ended.output)
    return answer


async def test_a_stream_is_created_set_and_deleted(live: Live) -> None:
    created = await shown(live, "stream", "create", "orders", "--max-age", "7d")
    changed = await shown(live, "stream", "config", "orders", "--max-length", "10")
    unset = await shown(live, "stream", "config", "orders", "--max-age", "none")
    assert (created["name"], created["length"]) == ("orders", 0)
    assert created["config"] == {**unset, "max_length": None, "max_age_ms": 604_800_000}
    assert (changed["max_length"], changed["max_age_ms"]) == (10, 604_800_000)
    assert (unset["max_length"], unset["max_age_ms"]) == (10, None)
    assert await shown(live, "stream", "delete", "orders") == {"stream": "orders", "deleted": True}
    assert (await headgate(live.url, "stream", "info", "orders")).code == 1


async def test_a_stream_is_closed_behind_a_last_entry(live: Live) -> None:
    await live.append("orders", "1")

    end = await shown(live, "stream", "close", "orders", "v=last")
    again = await shown(live, "stream", "close", "orders")
    info = await shown(live, "stream", "info", "orders")
    odd = await headgate(live.url, "stream", "close", "orders", "last")
    refused = await headgate(live.url, "append", "orders", "v=2")

    assert (info["last_id"], info["closed_at_ms"]) == (end["ids"][0], end["closed_at_ms"])
    assert again == {**end, "ids": []}
    assert odd.code == 2
    assert (refused.code, "is closed" in refused.error) == (1, True)


async def test_a_stream_is_described_line_by_line(live: Live) -> None:
    [entry_id] = await live.append("orders", "1")

    ended = await headgate(live.url, "stream", "info", "orders")

    facts = dict(line.split("\t") for line in ended.lines)
    assert (facts["length"], facts["last_id"], facts["config.max_length"]) == ("1", entry_id, "-")


async def test_a_stream_is_trimmed_by_length_id_or_age(live: Live) -> None:
    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    for number in range(3):
        body = {"id": f"{hour_ago_ms + number}-0", "fields": {"v": "old"}}
        await live.http.post("/v1/streams/orders/entries", json=body)
    ids = await live.append("orders", "1", "2", "3")

    assert await shown(live, "stream", "trim", "orders", "--older-than", "30m") == {"removed": 3}
    assert await shown(live, "stream", "trim", "orders", "--min-id", ids[1]) == {"removed": 1}
    assert await shown(live, "stream", "trim", "orders", "--max-length", "1") == {"removed": 1}
    assert (await headgate(live.url, "stream", "trim", "orders")).code == 2


async def test_what_is_archived_is_read_and_removed() -> None:
    engine = Engine(MemoryStorage(records_max=0), has_bucket=True)
    async with running(Settings(), EmbeddedBackend(engine)) as live:
        options = "--archive", "true", "--max-length", "1"
        created = await shown(live, "stream", "create", "orders", *options)
        ids = await live.append("orders", "1", "2", "3")

        for words in (("read", "orders"), ("tail", "orders", "--no-follow")):
            lines = (await headgate(live.url, *words)).lines
            assert [line.split(" ")[0].split("\t")[0] for line in lines] == ids
        info = await shown(live, "stream", "info", "orders")
        removed = await shown(live, "stream", "trim-archive", "orders", "--before", ids[1])
        bounds = "--before", ids[1], "--older-than", "1s"
        refused = await headgate(live.url, "stream", "trim-archive", "orders", *bounds)
        unset = await shown(live, "stream", "config", "orders", "--archive", "none")

        assert created["config"]["archive"] is True
        assert (info["length"], info["archived_count"], info["archived_first_id"]) == (1, 2, ids[0])
        assert (removed, refused.code, unset["archive"]) == ({"removed": 1}, 2, False)
        assert await shown(live, "stream", "trim-archive", "orders") == {"removed": 1}


async def test_a_group_is_created_set_and_deleted(live: Live) -> None:
    first, _ = await live.append("orders", "1", "2")
    group = ["orders", "billing"]

    created = await shown(live, "group", "create", *group, "--start", first, "--claim-idle", "1m")
    back = await shown(live, "group", "set", *group, "0")
    policy = await shown(live, "group", "policy", *group, "--backoff", "500ms,10s,1m")
    unset = await shown(live, "group", "policy", *group, "--claim-idle", "none")

    assert (created["last_id"], created["lag"]) == (first, 1)
    assert back["lag"] == 2
    assert (policy["backoff_ms"], policy["claim_idle_ms"]) == ([500, 10_000, 60_000], 60_000)
    assert unset.get("claim_idle_ms") is None
    gone = await shown(live, "group", "delete", *group)
    assert gone == {"stream": "orders", "group": "billing", "deleted": True}
    assert (await headgate(live.url, "group", "list", "orders", "--json")).output == ""


async def test_a_group_gets_rules(live: Live) -> None:
    await live.create_group("orders", "billing")
    group = ["orders", "billing"]

    filters = '{"exact":{"kind":"sale"}}'
    ruled = await shown(live, "group", "policy", *group, "--filters", filters, "--rate-per-s", "5")
    paused = await shown(live, "group", "policy", *group, "--paused-until", "2100-01-01T00:00Z")
    goes_on = await shown(live, "group", "policy", *group, "--paused-until", "none")

    assert (ruled["filters"], ruled["rate_per_s"]) == ([{"exact": {"kind": "sale"}}], 5)
    assert paused["paused_until_ms"] == 4_102_444_800_000
    assert "paused_until_ms" not in goes_on
    for flags in (["--filters", "{"], ["--paused-until", "later"], ["--rate-per-s", "x"]):
        assert (await headgate(live.url, "group", "policy", *group, *flags)).code == 2


def test_durations_are_written_with_their_unit() -> None:
    for text, ms in (("500ms", 500), ("45s", 45_000), ("1m", 60_000), ("7d", 604_800_000)):
        assert duration_ms(text) == ms
        assert duration_ms(duration_text(ms)) == ms
    for text in ("", "7", "d", "7 d", "-1d", "1.5h", "7D", "٧d"):
        assert duration_ms(text) is None


SET = ("schedule", "set", "nightly", "jobs", "kind=report", "--cron", "0 2 * * *")


async def test_a_schedule_is_set_paused_run_and_deleted(live: Live) -> None:
    created = await shown(live, *SET, "--time-zone", "Europe/Berlin", "--missed", "skip")
    assert (created["stream"], created["fields"]) == ("jobs", {"kind": "report"})
    assert (created["time_zone"], created["missed"]) == ("Europe/Berlin", "skip")
    assert await shown(live, "schedule", "show", "nightly") == created
    paused = await shown(live, "schedule", "pause", "nightly")
    assert (paused["paused"], paused["next_due_ms"]) == (True, None)
    assert await shown(live, "schedule", "resume", "nightly") == created
    entry_id = (await shown(live, "schedule", "run", "nightly"))["id"]
    assert (await live.stream("jobs"))["last_id"] == entry_id
    assert await headgate(live.url, "schedule", "delete", "nightly") == (0, "", "")
    assert (await headgate(live.url, "schedule", "show", "nightly")).code == 1


async def test_schedules_are_listed_in_columns(live: Live) -> None:
    await shown(live, *SET)
    await shown(live, *SET[:2], "weekly", *SET[3:], "--paused")
    ended = await headgate(live.url, "schedule", "list")
    header, nightly, weekly = (line.split("\t") for line in ended.lines)
    assert header[:4] == ["schedule", "stream", "cron", "time_zone"]
    assert nightly[:4] == ["nightly", "jobs", '"0 2 * * *"', "UTC"]
    assert nightly[4].endswith("T02:00:00Z")
    assert nightly[5:] == ["-", "-", "active"]
    assert weekly[4:] == ["-", "-", "-", "paused"]


async def test_what_makes_no_sense_is_refused(live: Live) -> None:
    ended = await headgate(live.url, *SET[:-1], "0 0 30 2 *")
    assert ended.code == 1
    assert "/body/cron" in ended.error
    assert (await headgate(live.url, *SET[:4], "kind", *SET[5:])).code == 2
    assert (await headgate(live.url, *SET[:5])).code == 2


BILLING = ["orders", "billing"]


@pytest.fixture
async def ids(live: Live) -> list[str]:
    """Append three entries, and make a group that has read nothing."""
    ids = await live.append("orders", "1", "2", "3")
    await headgate(live.url, "group", "create", *BILLING, "--start", "0", "--max-deliveries", "5",
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

    pending = await headgate(live.url, "pending", *BILLING)
    summary = await headgate(live.url, "pending", *BILLING, "--summary", "--json")
    acked = await headgate(live.url, "ack", *BILLING, ids[0])
    again = await headgate(live.url, "ack", *BILLING, ids[0], ids[1], "--json")

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

    await headgate(live.url, "nack", *BILLING, ids[0], "--error", error)
    pending = await headgate(live.url, "pending", *BILLING)
    words = ["--group", "billing", "--consumer", "me", "--json"]
    again = await headgate(live.url, "read", "orders", "--limit", "1", *words)
    await headgate(live.url, "nack", *BILLING, ids[0], "--mode", "fatal")
    dead = await headgate(live.url, "dead-letters", *BILLING, "--json")

    assert pending.lines[1].split("\t")[4] == r'"exit 3: no such\tSKU"'
    assert json.loads(again.output)["last_error"] == error
    [dead_letter] = [json.loads(line) for line in dead.lines]
    assert (dead_letter["error"], dead_letter["fields"]) == (error, {"v": "1"})


async def test_what_is_given_back_comes_again_unless_it_is_delayed(
    live: Live, ids: list[str]
) -> None:
    await taken(live)
    ended = await headgate(live.url, "nack", *BILLING, ids[0], "--mode", "silent")
    assert (ended.code, ended.lines[1]) == (0, f"{ids[0]}\treleased")
    assert await taken(live) == ids[:1]
    await headgate(live.url, "nack", *BILLING, ids[0], "--delay", "1h")
    assert await taken(live, limit=3) == ids[1:]


async def test_entries_are_taken_over_by_id_or_by_idle_time(live: Live, ids: list[str]) -> None:
    await taken(live, limit=3)

    named = await headgate(live.url, "claim", *BILLING, ids[0], "--consumer", "other")
    idle = await headgate(live.url, "claim", *BILLING, "--consumer", "third", "--min-idle", "0ms")
    none = await headgate(live.url, "claim", *BILLING, "--consumer", "me", "--min-idle", "7d")

    assert named.lines == [f"{ids[0]} v=1"]
    assert [line.split()[0] for line in idle.lines] == ids
    assert none == (0, "", "")


async def test_dead_letters_are_shown_and_sent_back(live: Live, ids: list[str]) -> None:
    await taken(live, limit=2)
    await headgate(live.url, "nack", *BILLING, *ids[:2], "--mode", "fatal")

    shown = await headgate(live.url, "dead-letters", *BILLING, "--json")
    table = await headgate(live.url, "dead-letters", *BILLING)
    dead = [json.loads(line) for line in shown.lines]
    first = await headgate(live.url, "redrive", *BILLING, dead[0]["id"])
    others = await headgate(live.url, "redrive", *BILLING, "--all", "--json")

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
    await headgate(live.url, "group", "create", *BILLING)

    ended = await headgate(live.url, "dead-letters", *BILLING)

    assert ended.code == 1
    assert "headgate group policy orders billing --dead-letter-stream STREAM" in ended.error
