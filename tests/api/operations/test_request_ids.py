"""Every answer has an id, and every problem repeats it."""

import asyncio
import json
import uuid

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.api.conftest import Live, problem_in
from tests.api.live.event_source import events_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

MINE = {"X-Request-Id": "checkout-42"}


async def test_an_answer_has_the_id_of_its_request(shared: Live) -> None:
    for path in ("/healthz", "/v1/streams", "/docs", "/openapi.json", "/nothing"):
        chosen = await shared.http.get(path, headers=MINE)
        made = await shared.http.get(path, headers={"X-Request-Id": "not one"})
        assert chosen.headers.get_list("x-request-id") == ["checkout-42"], path
        assert uuid.UUID(made.headers["x-request-id"]).version == 7


async def test_a_problem_repeats_it(shared: Live) -> None:
    for method, path in (
        ("GET", "/v1/streams/none"),
        ("GET", "/v1/streams?limit=none"),
        ("POST", "/v1/streams"),
        ("GET", "/nothing"),
    ):
        answer = await shared.http.request(method, path, headers=MINE)
        assert problem_in(answer)["request_id"] == "checkout-42"
    headers = {**MINE, "Origin": "https://stranger.example"}
    answer = await shared.http.get("/v1/streams", headers=headers)
    assert (answer.status_code, answer.json()["request_id"]) == (403, "checkout-42")


async def test_what_cannot_be_parsed_is_answered_with_one(shared: Live) -> None:
    url = httpx.URL(shared.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"nonsense\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()

    request_id = json.loads(body)["request_id"]
    assert f"x-request-id: {request_id}".encode() in head.splitlines()


async def test_problems_of_a_socket_have_that_of_its_handshake(shared: Live) -> None:
    async with connect(f"{shared.ws_url}/v1/ws", additional_headers=MINE) as socket:
        await socket.recv()
        await socket.send('{"type": "subscribe", "sub": "a", "stream": "none"}')
        refused = json.loads(await socket.recv())
        await socket.send("nonsense")
        last = json.loads(await socket.recv())
        assert socket.response is not None
        assert socket.response.headers.get_all("x-request-id") == ["checkout-42"]

    assert refused["problem"]["request_id"] == last["problem"]["request_id"] == "checkout-42"


async def test_a_handshake_that_is_refused_has_one(shared: Live) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{shared.ws_url}/v1/nothing", additional_headers=MINE)

    assert refused.value.response.headers["X-Request-Id"] == "checkout-42"


async def test_the_problem_that_ends_events_has_that_of_their_request(shared: Live) -> None:
    await shared.append("orders", "1")
    async with events_of(shared, "/v1/streams/orders/events", **MINE) as events:
        await events.next("ready")
        await events.next("caught_up")
        await shared.http.delete("/v1/streams/orders")
        problem = await events.next("problem")

    assert problem["request_id"] == "checkout-42"
