"""Traces: a collector gets spans of requests with a sampled parent, and of no others."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect

from headgate.app.settings import MEMORY, Settings
from tests.api.conftest import Live, running
from tests.api.tracing.collector import Collector, collecting

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
OTHER_TRACE = "1bf7651916cd43dd8448eb211c80319c"
OTHER = {"traceparent": f"00-{OTHER_TRACE}-{PARENT}-01"}
ENTRIES = "/v1/streams/orders/entries"


@asynccontextmanager
async def traced(**settings: Any) -> AsyncIterator[tuple[Live, Collector]]:
    """Run a gateway with a collector; when the context ends the collector has everything."""
    with collecting() as collector:
        chosen = Settings(data_dir=MEMORY, otlp_url=collector.url, **settings)
        async with running(chosen) as live:
            yield live, collector


async def test_an_append_is_a_span_below_that_of_its_client() -> None:
    async with traced() as (live, collector):
        answer = await live.http.post(ENTRIES, json={"fields": {"n": "1"}}, headers=SAMPLED)

    span = collector.named("append orders")
    assert (span.trace, span.parent, span.kind) == (TRACE, PARENT, "PRODUCER")
    assert span.attributes == {
        "messaging.system": "headgate",
        "messaging.operation.name": "append",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.batch.message_count": 1,
        "messaging.message.id": answer.json()["id"],
    }
    assert collector.service["service.name"] == "headgate"


@pytest.mark.parametrize(
    "parent",
    [
        None,
        f"00-{TRACE}-{PARENT}-00",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{PARENT}-01",
        "x" * 54 + "1",
        "",
    ],
)
async def test_nothing_is_sent_without_a_sampled_parent(parent: str | None) -> None:
    headers = {} if parent is None else {"traceparent": parent}
    async with traced(trace_field="traceparent") as (live, collector):
        answer = await live.http.post(ENTRIES, json={"fields": {"n": "1"}}, headers=headers)
        assert answer.status_code == 201
        [entry] = (await live.http.get(ENTRIES)).json()["entries"]

    assert entry["fields"] == {"n": "1"}
    assert collector.spans == []


async def test_a_delivery_links_to_the_append_of_its_entry() -> None:
    async with traced(trace_field="traceparent") as (live, collector):
        batch = [{"fields": {"n": "1"}}, {"fields": {"traceparent": "mine"}}]
        await live.http.post(f"{ENTRIES}/batch", json=batch, headers=SAMPLED)
        await live.create_group("orders", "billing")
        group = "/v1/streams/orders/groups/billing"
        read = await live.http.post(f"{group}/read?consumer=anna", headers=OTHER)
        entries = read.json()["entries"]
        ids = {"ids": [entry["id"] for entry in entries]}
        await live.http.post(f"{group}/ack?consumer=anna", json=ids, headers=OTHER)
        await live.http.post(f"{group}/read?consumer=anna", headers=OTHER)

    append, delivery = collector.named("append orders"), collector.named("read orders")
    assert [entry["fields"] for entry in entries] == [
        {"n": "1", "traceparent": f"00-{TRACE}-{append.id}-01"},
        {"traceparent": "mine"},
    ]
    assert (delivery.trace, delivery.kind) == (OTHER_TRACE, "CONSUMER")
    assert delivery.links == [append.id]
    assert delivery.attributes["messaging.consumer.group.name"] == "billing"
    assert delivery.attributes["messaging.client.id"] == "anna"
    assert delivery.attributes["messaging.batch.message_count"] == 2
    settled = collector.named("ack orders")
    assert (settled.kind, settled.attributes["messaging.operation.type"]) == ("CLIENT", "settle")
    # A read that got nothing is no delivery.
    assert len(collector.spans) == 3


async def test_a_read_in_bulk_is_a_span() -> None:
    async with traced(trace_field="traceparent") as (live, collector):
        await live.append("orders", *map(str, range(3)))
        arrow = {"Accept": "application/vnd.apache.arrow.stream"}
        answer = await live.http.get(ENTRIES, headers=SAMPLED | arrow)
        assert answer.status_code == 200

    span = collector.named("read orders")
    assert (span.trace, span.kind, span.links) == (TRACE, "CONSUMER", [])
    assert span.attributes["messaging.batch.message_count"] == 3


async def test_an_error_is_told() -> None:
    async with traced() as (live, collector):
        headers = {**SAMPLED, "If-Match": '"5-5"'}
        answer = await live.http.post(ENTRIES, json={"fields": {"n": "1"}}, headers=headers)
        assert answer.status_code == 412

    span = collector.named("append orders")
    assert (span.is_error, span.attributes["error.type"]) == (True, "LastIdMismatch")


async def test_a_socket_goes_on_below_its_handshake() -> None:
    async with traced(trace_field="trace") as (live, collector):
        await live.http.post(ENTRIES, json={"fields": {"n": "1"}}, headers=OTHER)
        await live.create_group("orders", "billing")
        url = f"{live.ws_url}/v1/streams/orders/groups/billing/ws?consumer=anna"
        async with connect(url, additional_headers=SAMPLED) as socket, asyncio.timeout(10):
            while (frame := json.loads(await socket.recv()))["type"] != "entries":
                pass
            ids = [entry["id"] for entry in frame["entries"]]
            await socket.send(json.dumps({"type": "ack", "rid": "1", "sub": "0", "ids": ids}))
            while json.loads(await socket.recv())["type"] != "acked":
                pass

    append, delivery = collector.named("append orders"), collector.named("read orders")
    assert (delivery.trace, delivery.parent, delivery.links) == (TRACE, PARENT, [append.id])
    assert collector.named("ack orders").trace == TRACE


async def test_a_collector_that_is_away_holds_nobody_up() -> None:
    with collecting() as collector:
        url = collector.url
    async with asyncio.timeout(30):
        async with running(Settings(data_dir=MEMORY, otlp_url=url)) as live:
            for _ in range(3):
                answer = await live.http.post(ENTRIES, json={"fields": {"n": "1"}}, headers=SAMPLED)
                assert answer.status_code == 201
