"""Limits of use: who asks for too much is told when to come again, and others notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.auth.limits import usage
from headgate.app.settings import Settings
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import running
from tests.api.live.event_source import events_of
from tests.api.live.frames import Frames
from tests.conditions import moment
from tests.key_files import EVERYTHING, Keys

STREAM = "/v1/streams/orders"
ENTRIES = f"{STREAM}/entries"
BATCH = f"{ENTRIES}/batch"
ENTRY = {"fields": {"v": "1"}}


@asynccontextmanager
async def limited(folder: Path, **limits: int) -> AsyncIterator[tuple[httpx.AsyncClient, Secured]]:
    """Run a gateway with a stream, and yield a client of it whose key has these limits."""
    keys, chosen = Keys(folder / "keys.json"), UsageLimits(**limits)
    key = await asyncio.to_thread(partial(keys.add, EVERYTHING, name="limited", limits=chosen))
    async with secured(folder) as gateway, gateway.client(key) as http:
        await gateway.admin.put(STREAM)
        yield http, gateway


@asynccontextmanager
async def frames_of(http: httpx.AsyncClient, path: str = "/v1/ws") -> AsyncIterator[Frames]:
    """Yield a socket of the same principal."""
    url = f"ws{str(http.base_url).removeprefix('http')}".rstrip("/") + path
    async with connect(url, additional_headers=credential(http)) as socket:
        yield Frames(socket)


def check_refused(answer: httpx.Response, setting: str) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (429, "rate_limited")
    assert setting in problem["detail"]
    assert problem["retryable"]
    seconds = -(-problem["retry_after_ms"] // 1000)
    assert answer.headers["Retry-After"] == str(seconds)


async def test_too_many_entries_are_refused_until_the_earlier_are_paid(tmp_path: Path) -> None:
    async with limited(tmp_path, entries_per_s_max=10) as (http, gateway):
        taken = await http.post(BATCH, json=[ENTRY] * 1000)
        refused = await http.post(ENTRIES, json=ENTRY)
        read = await http.get(ENTRIES)
        described = await gateway.admin.get(STREAM)

        assert taken.status_code == 201
        check_refused(refused, "entries_per_s_max")
        check_refused(read, "entries_per_s_max")
        assert refused.json()["retry_after_ms"] > 90_000
        assert described.json()["length"] == 1000
        assert (await gateway.admin.post(ENTRIES, json=ENTRY)).status_code == 201


async def test_who_waits_as_long_as_it_is_told_is_served(tmp_path: Path) -> None:
    async with limited(tmp_path, entries_per_s_max=100) as (http, _):
        await http.post(BATCH, json=[ENTRY] * 110)
        refused = await http.post(ENTRIES, json=ENTRY)
        check_refused(refused, "entries_per_s_max")
        await asyncio.sleep(refused.json()["retry_after_ms"] / 1000)

        assert (await http.post(ENTRIES, json=ENTRY)).status_code == 201


async def test_what_is_read_is_paid_afterwards(tmp_path: Path) -> None:
    async with limited(tmp_path, entries_per_s_max=10) as (http, gateway):
        await gateway.live.append("orders", *map(str, range(500)))
        read = await http.get(f"{ENTRIES}?limit=500")
        again = await http.get(f"{ENTRIES}?limit=1")

    assert len(read.json()["entries"]) == 500
    check_refused(again, "entries_per_s_max")


async def test_a_body_is_paid_by_the_request_that_comes_next(tmp_path: Path) -> None:
    async with limited(tmp_path, bytes_per_s_max=1000) as (http, _):
        first = await http.post(ENTRIES, json={"fields": {"v": "x" * 100_000}})
        second = await http.get("/v1/streams")

    assert first.status_code == 201
    check_refused(second, "bytes_per_s_max")


async def test_commands_are_requests(tmp_path: Path) -> None:
    async with limited(tmp_path, requests_per_s_max=10) as (http, _):
        answers = await http.post("/v1/commands/pipeline", json=[["PING"]] * 500)
        refused = await http.post("/v1/commands", json=["PING"])

    assert answers.json() == [{"result": "PONG"}] * 500
    check_refused(refused, "requests_per_s_max")


@pytest.mark.parametrize("way", ["pipeline", "multi-exec"])
async def test_commands_append_entries(tmp_path: Path, way: str) -> None:
    adds = [["XADD", "commanded", "*", "v", str(number)] for number in range(100)]
    async with limited(tmp_path, entries_per_s_max=10) as (http, _):
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


async def test_answers_say_what_is_left(tmp_path: Path) -> None:
    async with limited(tmp_path, requests_per_s_max=100, entries_per_s_max=5) as (http, gateway):
        answer = await http.post(BATCH, json=[ENTRY] * 25)
        refused = await http.post(ENTRIES, json=ENTRY)
        unlimited = await gateway.admin.get("/v1/streams")

    policy = '"requests";q=100;w=1, "entries";q=5;w=1'
    assert answer.headers["RateLimit-Policy"] == policy
    assert '"entries";r=0;t=5' in answer.headers["RateLimit"]
    assert refused.headers["RateLimit-Policy"] == policy
    assert "RateLimit" not in unlimited.headers


async def test_a_request_that_is_denied_counts_as_one(tmp_path: Path) -> None:
    keys, limits = Keys(tmp_path / "keys.json"), UsageLimits(requests_per_s_max=1)
    reader = Grant(streams=["news"], do=[Verb.READ])
    key = await asyncio.to_thread(partial(keys.add, reader, name="limited", limits=limits))
    async with secured(tmp_path) as gateway, gateway.client(key) as http:
        answers = [await http.delete(STREAM) for _ in range(50)]

    assert answers[0].status_code == 403
    assert answers[0].headers["RateLimit-Policy"] == '"requests";q=1;w=1'
    check_refused(next(answer for answer in answers if answer.status_code == 429), "requests")


async def test_probes_are_never_refused(tmp_path: Path) -> None:
    async with limited(tmp_path, requests_per_s_max=1) as (http, _):
        await http.post("/v1/commands/pipeline", json=[["PING"]] * 500)
        check_refused(await http.get("/v1/limits"), "requests_per_s_max")

        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/readyz")).status_code == 200


async def test_two_keys_of_one_name_share_its_limits(tmp_path: Path) -> None:
    limits = UsageLimits(entries_per_s_max=7)
    keys = Keys(tmp_path / "keys.json")
    texts = [
        await asyncio.to_thread(partial(keys.add, EVERYTHING, name="ana", limits=limits))
        for _ in range(2)
    ]
    async with secured(tmp_path) as gateway:
        async with gateway.client(texts[0]) as first:
            await first.post(BATCH, json=[ENTRY] * 700)
        async with gateway.client(texts[1]) as second:
            check_refused(await second.post(ENTRIES, json=ENTRY), "entries_per_s_max")


async def test_event_streams_are_slowed_and_lose_nothing(tmp_path: Path) -> None:
    async with limited(tmp_path, entries_per_s_max=200) as (http, gateway):
        ids = await gateway.live.append("orders", *map(str, range(450)))
        async with events_of(
            gateway.live, f"{STREAM}/events?after=0", **credential(http)
        ) as events:
            await events.next("ready")
            assert await events.entries(450) == ids


def credential(http: httpx.AsyncClient) -> dict[str, str]:
    return {"Authorization": http.headers["Authorization"]}


async def test_sockets_are_slowed_and_lose_nothing(tmp_path: Path) -> None:
    async with (
        limited(tmp_path, requests_per_s_max=100, entries_per_s_max=200) as (http, _),
        frames_of(http) as frames,
    ):
        await frames.next("welcome")
        await frames.subscribe("a", credit=1000, after="$")
        for number in range(150):
            await frames.send(
                type="append", rid=str(number), stream="orders", entries=[{"fields": {"v": "1"}}]
            )
        answers = [await frames.any() for _ in range(150)]
        while sum(answer["type"] == "appended" for answer in answers) < 150:
            answers.append(await frames.any())

        appended = [answer for answer in answers if answer["type"] == "appended"]
        assert [answer["rid"] for answer in appended] == [str(number) for number in range(150)]


async def test_a_socket_that_goes_on_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "SLOWED_S_MAX", 0.0)
    async with limited(tmp_path, requests_per_s_max=10) as (http, _), frames_of(http) as frames:
        await frames.next("welcome")
        for number in range(100):
            await frames.send(type="ping", rid=str(number))
        frame = await frames.any()
        while frame["type"] == "pong":
            frame = await frames.any()

        assert frame["problem"]["code"] == "rate_limited"
        assert await frames.closed() == 4529


async def test_there_are_no_more_connections_than_a_principal_may_have(tmp_path: Path) -> None:
    async with limited(tmp_path, connections_max=1) as (http, gateway):
        async with events_of(gateway.live, f"{STREAM}/events", **credential(http)) as events:
            await events.next("ready")
            refused = await http.get(f"{STREAM}/events")
            async with frames_of(http) as frames:
                assert (await frames.problem())[1] == "too_many_connections"
                assert await frames.closed() == 1013

        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_connections")
        assert "principal_connections_max" in refused.json()["detail"]
        async with asyncio.timeout(10):
            while not await is_welcome(http):
                await moment()


async def is_welcome(http: httpx.AsyncClient) -> bool:
    async with frames_of(http) as frames:
        return bool((await frames.any())["type"] == "welcome")


async def test_there_are_no_more_subscriptions_than_a_principal_may_have(tmp_path: Path) -> None:
    async with limited(tmp_path, subscriptions_max=1) as (http, _), frames_of(http) as frames:
        await frames.next("welcome")
        await frames.subscribe("a")
        await frames.send(type="subscribe", rid="b", sub="b", stream="orders")
        assert await frames.problem() == ("b", "too_many_connections")
        refused = await http.get(f"{STREAM}/events")
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_connections")
        await frames.send(type="unsubscribe", rid="c", sub="a")
        await frames.next("unsubscribed")
        await frames.subscribe("d")


async def test_there_are_no_more_long_polls_than_a_principal_may_have(tmp_path: Path) -> None:
    async with limited(tmp_path, waiters_max=1) as (http, gateway):
        url = f"{ENTRIES}?after=$&wait_ms=60000"
        waiting = asyncio.create_task(http.get(url))
        await gateway.live.until_waiting(1)
        refused = await http.get(url)
        await gateway.live.append("orders", "new")

        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_waiters")
        assert "principal_waiters_max" in refused.json()["detail"]
        assert len((await waiting).json()["entries"]) == 1


async def test_settings_limit_those_who_need_no_credential() -> None:
    settings = Settings(entries_per_s_max=10, principal_connections_max=1)
    async with running(settings) as live:
        await live.append("orders", "0")
        async with events_of(live, f"{STREAM}/events?after=$") as events:
            await events.next("ready")
            refused = await live.http.get(f"{STREAM}/events")
            assert refused.json()["code"] == "too_many_connections"
        await live.append("orders", *map(str, range(100)))
        check_refused(await live.http.post(ENTRIES, json=ENTRY), "entries_per_s_max")
        pretending = {"Authorization": "Bearer me"}
        answer = await live.http.post(ENTRIES, json=ENTRY, headers=pretending)
        check_refused(answer, "entries_per_s_max")


async def test_settings_limit_keys_that_have_no_limits_of_their_own(tmp_path: Path) -> None:
    keys, limits = Keys(tmp_path / "keys.json"), UsageLimits(entries_per_s_max=100_000)
    own = await asyncio.to_thread(partial(keys.add, EVERYTHING, name="own", limits=limits))
    async with secured(tmp_path, entries_per_s_max=10) as gateway:
        await gateway.live.append("orders", *map(str, range(100)))
        check_refused(await gateway.admin.post(ENTRIES, json=ENTRY), "entries_per_s_max")
        async with gateway.client(own) as http:
            for _ in range(2):
                assert (await http.post(BATCH, json=[ENTRY] * 100)).status_code == 201


async def test_an_auth_frame_brings_the_limits_of_its_principal(tmp_path: Path) -> None:
    async with limited(tmp_path, connections_max=1) as (http, gateway):
        token = http.headers["Authorization"].removeprefix("Bearer ")
        url = f"{gateway.live.ws_url}/v1/ws"
        async with connect(url) as first, connect(url) as second:
            await Frames(first).send(type="auth", token=token)
            assert (await Frames(first).any())["type"] != "problem"
            await Frames(second).send(type="auth", token=token)
            assert (await Frames(second).problem())[1] == "too_many_connections"


async def test_clients_behind_a_trusted_proxy_have_limits_each() -> None:
    settings = Settings(entries_per_s_max=10, trusted_proxies=["127.0.0.1"])
    async with running(settings) as live:
        first, second = ({"X-Forwarded-For": f"10.0.0.{number}"} for number in (1, 2))
        await live.http.post(BATCH, json=[ENTRY] * 100, headers=first)

        check_refused(await live.http.post(ENTRIES, json=ENTRY, headers=first), "entries_per_s_max")
        assert (await live.http.post(ENTRIES, json=ENTRY, headers=second)).status_code == 201
