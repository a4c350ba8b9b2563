"""Deliveries: read as a group, acknowledge, give back, claim, and see what is pending."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, refusal_of, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
BILLING = f"{ORDERS}/groups/billing"


async def prepare(live: Live, *ids: str) -> None:
    """Make a group that has all of these before it."""
    await live.create_group("orders", "billing")
    batch = [{"id": entry_id, "fields": {"v": entry_id}} for entry_id in ids]
    answer = await live.http.post(f"{ORDERS}/entries/batch", json=batch)
    assert answer.status_code == 201, answer.text


async def read(live: Live, consumer: str, **body: Any) -> dict[str, Any]:
    return await live.read_group("orders", "billing", consumer, **body)


async def read_ids(live: Live, consumer: str, **body: Any) -> list[str]:
    return [entry["id"] for entry in (await read(live, consumer, **body))["entries"]]


async def ack(live: Live, ids: list[str], consumer: str = "") -> list[str]:
    return await live.outcomes("ack", "orders", "billing", ids, consumer)


async def nack(live: Live, ids: list[str], consumer: str = "", **body: Any) -> list[str]:
    return await live.outcomes("nack", "orders", "billing", ids, consumer, **body)


async def claim(live: Live, consumer: str, ids: list[str], **body: Any) -> dict[str, Any]:
    return await live.claim("orders", "billing", consumer, ids=ids, **body)


async def pending(live: Live, **params: str | int) -> list[tuple[str, str | None, int]]:
    answer = await live.http.get(f"{BILLING}/pending", params=params)
    assert answer.status_code == 200, answer.text
    entries = answer.json()["pending"]
    return [(entry["id"], entry["consumer"], entry["deliveries"]) for entry in entries]


async def idle_of(live: Live, entry_id: str) -> int:
    answer = await live.http.get(f"{BILLING}/pending", params={"start": entry_id, "limit": 1})
    idle_ms: int = answer.json()["pending"][0]["idle_ms"]
    return idle_ms


# Who is asking


@pytest.mark.parametrize(
    ("query", "header"),
    [("worker", None), (None, "worker"), ("worker", "worker"), ("wörker", "wörker")],
)
async def test_a_consumer_is_named_by_query_or_by_header(
    shared: Live, query: str | None, header: str | None
) -> None:
    await prepare(shared, "1-0")

    answer = await shared.http.post(
        f"{BILLING}/read",
        params={} if query is None else {"consumer": query},
        headers={} if header is None else {b"Headgate-Consumer": header.encode()},
    )

    assert answer.status_code == 200, answer.text
    assert await pending(shared) == [("1-0", query or header, 1)]


@pytest.mark.parametrize("operation", ["read", "ack", "nack", "extend", "claim", "autoclaim"])
async def test_two_names_for_one_consumer_are_a_conflict(shared: Live, operation: str) -> None:
    await prepare(shared, "1-0")
    body = {"ids": ["1-0"], "min_idle_ms": 0}
    wanted = {"read": [], "claim": ["ids", "min_idle_ms"], "autoclaim": ["min_idle_ms"]}

    answer = await shared.http.post(
        f"{BILLING}/{operation}?consumer=a",
        json={name: body[name] for name in wanted.get(operation, ["ids"])},
        headers={"Headgate-Consumer": "b"},
    )

    assert refusal_of(answer) == (400, "consumer_conflict", "/query/consumer")


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("read", {}),
        ("extend", {"ids": ["1-0"]}),
        ("claim", {"ids": ["1-0"], "min_idle_ms": 0}),
        ("autoclaim", {"min_idle_ms": 0}),
    ],
)
async def test_who_wants_entries_has_to_say_who_it_is(
    shared: Live, operation: str, body: dict[str, Any]
) -> None:
    await prepare(shared, "1-0")

    answer = await shared.http.post(f"{BILLING}/{operation}", json=body)

    assert refusal_of(answer) == (400, "consumer_required", "/query/consumer")
    assert await pending(shared) == []


# Read


async def test_a_read_needs_no_body(shared: Live) -> None:
    await prepare(shared, *(f"{ms}-0" for ms in range(1, 16)))

    answer = await shared.http.post(f"{BILLING}/read?consumer=worker")

    reply = answer.json()
    assert len(reply["entries"]) == 10
    assert reply["entries"][0] == {
        "id": "1-0",
        "fields": {"v": "1-0"},
        "deliveries": 1,
        "idle_ms": 0,
    }
    assert (reply["lag"], reply["pending"], reply["state"]) == (5, 10, "live")


async def test_every_entry_goes_to_one_consumer(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0")

    a = await read_ids(shared, "a", limit=2)
    b = await read_ids(shared, "b", limit=2)

    assert (a, b) == (["1-0", "2-0"], ["3-0"])


async def test_an_empty_answer_says_why(shared: Live) -> None:
    await prepare(shared, "1-0")
    await read(shared, "worker")

    reply = await read(shared, "worker")

    assert reply == {"entries": [], "lag": 0, "pending": 1, "state": "caught_up"}


async def test_no_ack_leaves_nothing_pending(shared: Live) -> None:
    await prepare(shared, "1-0")

    assert await read_ids(shared, "worker", no_ack=True) == ["1-0"]
    assert await pending(shared) == []


async def test_a_read_first_acknowledges(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0")
    await read(shared, "worker", limit=2)

    reply = await read(shared, "worker", limit=1, ack=["1-0", "2-0"])

    assert [entry["id"] for entry in reply["entries"]] == ["3-0"]
    assert reply["pending"] == 1


async def test_an_ack_on_a_read_leaves_to_others_what_is_theirs(shared: Live) -> None:
    await prepare(shared, "1-0")
    await read(shared, "other")

    await read(shared, "worker", ack=["1-0"])

    assert await pending(shared) == [("1-0", "other", 1)]


async def test_idle_entries_come_before_new_ones_longest_idle_first(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0", "4-0")
    await read(shared, "crashed", limit=3)
    await claim(shared, "crashed", ["1-0"], idle_ms=50_000)
    await claim(shared, "crashed", ["2-0"], idle_ms=10_000)
    await claim(shared, "crashed", ["3-0"], idle_ms=90_000)

    reply = await read(shared, "worker", claim_idle_ms=30_000)

    assert [
        (entry["id"], entry["deliveries"], entry.get("claimed_from")) for entry in reply["entries"]
    ] == [("3-0", 3, "crashed"), ("1-0", 3, "crashed"), ("4-0", 1, None)]
    assert [entry["idle_ms"] // 1000 for entry in reply["entries"]] == [90, 50, 0]
    assert reply["pending"] == 3


async def test_without_claim_idle_ms_what_others_hold_stays_theirs(shared: Live) -> None:
    await prepare(shared, "1-0")
    await read(shared, "slow")
    await claim(shared, "slow", ["1-0"], idle_ms=10**9)

    assert await read_ids(shared, "worker") == []


async def test_a_history_read_tells_what_one_holds(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0")
    await read(shared, "worker", limit=2)
    await read(shared, "other")

    everything = await read(shared, "worker", **{"from": "0"})
    later = await read(shared, "worker", **{"from": "1-0", "wait_ms": 30_000})
    nothing = await read(shared, "worker", **{"from": "2-0", "wait_ms": 30_000})

    assert [entry["id"] for entry in everything["entries"]] == ["1-0", "2-0"]
    assert [entry["deliveries"] for entry in everything["entries"]] == [2, 2]
    assert [entry["id"] for entry in later["entries"]] == ["2-0"]
    assert (nothing["entries"], nothing["pending"]) == ([], 2)  # at once, although it may wait


async def test_a_history_read_names_what_is_gone_from_the_stream(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0")
    await read(shared, "worker")
    await shared.http.delete(f"{ORDERS}/entries/1-0")

    reply = await read(shared, "worker", **{"from": "0"})

    assert [entry["id"] for entry in reply["entries"]] == ["2-0"]
    assert reply["deleted_ids"] == ["1-0"]
    assert await ack(shared, reply["deleted_ids"], "worker") == ["acked"]


async def test_binary_fields_are_delivered_as_they_are(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    wire = {"fields": {"blob": "/wA="}, "base64": ["blob"]}
    await shared.http.post(f"{ORDERS}/entries", json=wire)

    [delivery] = (await read(shared, "worker"))["entries"]

    assert (delivery["fields"], delivery["base64"]) == ({"blob": "/wA="}, ["blob"])


# Acknowledge


async def test_an_ack_has_an_outcome_per_id(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0", "4-0")
    await read(shared, "worker", limit=2)
    await read(shared, "other", limit=1)

    outcomes = await ack(shared, ["1-0", "3-0", "4-0", "9-0"], "worker")

    assert outcomes == ["acked", "claimed", "not_pending", "not_pending"]
    assert await ack(shared, ["1-0"], "worker") == ["not_pending"]
    assert await pending(shared) == [("2-0", "worker", 1), ("3-0", "other", 1)]


async def test_what_was_claimed_meanwhile_is_not_acknowledged_by_its_old_owner(
    shared: Live,
) -> None:
    await prepare(shared, "1-0")
    await read(shared, "slow")
    await claim(shared, "fast", ["1-0"])

    late = await ack(shared, ["1-0"], "slow")

    assert late == ["claimed"]
    assert await ack(shared, ["1-0"], "fast") == ["acked"]


async def test_an_ack_without_a_name_takes_from_everybody(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0")
    await read(shared, "a", limit=1)
    await read(shared, "b", limit=1)

    assert await ack(shared, ["1-0", "2-0"]) == ["acked", "acked"]
    assert await pending(shared) == []


async def test_what_nobody_owns_anybody_may_acknowledge(shared: Live) -> None:
    await prepare(shared, "1-0")
    await read(shared, "a")
    await nack(shared, ["1-0"], "a")

    assert await ack(shared, ["1-0"], "b") == ["acked"]


# Give back


@pytest.mark.parametrize(("mode", "deliveries"), [("silent", 0), ("fail", 1), ("fatal", 2**63 - 1)])
async def test_the_mode_of_a_nack_says_what_the_delivery_counts(
    shared: Live, mode: str, deliveries: int
) -> None:
    await prepare(shared, "1-0")
    await read(shared, "unwilling")

    assert await nack(shared, ["1-0"], "unwilling", mode=mode) == ["released"]

    assert await pending(shared) == [("1-0", None, deliveries)]
    [again] = (await read(shared, "willing"))["entries"]
    assert again["deliveries"] == min(deliveries + 1, 2**63 - 1)
    assert "claimed_from" not in again


async def test_a_nack_is_fenced_as_an_ack_is(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0")
    await read(shared, "a", limit=1)
    await read(shared, "b", limit=1)

    assert await nack(shared, ["1-0", "2-0", "9-0"], "a") == ["released", "claimed", "not_pending"]
    assert await nack(shared, ["2-0"]) == ["released"]
    assert (await shared.group("orders", "billing"))["released"] == 2


async def test_a_nacked_entry_rests_for_as_long_as_was_asked(shared: Live) -> None:
    await prepare(shared, "1-0")
    await read(shared, "worker")

    assert await nack(shared, ["1-0"], delay_ms=300) == ["released"]

    assert await pending(shared) == [("1-0", None, 1)]
    assert await read_ids(shared, "b") == []
    assert await read_ids(shared, "b", wait_ms=10_000) == ["1-0"]


# Extend


async def test_extending_restarts_the_idle_clock_and_counts_nothing(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0")
    await read(shared, "worker", limit=1)
    await read(shared, "other", limit=1)
    await claim(shared, "worker", ["1-0"], idle_ms=90_000, just_id=True)
    assert await idle_of(shared, "1-0") >= 90_000

    outcomes = await shared.outcomes("extend", "orders", "billing", ["1-0", "2-0", "3-0"], "worker")

    assert outcomes == ["extended", "claimed", "not_pending"]
    assert await idle_of(shared, "1-0") < 90_000
    assert await pending(shared, consumer="worker") == [("1-0", "worker", 1)]


# Claim


async def test_a_claim_takes_what_has_been_idle_long_enough(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0")
    await read(shared, "crashed", limit=2)
    await claim(shared, "crashed", ["2-0"], idle_ms=90_000, just_id=True)

    claimed = await claim(shared, "rescuer", ["1-0", "2-0", "3-0"], min_idle_ms=30_000)

    assert (claimed["ids"], claimed["deleted_ids"]) == (["2-0"], [])
    [delivery] = claimed["entries"]
    assert (delivery["fields"], delivery["deliveries"]) == ({"v": "2-0"}, 2)
    assert (delivery["claimed_from"], delivery["idle_ms"] // 1000) == ("crashed", 90)
    assert await pending(shared) == [("1-0", "crashed", 1), ("2-0", "rescuer", 2)]


async def test_a_claim_of_ids_only_does_not_count(shared: Live) -> None:
    await prepare(shared, "1-0")
    await read(shared, "a")

    claimed = await claim(shared, "b", ["1-0"], just_id=True)

    assert claimed == {"ids": ["1-0"], "deleted_ids": []}
    assert await pending(shared) == [("1-0", "b", 1)]


async def test_a_claim_sets_the_count_and_the_idle_time(shared: Live) -> None:
    await prepare(shared, "1-0")
    await read(shared, "a")

    await claim(shared, "b", ["1-0"], retry_count=7, idle_ms=60_000)
    assert await pending(shared) == [("1-0", "b", 7)]
    assert 60_000 <= await idle_of(shared, "1-0") < 90_000

    await claim(shared, "b", ["1-0"], time_ms=1000)
    assert await idle_of(shared, "1-0") > 10**12  # since 1970


async def test_a_forced_claim_makes_live_entries_pending(shared: Live) -> None:
    await prepare(shared, "1-0")

    plain = await claim(shared, "a", ["1-0", "9-0"])
    forced = await claim(shared, "a", ["1-0", "9-0"], force=True)

    assert (plain["ids"], forced["ids"]) == ([], ["1-0"])
    assert [entry[:2] for entry in await pending(shared)] == [("1-0", "a")]


async def test_a_claim_clears_away_what_is_gone_from_the_stream(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0")
    await read(shared, "a")
    await shared.http.delete(f"{ORDERS}/entries/1-0")

    claimed = await claim(shared, "b", ["1-0", "2-0"])

    assert (claimed["ids"], claimed["deleted_ids"]) == (["2-0"], ["1-0"])
    assert [entry["id"] for entry in claimed["entries"]] == ["2-0"]
    assert [entry[0] for entry in await pending(shared)] == ["2-0"]


async def test_a_claim_has_no_more_than_an_answer_may_have(tmp_path: Path) -> None:
    async with running(Settings(data_dir=tmp_path, read_bytes_max=65_536)) as live:
        await live.create_group("orders", "billing")
        ids = await live.append("orders", *["v" * 30_000] * 3)
        for _ in ids:
            await read(live, "crashed")
        claimed = await claim(live, "rescuer", ids)
        page = await autoclaim(live, "rescuer")
        held = await pending(live, consumer="rescuer")

    assert claimed["ids"] == page["ids"] == [entry_id for entry_id, *_ in held] == ids[:2]
    assert page["next"] == ids[2]


# Autoclaim


async def autoclaim(live: Live, consumer: str, **body: Any) -> dict[str, Any]:
    answer = await live.http.post(
        f"{BILLING}/autoclaim?consumer={consumer}", json={"min_idle_ms": 0, **body}
    )
    assert answer.status_code == 200, answer.text
    reply: dict[str, Any] = answer.json()
    return reply


async def test_an_autoclaim_takes_everything_a_page_at_a_time(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0")
    await read(shared, "crashed")

    first = await autoclaim(shared, "rescuer", limit=2)
    second = await autoclaim(shared, "rescuer", limit=2, start=first["next"])

    assert (first["ids"], first["next"]) == (["1-0", "2-0"], "3-0")
    assert (second["ids"], second["next"]) == (["3-0"], "0-0")
    assert [entry["claimed_from"] for entry in first["entries"]] == ["crashed"] * 2
    assert await pending(shared) == [(f"{ms}-0", "rescuer", 2) for ms in (1, 2, 3)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("2-0", ["2-0", "3-0"]), ("(2-0", ["3-0"]), ("-", ["1-0", "2-0", "3-0"])],
)
async def test_an_autoclaim_begins_where_it_is_told(
    shared: Live, start: str, expected: list[str]
) -> None:
    await prepare(shared, "1-0", "2-0", "3-0")
    await read(shared, "crashed")

    claimed = await autoclaim(shared, "rescuer", start=start, just_id=True)

    assert claimed == {"ids": expected, "deleted_ids": [], "next": "0-0"}


async def test_an_autoclaim_leaves_what_is_not_idle_and_clears_what_is_gone(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0")
    await read(shared, "crashed")
    await claim(shared, "crashed", ["2-0"], idle_ms=90_000)
    await shared.http.delete(f"{ORDERS}/entries/3-0")

    claimed = await autoclaim(shared, "rescuer", min_idle_ms=30_000)

    assert (claimed["ids"], claimed["deleted_ids"]) == (["2-0"], ["3-0"])
    assert [entry[:2] for entry in await pending(shared)] == [
        ("1-0", "crashed"),
        ("2-0", "rescuer"),
    ]


# What is pending


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["1-0", "2-0", "3-0", "4-0"]),
        ({"limit": 2}, ["1-0", "2-0"]),
        ({"start": "2-0", "end": "3-0"}, ["2-0", "3-0"]),
        ({"start": "(2-0"}, ["3-0", "4-0"]),
        ({"end": "(3-0"}, ["1-0", "2-0"]),
        ({"start": "-", "end": "+"}, ["1-0", "2-0", "3-0", "4-0"]),
        ({"consumer": "b"}, ["3-0"]),
        ({"consumer": "ghost"}, []),
        ({"min_idle_ms": 30_000}, ["1-0", "4-0"]),  # what nobody owns waits for nobody
        ({"min_idle_ms": 30_000, "consumer": "a"}, ["1-0"]),
    ],
)
async def test_pending_entries_are_listed_by_id(
    shared: Live, params: dict[str, str | int], expected: list[str]
) -> None:
    await prepare(shared, "1-0", "2-0", "3-0", "4-0")
    await read(shared, "a", limit=2)
    await read(shared, "b", limit=1)
    await read(shared, "c", limit=1)
    await nack(shared, ["4-0"])
    await claim(shared, "a", ["1-0"], idle_ms=90_000)

    assert [entry[0] for entry in await pending(shared, **params)] == expected


async def test_a_pending_entry_is_told_with_who_holds_it_and_for_how_long(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0")
    await read(shared, "a")
    await nack(shared, ["2-0"])

    [held, released] = (await shared.http.get(f"{BILLING}/pending")).json()["pending"]

    assert 0 <= held.pop("idle_ms") < 10_000
    assert held == {"id": "1-0", "consumer": "a", "deliveries": 1}
    assert released == {"id": "2-0", "consumer": None, "idle_ms": None, "deliveries": 1}


async def test_the_summary_counts_by_consumer(shared: Live) -> None:
    await prepare(shared, "1-0", "2-0", "3-0", "4-0")
    await read(shared, "b", limit=2)
    await read(shared, "a", limit=1)
    await read(shared, "c", limit=1)
    await nack(shared, ["4-0"])

    summary = (await shared.http.get(f"{BILLING}/pending/summary")).json()

    assert summary == {
        "count": 4,
        "min_id": "1-0",
        "max_id": "4-0",
        "consumers": [{"name": "a", "pending": 1}, {"name": "b", "pending": 2}],
        "consumers_left_out": 0,
    }


async def test_the_summary_of_nothing_is_empty(shared: Live) -> None:
    await shared.create_group("orders", "billing")

    summary = (await shared.http.get(f"{BILLING}/pending/summary")).json()

    bounds = {"min_id": None, "max_id": None}
    assert summary == {"count": 0, **bounds, "consumers": [], "consumers_left_out": 0}


# Together


async def test_many_workers_do_all_the_work_once(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    numbers = [str(number) for number in range(200)]
    await shared.append("orders", *numbers)
    done: list[str] = []

    async def work(name: str) -> None:
        settled: list[str] = []
        while (reply := await read(shared, name, limit=7, ack=settled))["entries"]:
            settled = [entry["id"] for entry in reply["entries"]]
            done.extend(entry["fields"]["v"] for entry in reply["entries"])

    await asyncio.gather(*(work(f"worker-{index}") for index in range(8)))

    assert sorted(done, key=int) == numbers
    group = await shared.group("orders", "billing")
    assert (group["pending"], group["lag"], group["consumers"]) == (0, 0, 8)
