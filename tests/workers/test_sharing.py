"""Facts that all workers of a gateway share: keys, tickets, limits of use, chunks, metrics."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.protocol import State

from headgate.app.auth.grants import UsageLimits
from tests.arrow_bodies import ARROW, body_of
from tests.conditions import WITHIN_S, eventually, until
from tests.key_files import EVERYTHING, Keys
from tests.processes.gateway import Gateway
from tests.processes.wire import Wire
from tests.workers.clients import TWO, WORKERS, client_of, until_waiting

EVENTS = "/v1/streams/orders/events"
ENTRIES = "/v1/streams/orders/entries"
ENTRY = {"fields": {"v": "1"}}
JOURNAL = "/v1/admin/journal"


class Pair(NamedTuple):
    """A connection with each of the workers."""

    gateway: Gateway
    first: Wire
    second: Wire


@asynccontextmanager
async def pair(gateway: Gateway, token: str | None = None) -> AsyncIterator[Pair]:
    async with client_of(gateway, WORKERS[0]) as first, client_of(gateway, WORKERS[1]) as second:
        first.token = second.token = token
        yield Pair(gateway, first, second)


async def test_credentials_and_limits_of_use_hold_at_all_workers(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    admin = keys.add(EVERYTHING, name="admin")
    gateway = await Gateway.start(tmp_path / "data", {**TWO, "keys_file": keys.path})
    async with pair(gateway, admin) as (_, first, second):
        assert (await first.ask("POST", ENTRIES, ENTRY)).status == 201
        await a_ticket_of_one_opens_at_the_other(gateway, first)

        limits = UsageLimits(entries_per_s_max=10, waiters_max=1)
        limited = keys.add(EVERYTHING, name="limited", limits=limits)
        for client in (first, second):  # a key that was made while the gateway runs
            client.token = limited
            await until_known(client)
        await what_one_has_counts_at_the_other(gateway, limited)
        await what_is_spent_at_one_is_paid_at_the_other(first, second)

        async with pair(gateway, admin) as (_, one_end, other_end):
            for client in (one_end, other_end):
                await client.send("GET", EVENTS)
                assert (await client.head()).status == 200
            keys.revoke(admin)
            for client in (one_end, other_end):
                assert (await client.event("problem"))["code"] == "unauthenticated"
    await gateway.stop()


async def test_a_key_changed_at_one_worker_changes_at_once_at_the_other(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    admin = keys.add(EVERYTHING, name="admin")
    gateway = await Gateway.start(tmp_path / "data", {**TWO, "keys_file": keys.path})
    async with pair(gateway, admin) as (_, first, second):
        new = {"name": "shop", "grants": [{"streams": ["orders"], "do": ["read"]}]}
        made = (await first.ask("POST", "/v1/keys", new)).value
        rotated = (await first.ask("POST", f"/v1/keys/{made['id']}/rotate")).value
        statuses = []
        for key in (made["key"], rotated["key"]):
            second.token = key
            statuses.append((await second.ask("GET", "/v1/principal")).status)
        assert statuses == [401, 200]
        assert (await first.ask("DELETE", f"/v1/keys/{made['id']}")).status == 204
        assert (await second.ask("GET", "/v1/principal")).status == 401
    await gateway.stop()


async def a_ticket_of_one_opens_at_the_other(gateway: Gateway, first: Wire) -> None:
    wanted = {"stream": "orders", "do": ["read"]}
    ticket = (await first.ask("POST", "/v1/tickets", wanted)).value["ticket"]
    async with client_of(gateway, WORKERS[1]) as reader:
        await reader.send("GET", f"{EVENTS}?ticket={ticket}")
        assert (await reader.head()).status == 200


async def what_one_has_counts_at_the_other(gateway: Gateway, token: str) -> None:
    async with pair(gateway, token) as (_, holder, other):
        await holder.send("GET", f"{ENTRIES}?after=%24&wait_ms=30000")
        await until_waiting(gateway)
        await until_refused(other)


async def what_is_spent_at_one_is_paid_at_the_other(first: Wire, second: Wire) -> None:
    answer = await first.ask("POST", f"{ENTRIES}/batch", [ENTRY] * 10_000)
    assert answer.status == 201
    retry_after_s = 0
    async with asyncio.timeout(WITHIN_S):
        while retry_after_s <= 100:  # less: for its own appends, before it hears of the others
            answer = await second.ask("POST", ENTRIES, ENTRY)
            if answer.status == 429:
                assert answer.value["code"] == "rate_limited"
                retry_after_s = int(answer.headers["retry-after"])
            else:
                assert answer.status == 201


@pytest.mark.parametrize("directory", ["data", ":memory:"])
async def test_a_chunk_that_one_worker_staged_is_committed_at_the_other(
    tmp_path: Path, directory: str
) -> None:
    place = Path(directory) if directory == ":memory:" else tmp_path / directory
    gateway = await Gateway.start(place, TWO)
    async with pair(gateway) as (_, first, second):
        batch = "/v1/bulk/writers/etl/batches/1"
        path = f"{batch}/partitions/0/attempts/a/chunks/0?stream=orders"
        await first.send("PUT", path, body_of("1"), media_type=ARROW)
        staged = await first.response()
        wanted = {"attempts": [{"partition": 0, "attempt": "a", "chunks": 1}]}
        committed = await second.ask("POST", f"{batch}/commit", wanted)
        page = await first.ask("GET", ENTRIES)
    await gateway.stop()

    assert staged.status == 200, staged
    assert committed.status == 200, committed
    assert [entry["fields"] for entry in page.value["entries"]] == [{"v": "1"}]


async def test_the_connections_of_all_workers_are_listed_and_cut_off(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    async with pair(gateway) as (_, first, second), pair(gateway) as (_, operator, _):
        for client in (first, second):
            await client.ask("POST", ENTRIES, ENTRY)
            await client.send("GET", EVENTS)
            assert (await client.head()).status == 200
            await client.event("ready")
        listed = (await operator.ask("GET", "/v1/admin/connections")).value["connections"]
        for connection in listed:
            path = f"/v1/admin/connections/{connection['id']}"
            assert (await operator.ask("DELETE", path)).status == 204
        for client in (first, second):
            assert (await client.event("problem"))["code"] == "cut_off"
        missing = await operator.ask("DELETE", "/v1/admin/connections/nobody")
    await gateway.stop()

    assert len(listed) == 2
    assert missing.status == 404


async def test_messages_and_presence_reach_all_workers(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, {**TWO, "presence_ttl_ms": 500})
    room, socket_url = "/v1/channels/room", f"ws{gateway.url.removeprefix('http')}/v1/ws"
    present = {"type": "subscribe", "sub": "c", "channel": "room", "presence": {}}
    async with pair(gateway) as (_, first, second), AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(connect(socket_url)) for _ in range(8)]
        for socket in sockets:
            await socket.send(json.dumps(present))

        async def member_count() -> int:
            return int((await second.ask("GET", f"{room}/presence")).value["member_count"])

        await eventually(member_count, lambda count: count == len(sockets))
        for client in (first, second):  # neither has all of them
            published = await client.ask("POST", f"{room}/messages", {"data": "hello"})
            assert published.value == {"receivers": len(sockets)}
        for socket in sockets:
            assert await heard(socket, 2) == ["hello"] * 2
        gateway.kill_process(WORKERS[0])
        await until(first.reader.at_eof)
        await eventually(
            member_count, lambda count: count == sum(each.state is State.OPEN for each in sockets)
        )
    await gateway.stop()


async def heard(socket: ClientConnection, count: int) -> list[Any]:
    """Return the data of the next messages."""
    data: list[Any] = []
    async with asyncio.timeout(WITHIN_S):
        while len(data) < count:
            frame = json.loads(await socket.recv())
            data += [frame["data"]] if frame["type"] == "message" else []
    return data


async def test_metrics_are_those_of_all_processes_and_never_fall(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    async with pair(gateway) as (_, first, second):
        for client in (first, second, second):
            await client.ask("POST", ENTRIES, ENTRY)
        await first.send("GET", EVENTS)
        await first.head()
        before = await metrics(second)
        kill(gateway, WORKERS[0])

        async def are_both_back() -> bool:
            return (await metrics(second))["headgate_workers"] == 2

        await eventually(are_both_back, bool)
        after = await metrics(second)
    await gateway.stop()

    appended = 'headgate_requests_total{operation="appendEntry",status="201"}'
    assert before[appended] == after[appended] == 3
    assert before['headgate_connections{transport="sse"}'] == 1
    assert after.get('headgate_connections{transport="sse"}', 0) == 0
    assert before["headgate_journal_position"] == 3
    assert after['headgate_process_restarts_total{role="worker"}'] == 1


async def test_each_worker_tells_what_is_cold_and_dead(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    batch = [{"fields": {"v": Random(n).randbytes(400).hex()}} for n in range(500)]
    async with pair(gateway) as (_, first, second):
        await first.ask("POST", f"{ENTRIES}/batch", batch)
        await first.ask("POST", "/v1/admin/rewrite")

        async def is_rewritten() -> bool:
            return bool((await second.ask("GET", JOURNAL)).value["rewrite_count"])

        await eventually(is_rewritten, bool)
        await first.ask("POST", "/v1/streams/orders/trim", {"max_length": 100})
        # A worker knows of the journal a moment later.
        told = await eventually(
            lambda: second.ask("GET", JOURNAL), lambda answer: answer.value["dead_bytes"] >= 1000
        )
        journal = told.value
        stream = (await first.ask("GET", "/v1/streams/orders")).value
        shown = await metrics(second)
    await gateway.stop()

    assert stream["cold_bytes"] == journal["cold_bytes"] > 0
    for name in ("extents_bytes", "cold_bytes", "dead_bytes"):
        assert shown[f"headgate_journal_{name}"] == journal[name]
    assert shown["headgate_cold_read_seconds_count"] == shown["headgate_cold_reads_total"]


async def test_the_history_is_that_of_all_processes_and_survives_each_of_them(
    tmp_path: Path,
) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    async with pair(gateway) as (_, first, second):
        for client in (first, second):
            await client.ask("POST", ENTRIES, ENTRY)
        before = await history_until(second, "/v1/streams/orders/history", "length", 2)
        kill(gateway, WORKERS[0])
        kill(gateway, "engine")

        async def is_appended() -> bool:
            return (await second.ask("POST", ENTRIES, ENTRY)).status == 201

        await eventually(is_appended, bool)
        after = await history_until(second, "/v1/streams/orders/history", "length", 3)
        total = await history_until(second, "/v1/admin/history", "waiters", 0)
        shown = await metrics(second)
    await gateway.stop()

    assert before["times_ms"][0] in after["times_ms"]
    assert sum(each or 0 for each in total["series"]["requests"]) > 2
    assert shown['headgate_stream_entries{messaging_destination_name="orders"}'] == 3


async def history_until(client: Wire, path: str, name: str, value: float) -> Any:
    """Read a history until a series ends with a value; returns the history."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            answer = await client.ask("GET", path)
            if answer.status == 200 and answer.value["series"][name][-1:] == [value]:
                return answer.value
            await asyncio.sleep(0.1)


async def until_known(client: Wire) -> None:
    """Ask until the key of a client is taken."""

    async def is_known() -> bool:
        return (await client.ask("GET", "/v1/limits")).status != 401

    await eventually(is_known, bool)


async def until_refused(client: Wire) -> None:
    """Ask for another blocked read until there may be none."""
    path = f"{ENTRIES}?after=%24&wait_ms=100"

    async def is_refused() -> bool:
        return (await client.ask("GET", path)).status == 429

    await eventually(is_refused, bool)


async def metrics(client: Wire) -> dict[str, float]:
    text = (await client.ask("GET", "/metrics")).content.decode()
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def kill(gateway: Gateway, process: str) -> None:
    os.kill(gateway.process_ids()[process], signal.SIGKILL)
