"""Reserved names: no operation, command or frame changes a stream of the gateway's own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from headgate.app.auth.grants import Grant, Verb
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.api.auth.matrix import About
from tests.api.auth.secured import Secured, position
from tests.api.auth.test_command_matrix import WORDS, outcomes, words_of
from tests.api.auth.test_frame_matrix import FRAMES, SHORT, answer_to, filled, opened
from tests.api.auth.test_matrix import OPERATIONS, request_of, status_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = ["__push", "__push:0", "__ds", "__ds:s", "__anything"]
OWN = About("__push:0")

READS = {name for name in WORDS if name.split()[0] in {"OBJECT", "MEMORY", "XINFO"}} | {
    *("EXISTS", "TYPE", "TOUCH", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "DUMP"),
    *("XLEN", "XRANGE", "XREVRANGE", "XREAD"),
}
DELETES = frozenset({"DEL", "UNLINK", "deleteStream"})
"""An operator may delete such a stream: it may be damaged, or nobody's."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def own(gateway: Secured) -> None:
    """The gateway has streams of its own."""
    for name in NAMES:
        await add(gateway, name)


async def add(gateway: Secured, name: str) -> None:
    perform = gateway.live.gateway.backend.perform
    await perform(Add(name.encode(), [Draft(None, (b"f", b"v"))]))
    await perform(CreateGroup(name.encode(), b"g", GroupStart(MIN_ID)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(gateway: Secured) -> AsyncIterator[httpx.AsyncClient]:
    """Whoever may do everything with all streams, but is no operator."""
    everything = Grant(streams=["*"], do=sorted(set(Verb) - {Verb.ADMIN}), create=True)
    named = Grant(streams=["__*", "__push:0"], do=sorted(set(Verb) - {Verb.ADMIN}), create=True)
    async with gateway.client(await gateway.key(everything, named)) as http:
        yield http


def token_of(client: httpx.AsyncClient) -> str:
    return client.headers["Authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize(
    "name", [name for name, operation in OPERATIONS.items() if operation.names("stream")]
)
async def test_an_operation_reads_it_for_an_operator_at_most(
    name: str, gateway: Secured, user: httpx.AsyncClient
) -> None:
    before = position(gateway)
    request = request_of(OPERATIONS[name], user, OWN, token_of(user))
    assert await status_of(user, request) == (403, "forbidden")
    if name not in DELETES:
        request = request_of(OPERATIONS[name], user, OWN, token_of(gateway.admin))
        await status_of(user, request)
    assert position(gateway) == before


@pytest.mark.parametrize("name", [name for name, words in WORDS.items() if "{s}" in words])
async def test_a_command_reads_it_for_an_operator_at_most(
    name: str, gateway: Secured, user: httpx.AsyncClient
) -> None:
    before, words = position(gateway), words_of(name, OWN)
    for answer in await outcomes(user, words, token_of(user)):
        assert "NOPERM" in str(answer.get("error")), answer
    if name not in DELETES:
        for answer in await outcomes(user, words, token_of(gateway.admin)):
            assert ("NOPERM" in str(answer.get("error"))) != (name in READS), answer
    assert position(gateway) == before


@pytest.mark.parametrize("words", ["COPY mine.a {}", "RENAME mine.a {}", "RENAME {} mine.b"])
@pytest.mark.parametrize("name", NAMES)
async def test_nothing_is_moved_there_or_from_there(
    name: str, words: str, gateway: Secured
) -> None:
    before, admin = position(gateway), gateway.admin
    for answer in await outcomes(admin, words.format(name).split(), token_of(admin)):
        assert "NOPERM" in str(answer["error"])
    assert position(gateway) == before


@pytest.mark.parametrize("name", [*FRAMES, *SHORT])
async def test_a_frame_changes_nothing_there(name: str, gateway: Secured) -> None:
    before, token = position(gateway), token_of(gateway.admin)
    if name in FRAMES:
        async with opened(gateway, "/v1/ws", token) as socket:
            await socket.send(filled(FRAMES[name][0], OWN))
            answer = await answer_to(socket)
        assert (answer["type"] == "problem") == (name != "subscribe to a stream")
    elif "group" in name:
        async with opened(gateway, filled(SHORT[name][0], OWN), token) as socket:
            await socket.wait_closed()
        assert socket.close_code == 4403
    assert position(gateway) == before


async def test_a_policy_or_a_schedule_writes_to_none(gateway: Secured) -> None:
    before = position(gateway)
    policy = {"policy": {"max_deliveries": 1, "dead_letter_stream": "__push"}}
    schedule = {"stream": "__push", "fields": {"a": "b"}, "cron": "* * * * *"}
    for path, body in (("streams/mine.a/groups/n", policy), ("schedules/s", schedule)):
        refused = await gateway.admin.put(f"/v1/{path}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert position(gateway) == before


async def test_lists_and_patterns_show_them_to_an_operator_who_asks_for_them(
    gateway: Secured, user: httpx.AsyncClient
) -> None:
    async def listed(client: httpx.AsyncClient, prefix: str) -> list[str]:
        answer = await client.get("/v1/streams", params={"prefix": prefix})
        return [stream["name"] for stream in answer.json()["streams"]]

    async def shown(*words: str) -> list[str]:
        answer = await gateway.admin.post("/v1/commands", json=words)
        result = answer.json()["result"]
        return sorted(result[1] if words[0] == "SCAN" else result)

    there = sorted(await listed(gateway.admin, ""))
    assert "mine.a" in there
    assert not any(name.startswith("__") for name in there)
    assert there == await shown("KEYS", "*") == await shown("SCAN", "0", "COUNT", "1000")
    count = await gateway.admin.post("/v1/commands", json=["DBSIZE"])
    assert count.json()["result"] == len(there)
    assert await listed(gateway.admin, "__") == sorted(NAMES)
    assert await listed(user, "__") == []


async def test_an_operator_deletes_one(gateway: Secured) -> None:
    await add(gateway, "__ds:old")
    assert (await gateway.admin.delete("/v1/streams/__ds:old")).status_code == 204
    assert (await gateway.admin.get("/v1/streams/__ds:old")).status_code == 404
