"""Streams: create, describe, list, change, delete, trim."""

from pathlib import Path

import pytest

from headgate.app.settings import Settings
from headgate.engine.config import StreamConfig, settings_of
from headgate.engine.limits import DESCRIBED_MAX
from headgate.engine.requests.groups import CreateConsumer
from tests.api.conftest import Live, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"


async def names(live: Live, **params: str | int) -> tuple[list[str], str | None]:
    page = (await live.http.get("/v1/streams", params=params)).json()
    return [stream["name"] for stream in page["streams"]], page["next_cursor"]


# Create and describe


async def test_a_histogram_says_where_in_time_entries_are(shared: Live) -> None:
    await shared.append_at("orders", "1000-0", "1000-1", "1500-0", "2999-7")
    histogram = f"{ORDERS}/histogram"

    whole = await shared.http.get(histogram, params={"buckets": 4})
    part = await shared.http.get(
        histogram, params={"start": "(1000-0", "end": "1999", "buckets": 2}
    )

    assert whole.json() == {
        "from_ms": 1000,
        "to_ms": 2999,
        "bucket_ms": 500,
        "counts": [2, 1, 0, 1],
    }
    assert part.json() == {"from_ms": 1000, "to_ms": 1999, "bucket_ms": 500, "counts": [1, 1]}


async def test_a_stream_is_created_empty(shared: Live) -> None:
    config = {"max_length": 10, "max_age_ms": 60_000}
    answer, again = [await shared.http.put(ORDERS, json=config) for _ in range(2)]
    assert (answer.status_code, again.status_code) == (201, 200)
    assert again.json() == answer.json()
    stream = answer.json()
    assert stream.pop("epoch") > 0
    flags = {"archive": False, "compact_unread": False}
    described = dict.fromkeys(settings_of(StreamConfig)) | flags | config
    assert stream == {
        "name": "orders",
        "length": 0,
        "entries_added": 0,
        "groups": 0,
        "closed_at_ms": None,
        "first_id": None,
        "last_id": "0-0",
        "max_deleted_id": "0-0",
        "archived_count": 0,
        "archived_first_id": None,
        "chunks": 0,
        "hot_bytes": 0,
        "cold_bytes": 0,
        "config": described,
    }
    assert (await shared.http.put("/v1/streams/plain")).status_code == 201  # without a body


async def test_a_stream_is_described_with_its_first_and_last_entry(shared: Live) -> None:
    await shared.append_at("orders", "1-0", "2-0", "3-0")
    await shared.http.delete(f"{ORDERS}/entries/2-0")

    answer = await shared.http.get(ORDERS)

    stream = answer.json()
    assert (stream["length"], stream["entries_added"]) == (2, 3)
    assert (stream["first_id"], stream["last_id"]) == ("1-0", "3-0")
    assert stream["max_deleted_id"] == "2-0"
    assert stream["first_entry"] == {"id": "1-0", "fields": {"v": "1-0"}}
    assert stream["last_entry"] == {"id": "3-0", "fields": {"v": "3-0"}}
    assert "entries" not in stream
    assert answer.headers["ETag"] == '"3-0"'


async def test_a_full_description_tells_entries_groups_consumers_and_what_is_pending(
    shared: Live,
) -> None:
    await shared.append_at("orders", "1-0", "2-0", "3-0")
    await shared.create_group("orders", "billing")
    await shared.read_group("orders", "billing", "worker", limit=2)

    stream = (await shared.http.get(f"{ORDERS}?full=true&count=1")).json()

    assert [entry["id"] for entry in stream["entries"]] == ["1-0"]
    [group] = stream["group_details"]
    assert (group["name"], group["pending"], group["lag"]) == ("billing", 2, 1)
    assert [entry["id"] for entry in group["pending_entries"]] == ["1-0"]
    assert [(consumer["name"], consumer["pending"]) for consumer in group["consumer_details"]] == [
        ("worker", 2)
    ]


async def test_a_full_description_counts_what_it_leaves_out(shared: Live) -> None:
    await shared.append_at("orders", "1-0", "2-0")
    for group in ("a", "b"):
        await shared.create_group("orders", group)
    await shared.read_group("orders", "a", "worker", limit=2)
    backend = shared.gateway.backend
    for number in range(DESCRIBED_MAX):
        await backend.perform(CreateConsumer(b"orders", b"a", b"%d" % number))

    stream = (await shared.http.get(f"{ORDERS}?full=true&count=1")).json()

    a, b = stream["group_details"]
    assert stream["groups_left_out"] == 0
    assert (len(a["pending_entries"]), a["pending"]) == (1, 2)
    assert len(a["consumer_details"]) == DESCRIBED_MAX - 3  # two groups and a pending entry
    assert (a["consumers_left_out"], a["consumers"]) == (4, DESCRIBED_MAX + 1)
    assert (b["consumer_details"], b["consumers_left_out"], b["pending"]) == ([], 0, 0)


async def test_a_full_description_has_fewer_entries_if_they_are_large(tmp_path: Path) -> None:
    async with running(Settings(data_dir=tmp_path, read_bytes_max=65_536)) as live:
        for _ in range(3):
            await live.append("orders", "v" * 30_000)
        stream = (await live.http.get(f"{ORDERS}?full=true")).json()

    assert (len(stream["entries"]), stream["length"]) == (2, 3)


# List


async def test_streams_are_listed_by_name_a_page_at_a_time(shared: Live) -> None:
    for name in ("log", "orders.us", "orders.de", "orders.é", "orders.eu", "payments"):
        await shared.append(name, "1")
    page, cursor = await names(shared, prefix="orders.", limit=2)
    await shared.http.delete("/v1/streams/orders.eu")  # where the cursor is
    second, end = await names(shared, prefix="orders.", limit=2, cursor=cursor or "")
    assert page == ["orders.de", "orders.eu"]
    assert (second, end) == (["orders.us", "orders.é"], None)  # just full


# Change


async def test_a_patch_changes_what_it_names_and_null_removes(shared: Live) -> None:
    await shared.http.put(ORDERS, json={"max_length": 10})
    headers = {"Content-Type": "application/merge-patch+json"}
    for patch, expected in (
        ({}, (10, None)),
        ({"max_age_ms": 1000}, (10, 1000)),
        ({"max_length": None}, (None, 1000)),
    ):
        answer = await shared.http.patch(ORDERS, json=patch, headers=headers)
        config = (await shared.stream("orders"))["config"]
        assert (answer.status_code, answer.json()["config"]) == (200, config)
        assert (config["max_length"], config["max_age_ms"]) == expected
