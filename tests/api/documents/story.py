"""One story that uses every operation; its requests and answers are shown in the OpenAPI document.

`python -m tests.api.documents.story` tells it again and writes it to `app/examples.json`; a test
compares the two, so the examples stay true.
"""

import asyncio
import json
import random
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from json import loads
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pyarrow as pa
from fastapi import FastAPI
from pydantic import SecretStr

from headgate.app.auth.grants import Grant, Verb
from headgate.app.auth.key_file import ApiKey, KeyText, create_keys, make_key
from headgate.app.automation import pushes
from headgate.app.automation.pushes import PushAnswer, PushPlace
from headgate.app.automation.targets import Targets
from headgate.app.automation.webhooks import Sender, TargetAnswer
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Backend, Perform
from headgate.app.gateway.credentials import open_credentials
from headgate.app.http.operation import ARROW
from headgate.app.main import create_app
from headgate.app.measuring.recorder import Recorder as HistoryRecorder
from headgate.app.measuring.series import (
    COLD_HITS,
    COLD_READ,
    COLD_READS,
    CPU,
    LOOP_DELAY,
    PRESENT,
    RATES,
    REQUEST,
    SYNC,
    ObservedStreams,
    Sample,
)
from headgate.app.server import Server
from headgate.app.settings import MEMORY, Settings
from headgate.engine.buckets import SECONDS
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.streams import Observe
from tests.api.documents.conversation import spoken
from tests.conditions import eventually

EXAMPLES = Path(__file__).parents[3] / "app" / "examples.json"

_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
_KEY_ID = "6jze42yvcm"
_KEY = f"hg_{_KEY_ID}_qr7fm2v5tkx4c6gyd3zlhn2b7wsa5jueoi4pvr6tqk3mxg7yz2aa"
_CHANGING = (
    (r"whsec_[A-Za-z0-9+/=]+", _SECRET),
    (r'"id":"[0-9a-f]{16}","state"', '"id":"3f9c21ab40d7e658","state"'),
    (r"msg_test_[0-9a-f]+", "msg_test_8d1c0bb5d3f2a47f6e09"),
    (r'"took_ms":\d+', '"took_ms":38'),
    (r'"webhook-timestamp":"[0-9]+"', '"webhook-timestamp":"1718000000"'),
)
_START_MS = 1_718_000_000_000
_JSON = ("application/json", "application/jwk-set+json")
_SSE = "text/event-stream"

OF_THE_MACHINE: dict[str, Any] = {"memory_bytes_max": 16 * 2**30, "sockets_max": 1_000}
"""Bounds that depend on the machine unless they are given."""


class StoryClock:
    """A clock that stands still until the story goes on."""

    def __init__(self) -> None:
        self.now_ms = _START_MS

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


class _Receiver(Sender):
    """Every URL takes what is sent there."""

    async def send(
        self, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
    ) -> TargetAnswer:
        """Answer as a receiver."""
        return TargetAnswer(200, b"received")


Ask = Callable[..., Awaitable[Any]]


