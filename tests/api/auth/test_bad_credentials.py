"""Bad credentials are counted against the address that they come from, whatever the way in."""

import asyncio
import base64
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import httpx
import jwt
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.api.auth.secured import Secured, secured
from tests.conditions import WITHIN_S

RATE = 2
FLOOD = 40
"""More than may come at once, and in the second that sending them takes."""

SECRET = "s" * 64


def good_token() -> str:
    """Return a token that the gateway has not seen yet."""
    grants = [{"streams": ["*"], "do": ["read"]}]
    claims = {"sub": "ann", "jti": token_hex(), "exp": int(time.time()) + 600, "headgate": grants}
    return jwt.encode(claims, SECRET, "HS256")


def forged(number: int) -> str:
    """Return a token that nobody has signed."""
    parts = ({"alg": "HS256"}, {"sub": "ann", "n": number})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join([*(text.rstrip("=") for text in texts), "c2ln"])


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    settings = {"bad_credentials_per_s_max": RATE, "jwt_secret": SECRET, "redis_port": 0}
    async with secured(tmp_path, trusted_proxies=["127.0.0.1"], **settings) as running:
        yield running


Sender = Callable[[Secured, str], Awaitable[str]]
EVENTS = "/v1/streams/a/events"
WAYS: dict[str, Sender] = {
    "header": lambda gateway, token: get(gateway, {"Authorization": f"Bearer {token}"}),
    "ticket": lambda gateway, token: get(gateway, {}, f"{EVENTS}?ticket={token}"),
    "cookie": lambda gateway, token: get(gateway, {"Cookie": f"headgate_token={token}"}, EVENTS),
    "subprotocol": lambda gateway, token: by_socket(gateway, f"headgate.bearer.{token}", None),
    "frame": lambda gateway, token: by_socket(gateway, "headgate.v1.json", token),
    "auth": lambda gateway, token: by_redis(gateway, "AUTH", token),
    "hello": lambda gateway, token: by_redis(gateway, "HELLO", "3", "AUTH", "default", token),
    "other user": lambda gateway, token: by_redis(gateway, "AUTH", "nobody", f"hg_other_{token}"),
}


async def get(gateway: Secured, headers: dict[str, str], path: str = "/v1/streams") -> str:
    async with httpx.AsyncClient(base_url=gateway.live.url, verify=False) as http:
        answer = await http.get(path, headers=headers)
    code = answer.json()["code"] if answer.is_error else "ok"
    if code == "rate_limited":
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
    return str(code)


async def by_socket(gateway: Secured, subprotocol: str, token: str | None) -> str:
    url = f"{gateway.live.ws_url}/v1/ws"
    async with connect(url, subprotocols=[Subprotocol(subprotocol)]) as socket:
        frame = {"type": "ping"} if token is None else {"type": "auth", "token": token}
        with suppress(ConnectionClosed):
            await socket.send(json.dumps({"rid": "a", **frame}))
        return await problem_of(socket)


async def problem_of(socket: ClientConnection) -> str:
    while True:
        frame = json.loads(await asyncio.wait_for(socket.recv(), WITHIN_S))
        if frame["type"] == "problem":
            return str(frame["problem"]["code"])
        if frame["type"] in ("authenticated", "pong"):
            return "ok"


async def by_redis(gateway: Secured, *words: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.live.redis_port)
    writer.write((" ".join(words) + "\r\n").encode())
    reply = await asyncio.wait_for(reader.readline(), WITHIN_S)
    writer.close()
    return {b"-WRONGPASS": "unauthenticated", b"-LIMIT": "rate_limited"}.get(reply.split()[0], "ok")


async def until_refused(send: Sender, gateway: Secured) -> None:
    """Send forged tokens until too many have come."""
    codes = [await send(gateway, forged(number)) for number in range(FLOOD)]
    assert set(codes) == {"unauthenticated", "rate_limited"}
    assert codes.index("rate_limited") >= 5 * RATE


@pytest.mark.parametrize("way", WAYS)
async def test_bad_credentials_are_counted_whatever_the_way_in(gateway: Secured, way: str) -> None:
    send = WAYS[way]
    await until_refused(send, gateway)

    if way not in ("ticket", "other user"):
        code = await send(gateway, good_token())  # which nobody has seen before
        assert code in ("ok", "stream_not_found")
    assert (await gateway.admin.get("/v1/streams")).status_code == 200


async def test_a_good_credential_works_beside_bad_ones_of_its_address(gateway: Secured) -> None:
    known, send = good_token(), WAYS["header"]
    assert await send(gateway, known) == "ok"
    for number in range(3):
        await asyncio.gather(*(send(gateway, forged(number)) for _ in range(FLOOD)))
        assert await send(gateway, known) == "ok"
        assert (await gateway.admin.get("/v1/streams")).status_code == 200


async def test_other_addresses_are_not_concerned(gateway: Secured) -> None:
    bad = f"Bearer {forged(0)}"
    codes = defaultdict[str, set[str]](set)
    for number in range(FLOOD):
        for address in ("2001:db8::7", f"2001:db8::{number:x}", "192.0.2.7"):
            headers = {"Authorization": bad, "X-Forwarded-For": address}
            if address != "192.0.2.7" or number < 2:
                codes[address].add(await get(gateway, headers))
    assert "rate_limited" in codes["2001:db8::7"]  # its network is all of these
    assert codes["192.0.2.7"] == {"unauthenticated"}


async def test_what_is_beyond_the_rate_leaves_no_line(
    gateway: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headgate.audit")
    codes = [await get(gateway, {"Authorization": f"Bearer {forged(0)}"}) for _ in range(FLOOD)]
    lines = [vars(record) for record in caplog.records]
    assert len(lines) == codes.count("unauthenticated")
    assert {line["client"] for line in lines} == {"127.0.0.1"}
