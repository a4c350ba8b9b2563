"""A token of an issuer opens a gateway, until the issuer withdraws the key that signed it."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from headgate.app.gateway.credentials import open_credentials
from headgate.app.settings import Settings
from tests.api.conftest import running
from tests.conditions import until
from tests.unit.app.auth.tokens.issuing import SECRET, jwk_of, key_set_of, sign

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
            "The keys that verify tokens may be old: those fetched last stay in use."
        ]
        assert (await live.http.get("/v1/limits", headers=headers)).status_code == 200


def test_a_keys_file_that_is_named_and_missing_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.json: there is no such file"):
        open_credentials(Settings(keys_file=tmp_path / "none.json"))
