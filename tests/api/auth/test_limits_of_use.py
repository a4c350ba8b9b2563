"""Limits of use: who asks for too much is told when to come again, and others notice nothing.

How much passes and how long the others wait is in tests/unit/app/auth/test_usage.py.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from headgate.app.auth import usage
from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.settings import Settings
from headgate.engine.clock import SystemClock
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import running
from tests.api.live.event_source import events_of
from tests.api.live.frames import Frames
from tests.conditions import until
from tests.key_files import EVERYTHING, Keys

pytestmark = pytest.mark.asyncio(loop_scope="session")

STREAM = "/v1/streams/orders"
ENTRIES = f"{STREAM}/entries"
BATCH = f"{ENTRIES}/batch"
ENTRY = {"fields": {"v": "1"}}
PINGS = [["PING"]] * 500


@asynccontextmanager
async def limited(
    gateway: Secured, *grants: Grant, **limits: int
) -> AsyncIterator[httpx.AsyncClient]:
    """Make a stream, and yield a client of a principal with these limits."""
    chosen = {"name": token_hex(8), "limits": UsageLimits(**limits)}
    key = await gateway.key(*(grants or [EVERYTHING]), **chosen)
    await gateway.admin.put(STREAM)
    async with gateway.client(key) as http:
        yield http


def credential(http: httpx.AsyncClient) -> dict[str, str]:
    return {"Authorization": http.headers["Authorization"]}


@asynccontextmanager
async def frames_of(http: httpx.AsyncClient) -> AsyncIterator[Frames]:
    """Yield a socket of the same principal."""
    url = f"ws{str(http.base_url).removeprefix('http')}".rstrip("/") + "/v1/ws"
    async with connect(url, additional_headers=credential(http)) as socket:
        yield Frames(socket)


def check_refused(answer: httpx.Response, setting: str) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (429, "rate_limited")
    assert setting in problem["detail"]
    assert problem["retryable"]
    assert answer.headers["Retry-After"] == str(-(-problem["retry_after_ms"] // 1000))


@pytest.mark.parametrize(
    ("limit", "method", "path", "body"),
    [
        ("entries_per_s_max", "POST", BATCH, [ENTRY] * 1000),
        ("entries_per_s_max", "GET", f"{ENTRIES}?limit=500", None),
        ("bytes_per_s_max", "POST", ENTRIES, {"fields": {"v": "x" * 100_000}}),
        ("requests_per_s_max", "POST", "/v1/commands/pipeline", PINGS),
    ],
)
async def test_what_is_taken_is_paid_before_the_next_request(
    gateway: Secured, limit: str, method: str, path: str, body: Any
) -> None:
    async with limited(gateway, **{limit: 10}) as http:
        await gateway.live.append("orders", *map(str, range(500)))
        taken = await http.request(method, path, json=body)
        refused = await http.post(ENTRIES, json=ENTRY)
        read = await http.get(ENTRIES)
        probes = [await http.get(path) for path in ("/healthz", "/readyz")]
        described = await gateway.admin.get(STREAM)

    assert taken.is_success
    check_refused(refused, limit)
    check_refused(read, limit)
    assert refused.json()["retry_after_ms"] > 40_000
    assert refused.headers["RateLimit-Policy"].startswith(f'"{limit.partition("_")[0]}";q=10;w=1')
    assert f'"{limit.partition("_")[0]}";r=0;t=' in taken.headers["RateLimit"]
    assert [probe.status_code for probe in probes] == [200, 200]
    assert described.is_success
    assert "RateLimit" not in described.headers


@pytest.mark.parametrize("way", ["pipeline", "multi-exec"])
async def test_commands_append_entries(
    gateway: Secured, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    adds = [["XADD", "commanded", "*", "v", str(number)] for number in range(100)]
    async with limited(gateway, entries_per_s_max=10) as http:
        now_ms = SystemClock().monotonic_ms()
        monkeypatch.setattr(SystemClock, "monotonic_ms", lambda _: now_ms)  # nothing is refilled
        answers = (await http.post(f"/v1/commands/{way}", json=adds)).json()
        refused = await http.post("/v1/commands", json=adds[0])

    added = [answer for answer in answers if "result" in answer]
    if way == "pipeline":  # each by itself
        assert 10 <= len(added) < 100
        assert answers[-1]["error"].startswith("LIMIT at most 10 entries a second")
    else:  # all or none
        assert len(added) == 100
    assert refused.status_code == 429
    assert refused.json()["error"].startswith("LIMIT at most 10 entries a second")


async def test_a_request_that_is_denied_counts_as_one(gateway: Secured) -> None:
    reader = Grant(streams=["news"], do=[Verb.READ])
    async with limited(gateway, reader, requests_per_s_max=1) as http:
        answers = [await http.delete(STREAM) for _ in range(50)]

    assert answers[0].status_code == 403
    assert answers[0].headers["RateLimit-Policy"] == '"requests";q=1;w=1'
    check_refused(next(answer for answer in answers if answer.status_code == 429), "requests")


async def test_connections_are_slowed_and_lose_nothing(gateway: Secured) -> None:
    live = gateway.live
    async with limited(gateway, requests_per_s_max=100, entries_per_s_max=200) as http:
        ids = await live.append("orders", *map(str, range(300)))
        async with events_of(live, f"{STREAM}/events?after=0", **credential(http)) as events:
            await events.next("ready")
            assert await events.entries(300) == ids
        async with frames_of(http) as frames:
            await frames.next("welcome")
            for number in range(120):
                append = {"stream": "orders", "entries": [{"fields": {"v": "1"}}]}
                await frames.send(type="append", rid=str(number), **append)
            answers = [await frames.next("appended") for _ in range(120)]
            assert [answer["rid"] for answer in answers] == [str(number) for number in range(120)]


async def test_a_socket_that_goes_on_is_closed(
    gateway: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "SLOWED_S_MAX", 0.0)
    async with limited(gateway, requests_per_s_max=10) as http, frames_of(http) as frames:
        await frames.next("welcome")
        for number in range(100):
            await frames.send(type="ping", rid=str(number))
        frame = await frames.any()
        while frame["type"] == "pong":
            frame = await frames.any()

        assert frame["problem"]["code"] == "rate_limited"
        assert await frames.closed() == 4529


async def test_the_entries_of_a_commit_are_paid_before_the_next_request(gateway: Secured) -> None:
    steps = [{"append": {"stream": "orders", "entries": [ENTRY] * 200}}] * 2
    async with limited(gateway, entries_per_s_max=10) as http, frames_of(http) as frames:
        await frames.next("welcome")
        await frames.send(type="commit", steps=steps)
        await frames.next("committed")
        refused = await http.post(ENTRIES, json=ENTRY)

    check_refused(refused, "entries_per_s_max")
    assert refused.json()["retry_after_ms"] > 30_000


async def test_there_are_no_more_connections_than_a_principal_may_have(gateway: Secured) -> None:
    async with limited(gateway, connections_max=1) as http:
        path = f"{STREAM}/events"
        async with events_of(gateway.live, path, **credential(http)) as events:
            await events.next("ready")
            refused = await http.get(path)
            async with frames_of(http) as frames:
                assert (await frames.problem())[1] == "too_many_connections"
                assert await frames.closed() == 1013
            # A token in the first frame brings the limits of its principal.
            async with connect(f"{gateway.live.ws_url}/v1/ws") as socket:
                token = http.headers["Authorization"].removeprefix("Bearer ")
                await Frames(socket).send(type="auth", token=token)
                assert (await Frames(socket).problem())[1] == "too_many_connections"

        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_connections")
        assert "principal_connections_max" in refused.json()["detail"]
        await until(lambda: gateway.live.gateway.metrics.connection_count == 0)
        async with frames_of(http) as frames:
            await frames.next("welcome")


async def test_there_are_no_more_subscriptions_than_a_principal_may_have(gateway: Secured) -> None:
    async with limited(gateway, subscriptions_max=1) as http, frames_of(http) as frames:
        await frames.next("welcome")
        await frames.subscribe("a")
        await frames.send(type="subscribe", rid="b", sub="b", stream="orders")
        assert await frames.problem() == ("b", "too_many_connections")
        refused = await http.get(f"{STREAM}/events")
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_connections")
        await frames.send(type="unsubscribe", rid="c", sub="a")
        await frames.next("unsubscribed")
        await frames.subscribe("d")


async def test_there_are_no_more_long_polls_than_a_principal_may_have(gateway: Secured) -> None:
    async with limited(gateway, waiters_max=1) as http:
        url = f"{ENTRIES}?after=$&wait_ms=60000"
        waiting = asyncio.create_task(http.get(url))
        await gateway.live.until_waiting(1)
        refused = await http.get(url)
        await gateway.live.append("orders", "new")

        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_waiters")
        assert "principal_waiters_max" in refused.json()["detail"]
        assert len((await waiting).json()["entries"]) == 1


async def test_settings_limit_those_who_need_no_credential_by_their_address() -> None:
    limits = {"entries_per_s_max": 10, "principal_connections_max": 1}
    settings = Settings.model_validate({**limits, "trusted_proxies": ["127.0.0.1"]})
    async with running(settings) as live:
        first, second = ({"X-Forwarded-For": f"127.0.0.{number}"} for number in (2, 3))
        await live.http.post(ENTRIES, json=ENTRY, headers=first)
        async with events_of(live, f"{STREAM}/events?after=$", **first) as events:
            await events.next("ready")
            refused = await live.http.get(f"{STREAM}/events", headers=first)
            assert refused.json()["code"] == "too_many_connections"
        await live.http.post(BATCH, json=[ENTRY] * 100, headers=first)
        for pretending in ({}, {"Authorization": "Bearer me"}):
            answer = await live.http.post(ENTRIES, json=ENTRY, headers=first | pretending)
            check_refused(answer, "entries_per_s_max")
        assert (await live.http.post(ENTRIES, json=ENTRY, headers=second)).status_code == 201


async def test_settings_limit_keys_that_have_no_limits_of_their_own(tmp_path: Path) -> None:
    keys, limits = Keys(tmp_path / "keys.json"), UsageLimits(entries_per_s_max=100_000)
    own = await asyncio.to_thread(partial(keys.add, EVERYTHING, name="own", limits=limits))
    async with secured(tmp_path, entries_per_s_max=10) as gateway:
        await gateway.live.append("orders", *map(str, range(100)))
        check_refused(await gateway.admin.post(ENTRIES, json=ENTRY), "entries_per_s_max")
        async with gateway.client(own) as http:
            for _ in range(2):
                assert (await http.post(BATCH, json=[ENTRY] * 100)).status_code == 201
