"""Whatever stands in any place of any request or frame, it is taken or refused where it stands."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from pydantic import TypeAdapter
from websockets.exceptions import ConnectionClosedError

from headgate.app.live.frames.client import AnyClientFrame
from headgate.app.settings import Settings
from tests.api.conftest import Live, problem_in, running
from tests.api.live.frames import frames_of
from tests.api.refusals.places import DOCUMENT, HERE, Place, kinds, placed, places, resolved
from tests.conditions import WITHIN_S

pytestmark = pytest.mark.asyncio(loop_scope="session")

FRAMES = TypeAdapter[Any](AnyClientFrame).json_schema()
NUMBERS = ["-1", "1.5", "1e400", str(2**63), str(-(2**64)), "9" * 5000]
TEXTS = [*(number for number in NUMBERS if len(number) < 500), "9" * 400, f"{2**64}-0"]
"""As ids and the like: a header or a path of 5,000 bytes is another matter."""

VALUES = {
    "integer": 7,
    "number": 1.5,
    "string": "x y",
    "boolean": True,
    "null": None,
    "array": [],
    "object": {},
}
NUMERIC = {"integer", "number", "string"}
UNKNOWN = "unknown"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gateway() -> AsyncIterator[Live]:
    settings = Settings(wait_ms_max=5, heartbeat_ms=100, credit_max=10**6)
    async with running(settings) as live:
        yield live


async def prepare(live: Live) -> None:
    """See to it that there is a stream with a group in which a worker holds an entry."""
    await live.append("orders", "a", "b")
    answer = await live.http.put("/v1/streams/orders/groups/billing", json={"start": "0"})
    assert answer.status_code < 500
    url = "/v1/streams/orders/groups/billing/read?consumer=worker"
    await live.http.post(url, json={"limit": 1})


@pytest.mark.parametrize("path", DOCUMENT["paths"])
async def test_any_number_in_any_request_is_taken_or_refused(path: str, gateway: Live) -> None:
    for place in places(path):
        taken = kinds(place.schema, DOCUMENT)
        is_text = "string" in taken or not place.pointer.startswith("/body")
        if is_text or taken & NUMERIC:
            await prepare(gateway)
            numbers = TEXTS if is_text else NUMBERS
            await asyncio.gather(*(try_out(gateway, place, number) for number in numbers))


async def try_out(live: Live, place: Place, number: str) -> None:
    content = None if place.body is None else json.dumps(place.body)
    if content is not None:
        is_text = "string" in kinds(place.schema, DOCUMENT)
        content = content.replace(HERE if is_text else f'"{HERE}"', number)
    sent = {"Content-Type": "application/json"} if content is not None else {}
    sent |= {name: value.replace(HERE, number) for name, value in place.headers.items()}
    url = live.url + place.path.replace(HERE, quote(number, safe=""))
    request = httpx.Request(place.method.upper(), url, headers=sent, content=content)
    answer = await live.http.send(request, stream=True)
    try:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()
        assert answer.status_code < 500, f"{place}: {number[:50]}: {answer.text}"
    finally:
        await answer.aclose()


@pytest.mark.parametrize("kind", FRAMES["discriminator"]["mapping"])
async def test_any_number_in_any_frame_is_taken_or_refused(kind: str, gateway: Live) -> None:
    schema = resolved({"$ref": FRAMES["discriminator"]["mapping"][kind]}, FRAMES)
    await prepare(gateway)
    for frame, pointer, below in placed(schema, FRAMES):
        if not pointer or pointer == "/type" or not kinds(below, FRAMES) & NUMERIC:
            continue
        for number in NUMBERS:
            async with frames_of(gateway, "/v1/ws") as frames:
                text = json.dumps({**frame, "rid": "r"}).replace(f'"{HERE}"', number)
                with suppress(ConnectionClosedError):
                    await frames.socket.send(text)
                    await frames.send(type="ping", rid="end")
                    async with asyncio.timeout(WITHIN_S):
                        while (await frames.any()).get("rid") != "end":
                            pass
            closed = frames.socket.close_code, frames.socket.close_reason
            assert closed[0] in (1000, 4400), (text[:200], closed)


def wrong_values(place: Place) -> Iterator[tuple[str, str]]:
    """Yield texts that cannot stand in a place, each with the pointer of its problem."""
    taken = kinds(place.schema, DOCUMENT)
    is_body = place.pointer.startswith("/body")
    if is_body:
        taken |= {"integer"} if "number" in taken else set()
        wrong = [VALUES[kind] for kind in VALUES if taken and kind not in taken]
        if place.pointer == "/body/names_base64":  # null: what it goes with is missing, too
            wrong.remove(None)
        yield from ((json.dumps(value), place.pointer) for value in wrong)
    elif taken == {"integer"}:
        yield from ((text, place.pointer) for text in ("x", "1.5", "", "true", "9" * 5000))
    bounded = resolved(place.schema, DOCUMENT)
    for bounds in (bounded, *bounded.get("anyOf", ())):
        for key, step in (("minimum", -1), ("maximum", 1)):
            if key in bounds:
                yield str(bounds[key] + step), place.pointer
        if "enum" in bounds:
            yield json.dumps("nothing") if is_body else "nothing", place.pointer
    if taken == {"object"} and "properties" in bounded:
        yield json.dumps({UNKNOWN: 1}), f"{place.pointer}/{UNKNOWN}"
        yield from (("{}", f"{place.pointer}/{key}") for key in bounded.get("required", ()))


@pytest.mark.parametrize("path", DOCUMENT["paths"])
async def test_what_cannot_stand_in_a_place_is_refused_there(path: str, shared: Live) -> None:
    before = shared.position
    for place in places(path):
        if place.pointer.startswith(("/path", "/header")):
            continue
        for text, pointer in wrong_values(place):
            content, url = None, place.path.replace(HERE, text)
            if place.body is not None:
                content = json.dumps(place.body).replace(f'"{HERE}"', text)
            headers = {} if content is None else {"Content-Type": "application/json"}
            answer = await shared.http.request(
                place.method.upper(), url, content=content, headers=headers
            )
            pointers = [error["pointer"] for error in problem_in(answer).get("errors", ())]
            where = f"{place.method} {path} {pointer} {text[:50]}: {answer.text}"
            assert answer.status_code == 422, where
            assert any(f"{each}/".startswith(f"{pointer}/") for each in pointers), where
    for method in DOCUMENT["paths"][path]:
        url = next((place.path for place in places(path) if place.method == method), path)
        joint = "&" if "?" in url else "?"
        answer = await shared.http.request(method.upper(), f"{url}{joint}{UNKNOWN}=1")
        pointers = [error["pointer"] for error in answer.json().get("errors", ())]
        if path != "/v1/commands/{words}":  # what follows is words of the command
            assert f"/query/{UNKNOWN}" in pointers, (method, url, answer.text)
    assert shared.position == before
