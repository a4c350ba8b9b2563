"""Numbers: whatever number stands in any place of any request or frame, the gateway goes on.

The places come from the documents, so that a new one is tried too.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from pydantic import TypeAdapter
from websockets.exceptions import ConnectionClosedError

from headgate.app.live.frames.client import AnyClientFrame
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.live.frames import frames_of

DOCUMENT = json.loads((Path(__file__).parents[3] / "openapi" / "openapi.json").read_text())
FRAMES = TypeAdapter[Any](AnyClientFrame).json_schema()

NUMBERS = [
    *("-1", "0", "1.5", "1e400", "-1e400", "1e5"),
    *(str(sign * 2**bits + more) for bits in (63, 64) for sign in (1, -1) for more in (-1, 0)),
    *("9" * 30, "9" * 400, "9" * 5000, "-" + "9" * 5000),
]
TEXTS = [
    *(number for number in NUMBERS if len(number) < 500),
    *(f"{number}-0" for number in NUMBERS[6:10]),
]
"""As ids and the like: a header or a path of 5,000 bytes is another matter."""

HERE = "@@"
"""Stands for the number in what is about to be sent."""

NAMES = {"stream": "orders", "group": "billing", "consumer": "worker", "id": "1-0", "writer": "w"}

ENDLESS = "/events"


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the reference it may be."""
    while "$ref" in schema:
        path = schema["$ref"].removeprefix("#/").split("/")
        schema = reduce(lambda part, name: part[name], path, document)
    return schema


def sample(schema: dict[str, Any], document: dict[str, Any], name: str = "") -> Any:
    """Return something of a schema, as small as can be."""
    schema = resolved(schema, document)
    if name in NAMES:
        return NAMES[name]
    for key in ("const", "default", "examples", "enum", "anyOf", "oneOf"):
        if key in ("anyOf", "oneOf") and key in schema:
            return sample(schema[key][0], document, name)
        if key in schema:
            return schema[key][0] if key in ("examples", "enum") else schema[key]
    if schema.get("type") == "object":
        required = schema.get("required", ())
        return {key: sample(schema["properties"][key], document, key) for key in required}
    if schema.get("type") == "array":
        return [sample(schema["items"], document)]
    return {"integer": 1, "number": 1, "boolean": True}.get(schema.get("type", ""), "1-0")


def with_a_number(schema: dict[str, Any], document: dict[str, Any]) -> Iterator[Any]:
    """Yield something of a schema for each place in it where a number may stand."""
    schema = resolved(schema, document)
    for variant in schema.get("anyOf", schema.get("oneOf", ())):
        yield from with_a_number(variant, document)
    kind = schema.get("type")
    if kind in ("integer", "number", "string"):
        yield HERE
    elif kind == "array":
        for variant in with_a_number(schema.get("items", {}), document):
            yield [variant]
    elif kind == "object":
        smallest = sample(schema, document)
        for key, below in schema.get("properties", {}).items():
            for variant in with_a_number(below, document):
                if key not in NAMES or variant != HERE:
                    yield {**smallest, key: variant}


def requests() -> Iterator[tuple[str, str, dict[str, str], Any]]:
    """Yield method, path with query, headers and body of each request, with one number in it."""
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            yield from requests_of(path, method, operation)


def requests_of(
    path: str, method: str, operation: dict[str, Any]
) -> Iterator[tuple[str, str, dict[str, str], Any]]:
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    body = None if schema is None else sample(schema, DOCUMENT)
    parameters = operation.get("parameters", [])
    values = {
        parameter["name"]: NAMES.get(parameter["name"], "1")
        for parameter in parameters
        if parameter["in"] == "path"
    }
    plain = path.format(**values)
    if ENDLESS in path or path.endswith("/claim") or "consumer" in str(parameters):
        plain += "?consumer=worker"
    joint = "&" if "?" in plain else "?"
    for parameter in parameters:
        if parameter["in"] == "path":
            if parameter["name"] not in NAMES or parameter["name"] == "id":
                yield method, path.format(**values | {parameter["name"]: HERE}), {}, body
        elif parameter["in"] == "query" and parameter["name"] not in (
            "consumer",
            "prefix",
            "cursor",
        ):
            yield method, f"{plain}{joint}{parameter['name']}={HERE}", {}, body
        elif parameter["in"] == "header":
            yield method, plain, {parameter["name"]: HERE}, body
    if schema is not None:
        for wrong in with_a_number(schema, DOCUMENT):
            yield method, plain, {}, wrong


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


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("path", DOCUMENT["paths"])
async def test_any_number_in_any_request_is_taken_or_refused(path: str, gateway: Live) -> None:
    for method, operation in DOCUMENT["paths"][path].items():
        for request in requests_of(path, method, operation):
            await prepare(gateway)
            await asyncio.gather(*(try_out(gateway, request, number) for number in TEXTS))
            if request[3] is not None and HERE in json.dumps(request[3]):
                await asyncio.gather(*(try_out(gateway, request, number) for number in NUMBERS))


async def try_out(live: Live, request: tuple[str, str, dict[str, str], Any], number: str) -> None:
    method, path, headers, body = request
    text = None if body is None else json.dumps(body).replace(f'"{HERE}"', number)
    if body is not None and number not in NUMBERS:
        text = json.dumps(body).replace(HERE, number)
    sent = {"Content-Type": "application/json"} if text is not None else {}
    sent |= {name: value.replace(HERE, number) for name, value in headers.items()}
    url = live.url + path.replace(HERE, quote(number, safe=""))
    with_ = httpx.Request(method.upper(), url, headers=sent, content=text)
    answer = await live.http.send(with_, stream=True)
    try:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()
        assert answer.status_code < 500, f"{method} {path} {body} {number[:50]}: {answer.text}"
    finally:
        await answer.aclose()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("kind", FRAMES["discriminator"]["mapping"])
async def test_any_number_in_any_frame_is_taken_or_refused(kind: str, gateway: Live) -> None:
    schema = resolved({"$ref": FRAMES["discriminator"]["mapping"][kind]}, FRAMES)
    for frame in with_a_number(schema, FRAMES):
        if frame.get("type") == HERE:
            continue
        await prepare(gateway)
        for number in NUMBERS:
            async with frames_of(gateway, "/v1/ws") as frames:
                text = json.dumps({**frame, "rid": "r"}).replace(f'"{HERE}"', number)
                with suppress(ConnectionClosedError):
                    await frames.socket.send(text)
                    await frames.send(type="ping", rid="end")
                    async with asyncio.timeout(5):
                        while (await frames.any()).get("rid") != "end":
                            pass
            assert frames.socket.close_code in (1000, 4400), (
                text[:200],
                frames.socket.close_reason,
            )