@dataclass
class Recorder:
    """Speaks to a gateway, and writes down each exchange under the name of the operation."""

    http: httpx.AsyncClient
    clock: StoryClock
    paths: dict[str, dict[str, Any]]
    history: HistoryRecorder
    perform: Perform
    exchanges: dict[str, Any] = field(default_factory=dict)
    key_id: str = "none yet"  # another one each time

    async def ask(
        self,
        request: str,
        json: Any = None,
        *,
        rows: list[dict[str, str]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send a request and write down the exchange; returns the body of the answer.

        Args:
            request: its method and its URL.
            json: its body.
            rows: its body in Arrow, which nobody can read.
            headers: of it.
        """
        method, _, url = request.partition(" ")
        self.clock.now_ms += 250
        operation, parameters = self._operation(method, url)
        media_type = "application/json" if rows is None else ARROW
        body = _dumped(json) if json is not None else None if rows is None else _arrow(rows)
        sent = {**(headers or {}), **({} if body is None else {"Content-Type": media_type})}
        answer = await self._answer(method, url, body, sent)
        assert answer.status_code < 400, f"{operation}: {answer.text}"
        exchange: dict[str, Any] = {
            "parameters": {**parameters, **(headers or {})},
            "status": str(answer.status_code),
        }
        if json is not None:
            exchange["request"] = {media_type: json}
        kind = answer.headers.get("content-type", "").partition(";")[0]
        text = answer.text  # without what is another one each time
        own = re.search(r"hg_(\w+)_\w+", text)
        if own is not None:
            self.key_id = own[1]
        text = re.sub(r"hg_\w+", _KEY, text).replace(self.key_id, _KEY_ID)
        if parameters.get("key") == self.key_id:
            exchange["parameters"] = {"key": _KEY_ID}
        for changing, shown in (*_CHANGING, (r'"at_ms":\d+', f'"at_ms":{self.clock.now_ms}')):
            text = re.sub(changing, shown, text)
        content = loads(text) if text and kind in _JSON else text
        if answer.text:
            exchange["response"] = {kind: content}
        self.exchanges.setdefault(operation, exchange)
        return content

    async def _answer(
        self, method: str, url: str, body: str | bytes | None, headers: dict[str, str]
    ) -> httpx.Response:
        if not urlsplit(url).path.endswith("/events"):
            return await self.http.request(method, url, content=body, headers=headers)
        async with self.http.stream(method, url, headers={"accept": _SSE}) as response:
            text = ""
            async for part in response.aiter_text():
                text += part
                if re.search("event: (caught_up|message|sample)", text) and text.endswith("\n\n"):
                    break
            text = re.sub(r"retry: \d+", "retry: 2000", text)
            return httpx.Response(response.status_code, text=text, headers={"content-type": _SSE})

    def _operation(self, method: str, url: str) -> tuple[str, dict[str, str]]:
        """Return the operation of a request, and its parameters by name."""
        parts = urlsplit(url)
        for template, operations in self.paths.items():
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)
            if template.endswith("{words}"):
                pattern = pattern.replace("[^/]+", ".+")
            match = re.fullmatch(pattern, parts.path)
            if match is not None and method.lower() in operations:
                named = {name: unquote(value) for name, value in match.groupdict().items()}
                named.update(parse_qsl(parts.query))
                return operations[method.lower()]["operationId"], named
        raise AssertionError(f"no operation is {method} {url}")


async def played(data_dir: Path) -> dict[str, Any]:
    """Play the story; returns the exchanges by operation, and the frames of a WebSocket.

    Args:
        data_dir: an empty directory, for the gateway whose journal is looked at.
    """
    clock = StoryClock()
    settings = Settings(data_dir=MEMORY, ticket_secret=SecretStr("0" * 32), **OF_THE_MACHINE)
    async with _gateway(settings, clock) as story:
        for chapter in CHAPTERS:
            await chapter(story.ask, story)
        exchanges = story.exchanges
    async with _gateway(settings, StoryClock()) as story:
        exchanges["frames"] = await spoken(story.http)
    async with _gateway(Settings(data_dir=data_dir, **OF_THE_MACHINE), None) as story:
        await story.http.put("/v1/streams/orders", json={})
        await story.ask("GET /v1/admin/journal")
        await story.ask("POST /v1/admin/rewrite")
        exchanges |= story.exchanges
    keys_file = data_dir / "examples.json"
    admin = await asyncio.to_thread(_admin_key, keys_file)
    keyed = settings.model_copy(update={"keys_file": keys_file})
    async with _gateway(keyed, StoryClock()) as story:
        story.http.headers["Authorization"] = f"Bearer {admin}"
        await _keys(story.ask, story)
        return exchanges | story.exchanges


async def _streams_and_entries(ask: Ask, story: Recorder) -> None:
    orders = "/v1/streams/orders"
    await ask(f"PUT {orders}", {"max_age_ms": 604_800_000})
    await ask(f"PATCH {orders}", {"max_length": 1_000_000})
    order = {"fields": {"sku": "42", "quantity": "1"}}
    await ask(f"POST {orders}/entries", order, headers={"Idempotency-Key": "order-1"})
    batch = [{"fields": {"sku": sku, "quantity": "2"}} for sku in ("43", "44", "45")]
    first, *_, last = (await ask(f"POST {orders}/entries/batch", batch))["ids"]
    for sku in range(46, 52):
        await ask(f"POST {orders}/entries", {"fields": {"sku": str(sku)}})
    await ask("GET /v1/streams?prefix=ord&limit=10")
    await ask(f"GET {orders}")
    await ask(f"GET {orders}/entries?after=0&limit=2")
    await ask(f"GET {orders}/entries/{first}")
    cursors = [{"stream": "orders", "after": last}]
    await ask("POST /v1/read", {"streams": cursors, "limit": 1, "wait_ms": 20_000})
    await ask(f"DELETE {orders}/entries/{first}")
    await ask(f"POST {orders}/entries/delete", {"ids": [last, first]})
    await ask(f"POST {orders}/trim", {"max_length": 7})
    await ask(f"DELETE {orders}/archive?before={last}")
    await ask(f"GET {orders}/events?after={last}")
    await ask(f"GET /v1/events?match=orders*&after={last}")


async def _groups(ask: Ask, story: Recorder) -> None:
    group = "/v1/streams/orders/groups/billing"
    dead_letters = {"max_deliveries": 3, "dead_letter_stream": "orders.dead"}
    policy = {**dead_letters, "backoff_ms": [1000, 10_000]}
    await ask(f"PUT {group}", {"start": "0", "policy": policy})
    await ask(f"PATCH {group}", {"policy": {"claim_idle_ms": 30_000}})
    await ask(f"PUT {group}/consumers/anna")
    read = await ask(f"POST {group}/read?consumer=anna", {"limit": 4, "wait_ms": 20_000})
    first, second, third, fourth = [entry["id"] for entry in read["entries"]]
    await ask(f"POST {group}/extend?consumer=anna", {"ids": [second]})
    await ask(f"POST {group}/ack?consumer=anna", {"ids": [first]})
    await ask("GET /v1/streams/orders/groups")
    await ask(f"GET {group}")
    await ask(f"GET {group}/consumers")
    await ask("PUT /v1/streams/orders/groups/fair", {"start": "0", "policy": {"fair_field": "sku"}})
    await ask("POST /v1/streams/orders/groups/fair/read?consumer=anna", {"limit": 1})
    await ask("GET /v1/streams/orders/groups/fair/keys?limit=2")
    await ask(f"GET {group}/pending?consumer=anna&limit=2")
    await ask(f"GET {group}/pending/summary")
    story.clock.now_ms += 60_000
    await ask(f"POST {group}/claim?consumer=ben", {"ids": [second], "min_idle_ms": 30_000})
    await ask(f"POST {group}/autoclaim?consumer=ben", {"min_idle_ms": 30_000, "limit": 1})
    fatal = {"ids": [second], "mode": "fatal", "error": "KeyError: 'sku'"}
    await ask(f"POST {group}/nack?consumer=ben", fatal)
    await ask(f"POST {group}/dead-letters/redrive", {"limit": 10})
    await ask(f"POST {group}/ack", {"ids": [third, fourth]})
    await ask(f"GET {group}/events?consumer=carla&credit=16")
    events = f"{group}/events?consumer=carla"
    async with story.http.stream("GET", events, headers={"accept": _SSE}) as response:
        parts = response.aiter_text()
        while "event: caught_up" not in await anext(parts):
            pass
        [listed] = (await ask("GET /v1/admin/connections?limit=10"))["connections"]
        await ask(f"DELETE /v1/admin/connections/{listed['id']}")
    await ask(f"DELETE {group}/consumers/anna?pending=release")
    groups = "/v1/groups/billing"
    wanted = {"limit": 3, "wait_ms": 20_000, "create": {"start": "0"}}
    read = await ask(f"POST {groups}/read?match=orders*&consumer=anna", wanted)
    await ask(f"GET {groups}/events?match=orders*&consumer=carla&credit=16")
    own = [{"stream": entry["stream"], "ids": [entry["id"]]} for entry in read["entries"]]
    await ask(f"POST {groups}/extend?consumer=anna", {"entries": own[:1]})
    await ask(f"POST {groups}/nack?consumer=anna", {"entries": own[1:2], "mode": "silent"})
    await ask(f"POST {groups}/ack?consumer=anna", {"entries": own[2:]})


async def _tables_and_commits(ask: Ask, story: Recorder) -> None:
    await ask("PUT /v1/streams/stock", {"key_field": "sku"})
    await ask("PUT /v1/streams/stock/table/42", {"fields": {"count": "3"}})
    await ask("PUT /v1/streams/stock/table/43", {"fields": {"count": "1"}})
    await ask("GET /v1/streams/stock/table?limit=1")
    await ask("GET /v1/streams/stock/table/42")
    await ask("DELETE /v1/streams/stock/table/43")
    read = "/v1/streams/orders/groups/fair/read?consumer=anna"
    [order] = (await story.http.post(read, json={"limit": 1})).json()["entries"]
    bill = {"sku": order["fields"]["sku"], "total": "12.50"}
    done = {"stream": "orders", "group": "fair", "ids": [order["id"]], "deliveries": [1]}
    steps = [{"append": {"stream": "bills", "entries": [{"fields": bill}]}}, {"ack": done}]
    key = {"Idempotency-Key": f"bill-{order['id']}"}
    await ask("POST /v1/commit", {"consumer": "anna", "steps": steps}, headers=key)


async def _channels(ask: Ask, story: Recorder) -> None:
    channel = "/v1/channels/room-1"
    following = asyncio.ensure_future(ask(f"GET {channel}/events"))
    message = {"data": {"text": "hello"}}
    while not (await story.http.post(f"{channel}/messages", json=message)).json()["receivers"]:
        await asyncio.sleep(0)
    await following
    await ask(f"POST {channel}/messages", message)
    members = partial(story.http.get, f"{channel}/presence")
    await eventually(members, lambda answer: answer.json()["settled"])
    await ask(f"GET {channel}/presence")
    await ask("GET /v1/streams/orders/presence")


async def _bulk(ask: Ask, story: Recorder) -> None:
    cursors = [{"stream": "orders", "after": "0-0"}]
    await ask("POST /v1/bulk/plan", {"cursors": cursors, "max_entries": 4})
    await ask("GET /v1/streams/orders/splits?after=0-0&parts=2")
    await ask("GET /v1/streams/orders/histogram?buckets=3")
    batch = "/v1/bulk/writers/nightly-load/batches/0"
    chunk = f"{batch}/partitions/0/attempts/first/chunks/0"
    await ask(f"PUT {chunk}?stream=orders", rows=[{"sku": "70"}, {"sku": "71"}])
    attempts = [{"partition": 0, "attempt": "first", "chunks": 1}]
    await ask(f"POST {batch}/commit", {"attempts": attempts})
    await ask("GET /v1/bulk/writers/nightly-load")
    await ask("DELETE /v1/bulk/writers/nightly-load/batches/1")


async def _schedules(ask: Ask, story: Recorder) -> None:
    schedule = "/v1/schedules/nightly"
    body = {"stream": "jobs", "fields": {"kind": "report"}, "cron": "0 2 * * *"}
    await ask(f"PUT {schedule}", {**body, "time_zone": "Europe/Berlin"})
    await ask(f"GET {schedule}")
    await ask("GET /v1/schedules")
    await ask("GET /v1/schedule-times?cron=0+2+*+*+*&time_zone=Europe/Berlin")
    await ask(f"PATCH {schedule}", {"paused": True})
    await ask(f"POST {schedule}/run")
    await ask(f"DELETE {schedule}")


async def _pushes(ask: Ask, story: Recorder) -> None:
    group = "/v1/streams/parcels/groups/billing"
    for sku in ("42", "43", "42"):
        await story.http.post("/v1/streams/parcels/entries", json={"fields": {"sku": sku}})
    await story.http.put(group, json={})
    headers = {"Authorization": "Bearer token-of-the-receiver"}
    body = {"url": "https://hooks.example/parcels", "concurrency": 20, "headers": headers}
    await ask(f"PUT {group}/push", body)
    await ask(f"GET {group}/push")
    await ask("GET /v1/pushes")
    await ask("GET /v1/push/jwks.json")
    await _attempt(story, PushPlace(b"parcels", b"billing"))
    await ask(f"GET {group}/push/attempts?id=1718000000250-0")
    await story.http.post(f"{group}/push/pause")
    again = {"start": "1718000000000", "end": "+", "filter": {"exact": {"sku": "42"}}}
    await ask(f"POST {group}/push/replay", {**again, "dry_run": False})
    await ask(f"DELETE {group}/push/replay")
    await story.http.post(f"{group}/push/resume")
    await ask(f"POST {group}/push/rotate", {"overlap_ms": 3_600_000})
    for verb in ("pause", "resume", "retry", "test"):
        await ask(f"POST {group}/push/{verb}")
    await ask(f"DELETE {group}/push")
    push, match = "/v1/groups/billing/push", "match=parcels*"
    await ask(f"PUT {push}?{match}", {**body, "create": {"start": "0"}})
    await ask(f"GET {push}?{match}")
    await _attempt(story, PushPlace(b"parcels*", b"billing", is_pattern=True))
    await ask(f"GET {push}/attempts?{match}&limit=10")
    await ask(f"POST {push}/rotate?{match}", {"overlap_ms": 3_600_000})
    for verb in ("pause", "resume", "retry", "test"):
        await ask(f"POST {push}/{verb}?{match}")
    await ask(f"DELETE {push}?{match}")
    await story.http.delete("/v1/streams/parcels")


async def _attempt(story: Recorder, place: PushPlace) -> None:
    """Let a push have an attempt that failed."""
    webhook_id = "msg_7a5afeb03f2f47a3a796_1718000000250-0"
    headers = {"Authorization": "…", "Content-Type": "application/json"}
    headers |= {"webhook-id": webhook_id, "webhook-timestamp": "1718000000"}
    attempt = PushAnswer(
        *(_START_MS, 38, webhook_id, 1, 500, "answered 500", "out of memory", None, "parcels"),
        ids=["1718000000250-0"],
        url="https://hooks.example",
        headers=headers | {"webhook-signature": "…"},
        next_at_ms=_START_MS + 1_000,
    )
    await pushes.add_attempts(story.perform, place.name, [attempt])


async def _redis_words(ask: Ask, story: Recorder) -> None:
    await ask("POST /v1/commands", ["XADD", "orders", "*", "sku", "99"])
    pipeline = [["XLEN", "orders"], ["XGROUP", "CREATE", "orders", "billing", "$"]]
    await ask("POST /v1/commands/pipeline", pipeline)
    transaction = [["XADD", "orders", "*", "sku", "100"], ["XLEN", "orders"]]
    await ask("POST /v1/commands/multi-exec", transaction)
    await ask("GET /v1/commands/XLEN/orders")
    await ask("POST /v1/commands/XADD/orders/*/sku/101")


async def _schemas(ask: Ask, story: Recorder) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}
    await ask("PUT /v1/streams/counts/schema", {"schema": schema})
    await ask("GET /v1/streams/counts/schema")
    await ask("DELETE /v1/streams/counts/schema")
    await story.http.delete("/v1/streams/counts")


async def _histories(ask: Ask, story: Recorder) -> None:
    for _ in range(2):
        story.clock.now_ms += 1000
        await story.history.record()
    for subject in ("admin", "streams/orders", "streams/orders/groups/billing"):
        await ask(f"GET /v1/{subject}/history?step=second")
    await ask("GET /v1/admin/history/events")


def _admin_key(path: Path) -> KeyText:
    text = make_key("0admin")
    create_keys(
        path,
        {
            text.id: ApiKey(
                id=text.id,
                name="admin",
                sha256=text.sha256,
                grants=[Grant(streams=["*"], do=[Verb.ADMIN])],
                created_at_ms=_START_MS,
            )
        },
    )
    return text


async def _keys(ask: Ask, story: Recorder) -> None:
    rights = {"streams": ["orders"], "do": ["append", "consume"], "create": True}
    await ask("POST /v1/keys", {"name": "shop", "grants": [rights], "ttl_ms": 90 * 86_400_000})
    await ask(f"POST /v1/keys/{story.key_id}/rotate", {"overlap_ms": 3_600_000})
    await ask("GET /v1/keys")
    await ask(f"DELETE /v1/keys/{story.key_id}")


async def _the_end(ask: Ask, story: Recorder) -> None:
    await ask("DELETE /v1/streams/orders/groups/billing")
    await ask("POST /v1/streams/orders/close", {"fields": {"status": "done"}})
    await ask("DELETE /v1/streams/orders.dead")
    await ask("POST /v1/tickets", {"stream": "orders", "do": ["read"], "ttl_ms": 60_000})
    for path in ("/healthz", "/readyz", "/v1/limits", "/v1/principal"):
        await ask(f"GET {path}")
    counted = await ask("GET /metrics")
    about = [line for line in counted.splitlines() if "headgate_entries_appended_total" in line]
    story.exchanges["readMetrics"]["response"] = {"text/plain": "\n".join(about) + "\n"}


CHAPTERS = (
    *(_streams_and_entries, _groups, _tables_and_commits, _channels, _bulk, _schedules),
    *(_pushes, _redis_words, _schemas, _histories, _the_end),
)


def _app(settings: Settings, clock: StoryClock | None) -> FastAPI:
    backend = None if clock is None else EmbeddedBackend(Engine(MemoryStorage(), clock=clock))
    return create_app(settings, backend, open_credentials(settings, clock))


async def _sampled(backend: Backend, clock: StoryClock) -> dict[int, Sample]:
    """Return the sample of a gateway with some load."""
    observed = await backend.perform(Observe(limit=10))
    seconds = (clock.now_ms - _START_MS) / 1000
    times = [int(seconds * count) for count in (400, 90, 8, 2)]
    buckets = times + [0] * (len(SECONDS) + 1 - len(times))
    counts = {**dict.fromkeys(RATES, 500 * seconds), "refused": 0, "failed": 0, CPU: 0.1 * seconds}
    counts |= {COLD_HITS: 475 * seconds, COLD_READS: 25 * seconds}
    return {
        0: Sample(
            counts,
            dict.fromkeys(PRESENT, 16),
            {LOOP_DELAY: 0.0025},
            {REQUEST: buckets, SYNC: buckets, COLD_READ: buckets},
            ObservedStreams(clock.now_ms, 3000, observed.streams, 0, 0),
        )
    }


@asynccontextmanager
async def _gateway(settings: Settings, clock: StoryClock | None) -> AsyncIterator[Recorder]:
    """Run a gateway that always does the same while the context lasts."""
    app = await asyncio.to_thread(_app, settings, clock)
    clock = clock or StoryClock()
    history = HistoryRecorder(partial(_sampled, app.state.gateway.backend, clock), clock)
    app.state.gateway = replace(
        app.state.gateway, random=random.Random(1), history=history, sender=_Receiver(Targets())
    )
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(app, settings)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        try:
            document = await asyncio.to_thread(app.openapi)
            perform = app.state.gateway.backend.perform
            yield Recorder(http, clock, document["paths"], history, perform)
        finally:
            server.should_exit = True
            await serving
            listening.close()


def written(refusal_of: dict[str, Any]) -> str:
    """Return the exchanges as the file has them, by name of operation."""
    return json.dumps(dict(sorted(refusal_of.items())), indent=1, ensure_ascii=False) + "\n"


def _arrow(rows: list[dict[str, str]]) -> bytes:
    kind = pa.map_(pa.string(), pa.string())
    fields = pa.array([list(row.items()) for row in rows], kind)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("fields", kind)])) as writer:
        writer.write_batch(pa.record_batch([fields], ["fields"]))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        played_now = asyncio.run(played(Path(directory)))
    EXAMPLES.write_text(written(played_now))
