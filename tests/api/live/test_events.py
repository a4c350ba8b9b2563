"""Event streams: what a browser's EventSource sees."""

import json
from urllib.parse import quote

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, refusal_of, running
from tests.api.live.event_source import events_of, lines_of, until_line
from tests.conditions import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def ack(live: Live, consumer: str, ids: list[str]) -> list[str]:
    return await live.outcomes("ack", "orders", "billing", ids, consumer)


STREAM = "/v1/streams/orders/events"
GROUP = "/v1/streams/orders/groups/billing/events"


async def test_a_stream_is_sent_from_the_cursor_on_and_then_live(shared: Live) -> None:
    ids = await shared.append("orders", "1", "2", "3")

    async with events_of(shared, f"{STREAM}?after={ids[0]}") as events:
        assert await events.next("ready") == {"position": ids[0], "resumed": False, "gap": None}
        assert await events.entries(2) == ids[1:]
        assert await events.next("caught_up") == {"at": ids[2]}

        [new] = await shared.append("orders", "4")
        assert await events.next("entry") == {"id": new, "fields": {"v": "4"}}


async def test_without_a_cursor_only_what_is_new_is_sent(shared: Live) -> None:
    [old] = await shared.append("orders", "old")

    async with events_of(shared, STREAM) as events:
        assert (await events.next("ready"))["position"] == old
        await events.next("caught_up")
        [new] = await shared.append("orders", "new")
        assert await events.entries(1) == [new]


@pytest.mark.parametrize("how", ["header", "last_event_id", "lastEventId"])
async def test_a_browser_that_connects_again_continues_where_it_was(shared: Live, how: str) -> None:
    ids = await shared.append("orders", "1", "2")
    headers = {"Last-Event-ID": ids[0]} if how == "header" else {}
    query = "?after=$" if how == "header" else f"?{how}={ids[0]}"

    async with events_of(shared, STREAM + query, **headers) as events:
        assert (await events.next("ready"))["resumed"] is True
        assert await events.entries(1) == ids[1:]


SALES = quote(json.dumps({"prefix": {"v": "sale"}}))


@pytest.mark.parametrize(
    "url",
    [
        *(STREAM, f"{STREAM}?after=$", f"{STREAM}?after=0", f"{STREAM}?filter={SALES}"),
        *("/v1/events?match=ord*", f"/v1/events?match=ord*&filter={SALES}"),
    ],
)
@pytest.mark.parametrize("before", ["event: ready", "event: caught_up", ": heartbeat"])
async def test_a_connection_without_an_entry_is_continued_where_it_began(
    before: str, url: str
) -> None:
    async with running(Settings(heartbeat_ms=100)) as live:
        await live.http.put("/v1/streams/orders", json={})
        last_id = await last_id_behind(live, url, before)
        await live.append("orders", "sale")
        async with lines_of(live, url, **{"Last-Event-ID": last_id}) as lines:
            assert '"resumed":true' in "".join(await until_line(lines, ""))
            assert '"v":"sale"' in "".join(await until_line(lines, ""))


async def test_heartbeats_come_behind_what_was_sent_to_all_who_wait_together() -> None:
    async with running(Settings(heartbeat_ms=100)) as live:
        await live.append("orders", "1")
        async with lines_of(live, STREAM) as lines, events_of(live, STREAM) as events:
            await events.next("ready", "caught_up")
            await until_line(lines, "event: caught_up")
            for value in "23":
                await until_line(lines, ": heartbeat")
                await until(lambda: live.gateway.fan_out.waiter_count == 1)  # the other one reads
                [new] = await live.append("orders", value)
                assert await events.entries(1) == [new]
                await until_line(lines, "event: entry")
                await until_line(lines, ": heartbeat")
                assert await until_line(lines, "") == [f"id: {new}"]


