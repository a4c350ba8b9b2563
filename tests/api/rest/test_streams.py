"""Streams: create, describe, list, change, delete, trim."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headgate.app.settings import Settings
from headgate.engine.limits import DESCRIBED_MAX
from headgate.engine.requests.groups import CreateConsumer
from tests.api.conftest import Live, problem_in, refusal_of, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"


async def names(live: Live, **params: str | int) -> tuple[list[str], str | None]:
    page = (await live.http.get("/v1/streams", params=params)).json()
    return [stream["name"] for stream in page["streams"]], page["next_cursor"]


async def values(live: Live) -> list[str]:
    page = (await live.http.get(f"{ORDERS}/entries")).json()
    return [entry["fields"]["v"] for entry in page["entries"]]


async def append_at(live: Live, *ids: str) -> None:
    entries = [{"id": entry_id, "fields": {"v": entry_id}} for entry_id in ids]
    answer = await live.http.post(f"{ORDERS}/entries/batch", json=entries)
    assert answer.status_code == 201, answer.text


# Create and describe


async def test_a_histogram_says_where_in_time_entries_are(shared: Live) -> None:
    await append_at(shared, "1000-0", "1000-1", "1500-0", "2999-7")
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


async def test_a_histogram_has_a_thousand_buckets_at_most(shared: Live) -> None:
    await append_at(shared, "1-0", "1000000-0")
    histogram = f"{ORDERS}/histogram"

    finest = await shared.http.get(histogram, params={"buckets": 1000})
    finer = await shared.http.get(histogram, params={"buckets": 1001})

    assert len(finest.json()["counts"]) == 1000
    assert problem_in(finer)["errors"][0]["pointer"] == "/query/buckets"


async def test_a_stream_is_created_empty(shared: Live) -> None:
    answer = await shared.http.put(ORDERS, json={"max_length": 10, "max_age_ms": 60_000})

    assert answer.status_code == 201
    stream = answer.json()
    assert stream.pop("epoch") > 0
    assert stream == {
        "name": "orders",
        "length": 0,
        "first_id": None,
        "last_id": "0-0",
        "max_deleted_id": "0-0",
        "closed_at_ms": None,
        "archived_count": 0,
        "archived_first_id": None,
        "entries_added": 0,
        "groups": 0,
        "chunks": 0,
        "hot_bytes": 0,
        "cold_bytes": 0,
        "config": {
            "max_length": 10,
            "max_age_ms": 60_000,
            "idempotency_window_ms": None,
            "idempotency_max": None,
            "archive": False,
            "local_bytes": None,
        },
    }


async def test_creating_a_stream_again_with_the_same_configuration_is_fine(shared: Live) -> None:
    config = {"max_length": 10}

    answers = [await shared.http.put(ORDERS, json=config) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()


async def test_a_stream_can_be_created_without_a_body(shared: Live) -> None:
    answer = await shared.http.put(ORDERS)

    assert answer.status_code == 201
    config = answer.json()["config"]
    assert config.pop("archive") is False
    assert set(config.values()) == {None}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("idempotency_window_ms", 999),
        ("idempotency_window_ms", 86_400_001),
        ("idempotency_max", 0),
        ("idempotency_max", 10_001),
    ],
)
async def test_bounds_of_keys_are_themselves_bounded(shared: Live, field: str, value: int) -> None:
    answer = await shared.http.put(ORDERS, json={field: value})

    assert refusal_of(answer) == (422, "invalid_request", f"/body/{field}")
    assert (await shared.http.get(ORDERS)).status_code == 404


async def test_a_stream_is_described_with_its_first_and_last_entry(shared: Live) -> None:
    await append_at(shared, "1-0", "2-0", "3-0")
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
    await append_at(shared, "1-0", "2-0", "3-0")
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
    await append_at(shared, "1-0", "2-0")
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


async def test_a_full_description_with_count_zero_tells_everything(shared: Live) -> None:
    await append_at(shared, *(f"{ms}-0" for ms in range(1, 31)))

    ten = (await shared.http.get(f"{ORDERS}?full=true")).json()
    everything = (await shared.http.get(f"{ORDERS}?full=true&count=0")).json()

    assert (len(ten["entries"]), len(everything["entries"])) == (10, 30)


async def test_a_name_may_have_anything_but_slashes_and_control_characters(shared: Live) -> None:
    name = "käse & brot? #1 50% 🍞"

    created = await shared.http.put(f"/v1/streams/{quote(name)}")

    assert created.json()["name"] == name
    assert await names(shared) == ([name], None)


# List


async def test_streams_are_listed_by_name_a_page_at_a_time(shared: Live) -> None:
    for name in ("d", "a", "c", "b", "é"):
        await shared.append(name, "1")

    first, cursor = await names(shared, limit=2)
    second, cursor2 = await names(shared, limit=2, cursor=cursor or "")
    third, end = await names(shared, limit=2, cursor=cursor2 or "")

    assert (first, second, third, end) == (["a", "b"], ["c", "d"], ["é"], None)


async def test_a_page_that_is_just_full_is_the_last(shared: Live) -> None:
    await shared.append("a", "1")
    await shared.append("b", "1")

    assert await names(shared, limit=2) == (["a", "b"], None)


async def test_only_streams_with_the_prefix_are_listed(shared: Live) -> None:
    for name in ("log", "orders.eu", "orders.us", "payments"):
        await shared.append(name, "1")

    page, cursor = await names(shared, prefix="orders.", limit=1)
    second, end = await names(shared, prefix="orders.", limit=1, cursor=cursor or "")

    assert (page, second, end) == (["orders.eu"], ["orders.us"], None)


async def test_a_listing_goes_on_although_its_last_stream_is_gone(shared: Live) -> None:
    for name in "abc":
        await shared.append(name, "1")
    _, cursor = await names(shared, limit=2)

    await shared.http.delete("/v1/streams/b")

    assert await names(shared, cursor=cursor or "") == (["c"], None)


# Change


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({}, {"max_length": 10, "max_age_ms": None}),
        ({"max_length": 5}, {"max_length": 5, "max_age_ms": None}),
        ({"max_length": None}, {"max_length": None, "max_age_ms": None}),
        ({"max_age_ms": 1000}, {"max_length": 10, "max_age_ms": 1000}),
    ],
)
async def test_a_patch_changes_what_it_names_and_null_removes(
    shared: Live, patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    await shared.http.put(ORDERS, json={"max_length": 10})

    answer = await shared.http.patch(
        ORDERS, json=patch, headers={"Content-Type": "application/merge-patch+json"}
    )

    config = (await shared.stream("orders"))["config"]
    assert (answer.status_code, answer.json()["config"]) == (200, config)
    assert {name: config[name] for name in expected} == expected


# Delete


# Trim
