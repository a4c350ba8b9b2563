"""Every operation x every verb x whose stream, group and consumer it is: allowed, or refused.

The operations, their verbs and their requests come from the document that clients have. What is
refused changes nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pyarrow as pa
import pytest
import pytest_asyncio

from headgate.app.auth.grants import Grant, Verb
from headgate.app.backends.embedded import EmbeddedBackend
from tests.api.auth.matrix import About, Operation, operations
from tests.api.auth.secured import EVERYTHING, Secured, secured

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPERATIONS = {
    operation.id: operation
    for operation in operations(json.loads(Path("openapi/openapi.json").read_text("utf-8")))
    if not operation.path.startswith("/v1/commands")  # see test_command_matrix
}

MINE, YOURS = About("mine.a"), About("yours.a")


class Case(NamedTuple):
    """A grant, and what is asked for with it."""

    name: str
    about: About
    is_own_stream: bool = True
    groups: list[str] | None = None
    consumer: str | None = None


CASES = (
    Case("own", MINE),
    Case("another stream", YOURS, is_own_stream=False),
    Case("the shortest name of the pattern", About("mine.")),
    Case("a name that is too short for the pattern", About("mine"), is_own_stream=False),
    Case("own group", MINE, groups=["g*"]),
    Case("another group", MINE, groups=["h"]),
    Case("own consumer", MINE, consumer="me"),
    Case("another consumer", About("mine.a", consumer="you"), consumer="me"),
)

SHARED = frozenset({"describeGroup"})
"""What is the same for all consumers, so that a grant for one of them is enough."""

NARROWER = {"createTicket": frozenset({"read"})}
"""Operations whose example needs less than the operation may."""


def grant_of(verb: Verb, case: Case) -> Grant | None:
    """Return the grant of a case; None: there is no such grant."""
    if verb is Verb.ADMIN:
        return Grant(streams=["*"], do=[verb]) if case.name == "own" else None
    return Grant(streams=["mine.*"], do=[verb], groups=case.groups, consumer=case.consumer)


def is_allowed(operation: Operation, verb: Verb, case: Case) -> bool:
    """Tell whether the page of rights allows it."""
    verbs = NARROWER.get(operation.id, operation.verbs)
    if operation.is_open:
        return True
    if verbs and verb not in verbs:
        return False
    if not operation.names("stream"):
        return True
    if not case.is_own_stream:
        return False
    if case.groups is not None:
        return operation.names("group") and case.groups == ["g*"]
    if case.consumer is not None and operation.id not in SHARED:
        return operation.names("consumer") and case.consumer == case.about.consumer
    return True


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    folder = tmp_path_factory.mktemp("keys")
    async with secured(folder) as running:
        for stream in ("mine.a", "mine.", "mine", "yours.a"):
            for group in ("g", "h"):
                await running.live.create_group(stream, group)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway: Secured) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a credential: each request says whose it is."""
    async with gateway.client(None) as http:
        yield http


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keys(gateway: Secured) -> dict[tuple[Verb, str], str]:
    """A key for each verb and case."""

    def add_all() -> dict[tuple[Verb, str], str]:
        return {
            (verb, case.name): gateway.keys.add(grant)
            for verb in Verb
            for case in CASES
            if (grant := grant_of(verb, case)) is not None
        }

    added = await asyncio.to_thread(add_all)
    await gateway.key(EVERYTHING)  # once this is known, so are those before it
    return added


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ended(gateway: Secured) -> dict[str, str]:
    """Keys that allowed everything, and have ended."""
    expired = await asyncio.to_thread(lambda: gateway.keys.add(EVERYTHING, expires_at_ms=1))
    revoked = await gateway.key(EVERYTHING)
    await gateway.revoke(revoked)
    async with gateway.client(revoked) as http, asyncio.timeout(10):
        while (await http.get("/v1/limits")).status_code != 401:
            await asyncio.sleep(0.01)
    return {"expired": expired, "revoked": revoked, "unknown": revoked[:-1] + "-"}


def position(gateway: Secured) -> int:
    """Return how many changes the gateway has recorded."""
    backend = gateway.live.gateway.backend
    assert isinstance(backend, EmbeddedBackend)
    storage = backend.engine.storage
    return storage.position


async def status_of(client: httpx.AsyncClient, request: httpx.Request) -> tuple[int, str]:
    """Return the status of an answer, and the code of its problem if it has one."""
    async with client.stream(
        request.method, request.url, headers=request.headers, content=request.content
    ) as answer:
        if not answer.headers.get("content-type", "").startswith("application/problem+json"):
            return answer.status_code, ""
        return answer.status_code, json.loads(await answer.aread())["code"]


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_is_allowed_where_a_grant_says_so(
    name: str, gateway: Secured, client: httpx.AsyncClient, keys: dict[tuple[Verb, str], str]
) -> None:
    operation = OPERATIONS[name]
    for verb, case in cases():
        before = position(gateway)
        request = request_of(operation, client, case.about, keys[verb, case.name])
        status, code = await status_of(client, request)
        if is_allowed(operation, verb, case):
            assert status not in (401, 403), f"{verb}, {case.name}: {status}"
        else:
            assert (status, code) == (403, "forbidden"), f"{verb}, {case.name}: {status}"
            assert position(gateway) == before, f"{verb}, {case.name} has changed something"


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_key_that_has_ended_opens_nothing(
    name: str, gateway: Secured, client: httpx.AsyncClient, ended: dict[str, str]
) -> None:
    operation = OPERATIONS[name]
    for token in (*ended.values(), None):
        before = position(gateway)
        status, code = await status_of(client, request_of(operation, client, MINE, token))
        if operation.is_open:
            assert status == 200
        else:
            assert (status, code) == (401, "unauthenticated")
            assert position(gateway) == before


def cases() -> Iterator[tuple[Verb, Case]]:
    """Yield each verb with each case."""
    for verb in Verb:
        for case in CASES:
            if grant_of(verb, case) is not None:
                yield verb, case


def request_of(
    operation: Operation, client: httpx.AsyncClient, about: About, token: str | None
) -> httpx.Request:
    """Return the request of an operation, with a body of Arrow where its example has none."""
    request = operation.request(client, about, token)
    if operation.id != "stageChunk":
        return request
    sink = pa.BufferOutputStream()
    table = pa.table({"fields": pa.array([[("k", "v")]], pa.map_(pa.utf8(), pa.utf8()))})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = request.headers
    headers.update({"Content-Type": "application/vnd.apache.arrow.stream"})
    del headers["Content-Length"]
    content = sink.getvalue().to_pybytes()
    return client.build_request(request.method, request.url, headers=headers, content=content)