async def test_coming_back_acknowledges_nothing_that_a_group_has_not_sent(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    await shared.append("orders", "1", "2")
    await shared.read_group("orders", "billing", "me", limit=2)
    url = f"{GROUP}?consumer=me&ack=on_reconnect"

    last_id = await last_id_behind(shared, url, "event: ready")
    async with events_of(shared, url, **{"Last-Event-ID": last_id}) as events:
        ready = await events.next("ready")
        assert (ready["resumed"], ready["consumer"]) == (True, "me")
        assert (await events.next("entry"))["deliveries"] == 3  # what is its own comes again
        await events.entries(1)


async def last_id_behind(live: Live, url: str, line: str) -> str:
    """Return the id that `EventSource` keeps behind the event or comment with this line."""
    last_id = ""
    async with lines_of(live, url, Accept="text/event-stream") as lines:
        while True:
            block = await until_line(lines, "")
            last_id = "".join(each[4:] for each in block if each.startswith("id: ")) or last_id
            if line in block or (line == ": heartbeat" and "event: position" in block):
                return last_id


async def test_events_are_neither_cached_nor_buffered_and_keep_the_connection_open(
    shared: Live,
) -> None:
    await shared.append("orders", "1")
    async with shared.http.stream("GET", STREAM) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert answer.headers["x-accel-buffering"] == "no"
        lines = answer.aiter_lines()
        seen = [await anext(lines) for _ in range(10)]
    assert any(line.startswith("retry: ") for line in seen)
    assert ": heartbeat" in seen


async def test_a_group_sends_no_more_than_the_credit_until_entries_are_acknowledged(
    shared: Live,
) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", *"abcdef")

    async with events_of(shared, f"{GROUP}?consumer=me&credit=2") as events:
        await events.next("ready")
        assert await events.entries(2) == ids[:2]
        assert (await shared.group("orders", "billing"))["pending"] == 2
        await shared.until_waiting(1)
        await ack(shared, "me", ids[:1])
        assert await events.entries(1) == ids[2:3]
        await ack(shared, "me", ids[1:3])
        assert await events.entries(2) == ids[3:5]


async def test_a_nameless_consumer_is_removed_with_its_connection(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", "1")
    async with events_of(shared, GROUP) as events:
        name = (await events.next("ready"))["consumer"]
        await events.entries(1)
        listed = (await shared.http.get("/v1/streams/orders/groups/billing/consumers")).json()
        assert [consumer["name"] for consumer in listed["consumers"]] == [name]

    got = await shared.read_group("orders", "billing", "next", wait_ms=5000)
    assert [entry["id"] for entry in got["entries"]] == ids
    listed = (await shared.http.get("/v1/streams/orders/groups/billing/consumers")).json()
    assert [consumer["name"] for consumer in listed["consumers"]] == ["next"]


IMAGE = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
PAGE = {"Accept": "text/event-stream", "User-Agent": "Mozilla/5.0"}


@pytest.mark.parametrize(
    ("headers", "status", "pointer"),
    [
        ({}, 406, "/header/Accept"),
        ({"Accept": "*/*"}, 406, "/header/Accept"),
        ({"Accept": "text/*"}, 406, "/header/Accept"),
        ({"Accept": IMAGE, "User-Agent": "Mozilla/5.0"}, 406, "/header/Accept"),
        (PAGE, 403, "/header/Referer"),
        (PAGE | {"Referer": "http://evil.example/"}, 403, "/header/Referer"),
        (PAGE | {"Referer": "http://[evil"}, 403, "/header/Referer"),
        (PAGE | {"Sec-Fetch-Site": "cross-site"}, 403, ""),
        (PAGE | {"Origin": "http://evil.example"}, 403, ""),
    ],
)
async def test_what_a_page_of_another_site_embeds_or_fetches_takes_nothing(
    shared: Live, headers: dict[str, str], status: int, pointer: str
) -> None:
    await shared.create_group("orders", "billing")
    await shared.append("orders", "1")
    answer = await shared.http.get(f"{GROUP}?consumer=me&ack=on_receipt", headers=headers)
    assert refusal_of(answer)[::2] == (status, pointer)
    group = await shared.group("orders", "billing")
    assert (group["pending"], group["lag"], group["consumers"]) == (0, 1, 0)


async def test_a_page_of_the_gateway_itself_may_read_as_a_consumer(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", "1")
    for proof in ({"Referer": f"{shared.url}/page"}, {"Sec-Fetch-Site": "same-origin"}):
        async with events_of(shared, f"{GROUP}?consumer=me", **(PAGE | proof)) as events:
            await events.next("ready")
            assert await events.entries(1) == ids


async def test_a_reader_that_claims_at_once_is_not_given_its_own_entries_again(
    shared: Live,
) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", "1")
    async with events_of(shared, f"{GROUP}?consumer=me&claim_idle_ms=0") as events:
        await events.next("ready")
        assert await events.entries(1) == ids
        await events.next("caught_up")
        [new] = await shared.append("orders", "2")
        assert await events.entries(1) == [new]
    await shared.until_waiting(0)
    assert (await shared.http.get("/healthz")).status_code == 200


@pytest.mark.asyncio(loop_scope="function")
async def test_nothing_is_read_for_a_reader_that_has_left(live: Live) -> None:
    for _ in range(20):
        await live.append("orders", *["x" * 100] * 1000)
    delivered_counts = live.gateway.metrics.delivered_counts

    async with live.http.stream("GET", f"{STREAM}?after=0") as answer:
        await anext(answer.aiter_bytes())

    await until(lambda: live.gateway.metrics.connection_counts["sse"] == 0)
    assert delivered_counts["sse"] < 20_000


async def test_who_held_an_entry_is_told_that_another_consumer_has_it(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    lost, kept = await shared.append("orders", "1", "2")
    async with events_of(shared, f"{GROUP}?consumer=me") as events:
        await events.next("ready")
        assert await events.entries(2) == [lost, kept]
        await events.next("caught_up")
        await shared.claim("orders", "billing", "thief", ids=[lost])
        assert await events.next("claimed") == {"ids": [lost], "by": "thief"}
        assert await ack(shared, "me", [lost, kept]) == ["claimed", "acked"]


@pytest.mark.parametrize("url", [STREAM, f"{GROUP}?consumer=me"])
@pytest.mark.parametrize("connection_ms_max", [1000, 3_600_000], ids=["old", "stopping"])
async def test_who_must_go_is_told_when_to_come_back(url: str, connection_ms_max: int) -> None:
    async with running(Settings(connection_ms_max=connection_ms_max)) as live:
        await live.create_group("orders", "billing")
        async with events_of(live, url) as events:
            await events.next("ready", "caught_up")
            if connection_ms_max != 1000:
                live.gateway.draining.set()
            assert 1000 <= (await events.next("draining"))["reconnect_after_ms"] <= 3000
            await events.ended()
        await live.until_waiting(0)


async def test_on_receipt_an_entry_is_done_with_once_it_is_sent(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", *"abcde")
    async with events_of(shared, f"{GROUP}?consumer=me&credit=2&ack=on_receipt") as events:
        await events.next("ready")
        assert await events.entries(5) == ids  # more than the credit: nothing stays pending
        await events.next("caught_up")
        assert (await shared.group("orders", "billing"))["pending"] == 0
        [new] = await shared.append("orders", "f")
        assert await events.entries(1) == [new]
    await shared.until_waiting(0)
    assert (await shared.read_group("orders", "billing", "other"))["entries"] == []


async def test_on_reconnect_the_next_connection_acknowledges_what_the_last_one_brought(
    shared: Live,
) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", *"abcde")
    url = f"{GROUP}?consumer=me&credit=2&ack=on_reconnect"
    seen: list[str] = []
    for _ in range(2):  # a browser: it comes back with the id it saw last
        headers = {"Last-Event-ID": seen[-1]} if seen else {}
        async with events_of(shared, url, **headers) as events:
            assert (await events.next("ready"))["resumed"] is False
            seen += await events.entries(2)
            await events.ended()
        assert (await shared.group("orders", "billing"))["pending"] == 2
    assert seen == ids[:4]

    async with events_of(shared, url, **{"Last-Event-ID": seen[-2]}) as events:  # one was lost
        assert (await events.next("ready"))["resumed"] is True
        assert await events.entries(2) == ids[3:]
        await events.ended()
