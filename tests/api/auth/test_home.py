"""Rights of a key and tokens of an issuer, in a gateway that begins without either."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from headgate.app.auth.grants import Grant, Verb
from headgate.app.gateway.credentials import open_credentials
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.live.event_source import events_of
from tests.api.live.frames import frames_of
from tests.conditions import until
from tests.key_files import Keys
from tests.unit.app.auth.tokens.issuing import SECRET, jwk_of, key_set_of, sign

READ_NEWS = Grant(streams=["news"], do=[Verb.READ])


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with running(Settings(heartbeat_ms=200, data_dir=tmp_path)) as gateway:
        yield gateway


async def _first_key(live: Live, folder: Path) -> str:
    key = await asyncio.to_thread(Keys(folder / "keys.json").add, READ_NEWS)
    await until(lambda: not live.gateway.auth.is_open)
    return key


async def test_from_the_first_key_on_everybody_needs_one(live: Live, tmp_path: Path) -> None:
    await live.append("news", "a")
    blocked = asyncio.create_task(live.http.get("/v1/streams/news/entries?after=$&wait_ms=30000"))
    await live.until_waiting(1)
    async with (
        frames_of(live, "/v1/ws") as socket,
        events_of(live, "/v1/streams/news/events") as events,
    ):
        await events.next("ready", "caught_up")
        key = await _first_key(live, tmp_path)

        assert (await socket.next("problem"))["problem"]["code"] == "unauthenticated"
        assert await socket.closed() == 4401
        assert (await events.next("problem"))["code"] == "unauthenticated"
        await events.ended()
        assert (await blocked).status_code == 401
    assert (await live.http.get("/v1/streams/news")).status_code == 401
    live.http.headers["Authorization"] = f"Bearer {key}"
    assert (await live.http.get("/v1/streams/news")).status_code == 200
    assert (await live.http.delete("/v1/streams/news")).status_code == 403


async def test_without_keys_a_proxy_serves_this_machine_only(tmp_path: Path) -> None:
    there, here = {"X-Forwarded-For": "127.0.0.1, 203.0.113.9"}, {"X-Forwarded-For": "127.0.0.1"}
    settings = Settings(data_dir=tmp_path, trusted_proxies=["127.0.0.1"])
    async with running(settings) as live:
        for path in ("/v1/streams", "/v1/keys", "/console", "/metrics"):
            refused = await live.http.get(path, headers=there)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated"), path
        for unreadable in ("unknown", "", "127.0.0.1, _hidden", "127.0.0.1,"):
            headers = {"X-Forwarded-For": unreadable}
            assert (await live.http.get("/v1/streams", headers=headers)).status_code == 401
        with pytest.raises(InvalidStatus) as handshake:
            await connect(f"{live.ws_url}/v1/ws", additional_headers=there)
        assert handshake.value.response.status_code == 401
        assert (await live.http.get("/v1/streams", headers=here)).status_code == 200
        key = await _first_key(live, tmp_path)
        with_key = {**there, "Authorization": f"Bearer {key}"}
        assert (await live.http.get("/v1/streams/news", headers=with_key)).status_code == 404


async def test_a_long_answer_breaks_off_with_its_credential(live: Live, tmp_path: Path) -> None:
    key, value = "", "x" * 100_000
    for _ in range(4):
        await live.append("news", *[value] * 100)
    for media_type in ("application/x-ndjson", "application/vnd.apache.arrow.stream"):
        headers = {"Accept": media_type}
        async with live.http.stream(
            "GET", "/v1/streams/news/entries?limit=400", headers=headers
        ) as answer:
            assert answer.status_code == 200
            parts = answer.aiter_bytes()
            received_bytes = len(await anext(parts))
            if live.gateway.auth.is_open:
                key = await _first_key(live, tmp_path)
            else:
                live.gateway.auth.verify(key).end("The key was revoked.")
            last = b""
            try:
                async for part in parts:
                    received_bytes += len(part)
                    last = (last + part)[-400:]
            except httpx.RemoteProtocolError:
                assert "arrow" in media_type
            else:
                assert b'"code":"unauthenticated"' in last
        assert received_bytes < 400 * len(value)
        live.http.headers["Authorization"] = f"Bearer {key}"


async def test_a_ticket_from_before_the_first_key_is_no_good_after_it(
    live: Live, tmp_path: Path
) -> None:
    await live.append("news", "a")
    made = await live.http.post("/v1/tickets", json={"stream": "news", "do": ["read"]})
    url = f"/v1/streams/news/events?ticket={made.json()['ticket']}"
    async with events_of(live, url) as events:
        await events.next("ready")

    await _first_key(live, tmp_path)
    refused = await live.http.get(url)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")


GRANTS = [{"streams": ["news.{sub}"], "do": ["read", "append"], "create": True}]
ENTRIES = "/v1/streams/news.ann/entries"


def bearer(algorithm: str, **claims: Any) -> dict[str, str]:
    given = {"exp": int(time.time()) + 600, "headgate": GRANTS, **claims}
    return {"Authorization": f"Bearer {sign(algorithm, **given)}"}


def detail(answer: httpx.Response) -> str:
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    return str(answer.json()["detail"])


async def test_a_token_opens_what_its_claims_say() -> None:
    settings = Settings(jwt_secret=SECRET.decode(), jwt_audience="us", jwt_issuer="me")
    good: dict[str, Any] = {"aud": "us", "iss": "me"}
    entry = {"fields": {"v": "1"}}
    async with running(settings) as live:
        assert (await live.http.get(ENTRIES)).status_code == 401

        appended = await live.http.post(ENTRIES, json=entry, headers=bearer("HS256", **good))
        assert appended.status_code == 201
        other = await live.http.get("/v1/streams/news.bob/entries", headers=bearer("HS256", **good))
        assert other.status_code == 403

        answer = await live.http.get(ENTRIES, headers=bearer("HS256", **{**good, "exp": 1}))
        assert detail(answer) == "The token has expired."
        answer = await live.http.get(ENTRIES, headers=bearer("ES256", **good))
        assert detail(answer) == "The token is not valid."


async def test_a_key_that_the_issuer_withdraws_ends_what_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set_of(jwk_of("ES256", "old", 0), jwk_of("ES256", "new", 1)))
    old = bearer("ES256", number=0, header={"kid": "old"})
    new = bearer("ES256", number=1, header={"kid": "new"})
    entry = {"fields": {"v": "1"}}
    async with running(Settings(jwt_jwks=str(path), heartbeat_ms=200)) as live:
        for headers in old, new:
            assert (await live.http.post(ENTRIES, json=entry, headers=headers)).is_success
        url = f"{live.ws_url}/v1/streams/news.ann/ws"
        async with (
            connect(url, additional_headers=old) as ending,
            connect(url, additional_headers=new) as staying,
        ):
            path.write_bytes(key_set_of(jwk_of("ES256", "new", 1)))

            await ending.wait_closed()
            assert ending.close_code == 4401
            assert detail(await live.http.get(ENTRIES, headers=old))
            assert (await live.http.get(ENTRIES, headers=new)).status_code == 200
            await staying.ping()
            assert staying.state.name == "OPEN"


async def test_keys_that_get_a_fault_stay_and_the_probe_says_so(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set_of(jwk_of("ES256", "a")))
    headers = bearer("ES256", header={"kid": "a"})
    async with running(Settings(jwt_jwks=str(path))) as live:
        path.write_bytes(b"{")
        jwks = live.gateway.credentials
        await until(lambda: bool(list(jwks.warnings())))

        ready = (await live.http.get("/readyz")).json()
        assert ready["warnings"] == [
            "The keys that verify tokens may be out of date: the last ones stay in use."
        ]
        assert (await live.http.get("/v1/limits", headers=headers)).status_code == 200


def test_a_keys_file_that_is_named_and_missing_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.json does not exist"):
        open_credentials(Settings(keys_file=tmp_path / "none.json"))
