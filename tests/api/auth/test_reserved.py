"""Reserved names: no operation, command or frame changes a stream of the gateway's own."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from headgate.app.auth.grants import Grant, Verb
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.api.auth.matrix import About
from tests.api.auth.secured import Secured
from tests.api.auth.test_matrix import (
    FRAMES,
    OPERATIONS,
    SHORT,
    WORDS,
    answer_to,
    filled,
    opened,
    request_of,
    status_of,
    words_of,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = ["__push", "__push:0", "__ds", "__ds:s", "__anything"]
OWN = About("__push:0")

READS = {name for name in WORDS if name.split()[0] in {"OBJECT", "MEMORY", "XINFO"}} | {
    *("EXISTS", "TYPE", "TOUCH", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "DUMP"),
    *("XLEN", "XRANGE", "XREVRANGE", "XREAD"),
}
DELETES = frozenset({"DEL", "UNLINK", "deleteStream"})
"""An operator may delete such a stream: it may be damaged, or nobody's."""


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def own(one_matrix: Secured) -> None:
    """The gateway has streams of its own."""
    for name in NAMES:
        await add(one_matrix, name)


async def add(one_matrix: Secured, name: str) -> None:
    perform = one_matrix.live.gateway.backend.perform
    await perform(Add(name.encode(), [Draft(None, (b"f", b"v"))]))
    await perform(CreateGroup(name.encode(), b"g", GroupStart(MIN_ID)))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def user(one_matrix: Secured) -> AsyncIterator[httpx.AsyncClient]:
    """Whoever may do everything with all streams, but is no operator."""
    everything = Grant(streams=["*"], do=sorted(set(Verb) - {Verb.ADMIN}), create=True)
    named = Grant(streams=["__*", "__push:0"], do=sorted(set(Verb) - {Verb.ADMIN}), create=True)
    async with one_matrix.client(await one_matrix.key(everything, named)) as http:
        yield http


def token_of(client: httpx.AsyncClient) -> str:
    return client.headers["Authorization"].removeprefix("Bearer ")


async def test_an_operation_reads_it_for_operators(
    matrix: Secured, user: httpx.AsyncClient
) -> None:
    before = matrix.live.position
    for operation in OPERATIONS.values():
        if operation.names("stream"):
            request = request_of(operation, user, OWN, token_of(user))
            assert await status_of(user, request) == (403, "forbidden"), operation.id
            if operation.id not in DELETES:
                request = request_of(operation, user, OWN, token_of(matrix.admin))
                await status_of(user, request)
            assert matrix.live.position == before, operation.id


async def refused(http: httpx.AsyncClient, commands: list[list[str]]) -> list[bool]:
    """Run commands, and tell of each whether it was refused."""
    answers = (await http.post("/v1/commands/pipeline", json=commands)).json()
    return ["NOPERM" in str(answer.get("error")) for answer in answers]


async def test_a_command_reads_it_for_operators(matrix: Secured, user: httpx.AsyncClient) -> None:
    before = matrix.live.position
    names = [name for name, words in WORDS.items() if "{s}" in words]
    assert all(await refused(user, [words_of(name, OWN) for name in names]))
    names = [name for name in names if name not in DELETES]
    commands = [words_of(name, OWN) for name in names]
    assert await refused(matrix.admin, commands) == [name not in READS for name in names]
    moves = ["COPY mine.a {}", "RENAME mine.a {}", "RENAME {} mine.b"]
    commands = [move.format(name).split() for move in moves for name in NAMES]
    assert all(await refused(matrix.admin, commands))
    assert matrix.live.position == before


@pytest.mark.parametrize("name", [*FRAMES, *SHORT])
async def test_a_frame_changes_nothing_there(name: str, matrix: Secured) -> None:
    before, token = matrix.live.position, token_of(matrix.admin)
    if name in FRAMES:
        async with opened(matrix, "/v1/ws", token) as socket:
            await socket.send(filled(FRAMES[name][0], OWN))
            answer = await answer_to(socket)
        assert (answer["type"] == "problem") == (name != "subscribe to a stream")
    elif "group" in name:
        async with opened(matrix, filled(SHORT[name][0], OWN), token) as socket:
            await socket.wait_closed()
        assert socket.close_code == 4403
    assert matrix.live.position == before


async def test_a_policy_or_a_schedule_writes_to_none(matrix: Secured) -> None:
    before = matrix.live.position
    policy = {"policy": {"max_deliveries": 1, "dead_letter_stream": "__push"}}
    schedule = {"stream": "__push", "fields": {"a": "b"}, "cron": "* * * * *"}
    for path, body in (("streams/mine.a/groups/n", policy), ("schedules/s", schedule)):
        refused = await matrix.admin.put(f"/v1/{path}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert matrix.live.position == before


async def test_lists_show_them_to_operators_who_ask(
    matrix: Secured, user: httpx.AsyncClient
) -> None:
    async def listed(client: httpx.AsyncClient, prefix: str, internal: str = "false") -> list[str]:
        answer = await client.get("/v1/streams", params={"prefix": prefix, "internal": internal})
        return [stream["name"] for stream in answer.json()["streams"]]

    async def shown(*words: str) -> list[str]:
        result = (await matrix.admin.post("/v1/commands", json=words)).json()["result"]
        return sorted(result[1] if words[0] == "SCAN" else result)

    there = sorted(await listed(matrix.admin, ""))
    assert "mine.a" in there
    assert not any(name.startswith("__") for name in there)
    assert there == await shown("KEYS", "*") == await shown("SCAN", "0", "COUNT", "1000")
    assert (await matrix.admin.post("/v1/commands", json=["DBSIZE"])).json()["result"] == len(there)
    assert await listed(matrix.admin, "__") == sorted(NAMES)
    assert await listed(user, "__") == []
    everything = await listed(matrix.admin, "", "true")
    assert set(everything) == {*there, *NAMES}
    assert everything == sorted(everything)
    assert await listed(matrix.admin, "mine", "true") == await listed(matrix.admin, "mine")
    assert sorted(await listed(user, "", "true")) == sorted(await listed(user, ""))


async def test_an_operator_of_some_streams_lists_these_and_the_internal_ones(
    matrix: Secured,
) -> None:
    operator = Grant(streams=["*"], do=[Verb.ADMIN])
    reader = Grant(streams=["mine.a"], do=[Verb.READ])
    async with matrix.client(await matrix.key(operator, reader)) as http:
        answer = await http.get("/v1/streams", params={"internal": "true"})
    names = [stream["name"] for stream in answer.json()["streams"]]
    assert names == sorted(["mine.a", *NAMES])


async def test_an_operator_deletes_one(matrix: Secured) -> None:
    await add(matrix, "__ds:old")
    assert (await matrix.admin.delete("/v1/streams/__ds:old")).status_code == 204
    assert (await matrix.admin.get("/v1/streams/__ds:old")).status_code == 404
