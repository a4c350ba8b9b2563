"""Traces: a collector gets spans of requests with a sampled parent, and of no others."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from websockets.asyncio.client import connect

from headgate.app.settings import MEMORY, Settings
from tests.api.conftest import Live, running
from tests.conditions import WITHIN_S
from tests.receiver import Notice, Receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
OTHER_TRACE = "1bf7651916cd43dd8448eb211c80319c"
OTHER = {"traceparent": f"00-{OTHER_TRACE}-{PARENT}-01"}
ENTRIES = "/v1/streams/orders/entries"


class Collected(NamedTuple):
    """A span, as a test looks at it."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, str | int]
    links: list[str]  # ids of spans
    is_error: bool


class Collector:
    """The spans that were sent, by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Collected] = []
        self.service: dict[str, str] = {}

    def take(self, notice: Notice) -> tuple[str, bytes]:
        assert notice.head.startswith("POST /v1/traces ")
        for resource in ExportTraceServiceRequest.FromString(notice.body).resource_spans:
            for pair in resource.resource.attributes:
                self.service[pair.key] = pair.value.string_value
            for scope in resource.scope_spans:
                self.spans += map(_collected, scope.spans)
        return "200 OK", b""

    def named(self, name: str) -> Collected:
        [span] = [span for span in self.spans if span.name == name]
        return span


def _collected(span: Span) -> Collected:
    return Collected(
        span.name,
        Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes},
        [link.span_id.hex() for link in span.links],
        span.status.code == 2,
    )


@asynccontextmanager
async def traced(**settings: Any) -> AsyncIterator[tuple[Live, Collector]]:
    """Run a gateway with a collector; when the context ends the collector has everything."""
    receiver, collector = Receiver(), Collector()
    receiver.respond = collector.take
    await receiver.open()
    url = receiver.url.removesuffix("/hook")
    async with running(Settings(data_dir=MEMORY, otlp_url=url, **settings)) as live:
        yield live, collector
    await receiver.close()


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


async def test_nothing_is_sent_without_a_sampled_parent() -> None:
    async with traced(trace_field="traceparent") as (live, collector):
        for parent in (
            None,
            f"00-{TRACE}-{PARENT}-00",
            f"00-{'0' * 32}-{PARENT}-01",
            f"00-{TRACE}-{'0' * 16}-01",
            f"ff-{TRACE}-{PARENT}-01",
            "x" * 54 + "1",
            "",
        ):
            headers = {} if parent is None else {"traceparent": parent}
            answer = await live.http.post(ENTRIES, json={"fields": {"n": "1"}}, headers=headers)
            assert answer.status_code == 201
        entries = (await live.http.get(ENTRIES)).json()["entries"]

    assert [entry["fields"] for entry in entries] == [{"n": "1"}] * 7
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
        assert (await live.http.get(ENTRIES, headers=SAMPLED | arrow)).status_code == 200

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
        async with connect(url, additional_headers=SAMPLED) as following, asyncio.timeout(WITHIN_S):
            while (frame := json.loads(await following.recv()))["type"] != "entries":
                pass
            ids = [entry["id"] for entry in frame["entries"]]
            await following.send(json.dumps({"type": "ack", "rid": "1", "sub": "0", "ids": ids}))
            while json.loads(await following.recv())["type"] != "acked":
                pass

    append, delivery = collector.named("append orders"), collector.named("read orders")
    assert (delivery.trace, delivery.parent, delivery.links) == (TRACE, PARENT, [append.id])
    assert collector.named("ack orders").trace == TRACE


async def test_a_collector_that_is_away_holds_nobody_up() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with running(Settings(data_dir=MEMORY, otlp_url=url)) as live:
            for _ in range(3):
                answer = await live.http.post(ENTRIES, json={"fields": {"n": "1"}}, headers=SAMPLED)
                assert answer.status_code == 201
