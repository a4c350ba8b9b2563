"""A name under which the Redis server has no stream: whoever asks for it is told so."""

import json
import logging
from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from deploy.local_cluster.server import HOST, Server
from headgate.app.settings import Settings
from tests.api.auth.matrix import About, operations
from tests.api.auth.test_matrix import WORDS, words_of
from tests.api.conftest import Live, problem_in, running
from tests.api.documents.documented import DOCUMENT
from tests.api.live.frames import frames_of
from tests.api.resp.talk import Talk, command
from tests.api.rest.bulk_requests import commit, stage
from tests.arrow_bodies import body_of
from tests.complaints import complaints

PREFIX = "wrong:"
TYPES = [
    ("SET", "garbage"),
    ("RPUSH", "garbage"),
    ("SADD", "garbage"),
    ("HSET", "garbage", "garbage"),
    ("ZADD", 7, "garbage"),
]
ENTRY = {"fields": {"v": "1"}}
STREAM = "/v1/streams/orders"
ABOUT = About("orders", "billing", "ben")
NEWER = {"XDELEX", "XCFGSET", "XIDMPRECORD", "XACKDEL", "XNACK"}
"""Commands that these servers have not."""

WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"

OTHERS: list[tuple[str, Any]] = [
    ("/v1/read", {"streams": [{"stream": "orders", "after": "0-0"}]}),
    ("/v1/read", {"streams": [{"stream": "orders", "after": "0-0"}], "wait_ms": 5000}),
    ("/v1/bulk/plan", {"cursors": [{"stream": "orders", "after": "0-0"}]}),
]
"""Operations whose bodies name a stream."""

ACCEPTED = ["application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"]
NOT_OF_SERVERS = (
    *("/history", "/archive", "/keys", "/table", "/table/{key}", "/commit", "/schema"),
    "/presence",  # of a stream that is none, too
)

COMMANDS = [
    *(
        " ".join(words_of(name, ABOUT))
        for name, words in WORDS.items()
        if name.startswith("X") and "{s}" in words and name not in NEWER
    ),
    "XREAD BLOCK 5000 STREAMS orders $",
    "XREADGROUP GROUP billing ben BLOCK 5000 STREAMS orders >",
    "XGROUP CREATE orders billing 0 MKSTREAM",
    "XINFO STREAM orders FULL",
    "XPENDING orders billing",
]
"""Commands that are about a stream."""


@pytest.fixture(params=["redis_7", "valkey_9"])
def server(request: pytest.FixtureRequest) -> Server:
    """Return a server that the gateway uses."""
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
async def live(server: Server) -> AsyncIterator[Live]:
    """Run a gateway over it, without keys of another test."""
    clear(server)
    settings = Settings(
        backend=SecretStr(server.url), redis_prefix=PREFIX, redis_port=0, heartbeat_ms=200
    )
    async with running(settings) as gateway:
        yield gateway
    clear(server)


def clear(server: Server) -> None:
    with redis.Redis(HOST, server.port) as client:
        for key in client.keys(f"*{PREFIX}*"):
            client.delete(key)


def put(server: Server, key: str, words: tuple[object, ...]) -> None:
    """Put something else under a key."""
    server.run("DEL", key)
    server.run(words[0], key, *words[1:])


async def test_every_operation_on_it_is_answered_409(live: Live, server: Server) -> None:
    asked = [
        operation.request(live.http, ABOUT, None)
        for operation in operations(json.loads(DOCUMENT.read_text()))
        if operation.path.startswith("/v1/streams/{stream}")
        and not operation.path.endswith(NOT_OF_SERVERS)
    ]
    asked += [live.http.build_request("POST", path, json=body) for path, body in OTHERS]
    asked += [
        live.http.build_request("GET", f"{STREAM}/entries", headers={"Accept": accepted})
        for accepted in ACCEPTED
    ]
    for request, words in zip(asked, cycle(TYPES), strict=False):
        put(server, f"{PREFIX}orders", words)
        answer = await live.http.send(request)
        what = f"{request.method} {request.url}: {answer.text}"
        assert answer.status_code == 409, what
        problem = problem_in(answer)
        assert (problem["code"], problem["retryable"]) == ("wrong_type", False), what
        assert "'orders'" in problem["detail"], what
        assert server.run("TYPE", f"{PREFIX}orders") != "stream"


async def test_a_batch_of_a_writer_is_answered_409(live: Live, server: Server) -> None:
    staged = await stage(live, body_of("1"), (1, 0, "first", 0), "stream=orders")
    assert staged.is_success, staged.text
    put(server, f"{PREFIX}orders", TYPES[0])
    answer = await commit(live, 1, [(0, "first", 1)])
    assert (answer.status_code, problem_in(answer)["code"]) == (409, "wrong_type")
    assert "'orders'" in answer.json()["detail"]


async def test_every_command_says_what_redis_says(live: Live, server: Server) -> None:
    talk = await Talk.open(live.redis_port)
    for words, garbage in zip(COMMANDS, cycle(TYPES), strict=False):
        put(server, f"{PREFIX}orders", garbage)
        talk.send(command(*words.split()))
        assert await talk.line() == f"-{WRONGTYPE}".encode(), words
        answer = await live.http.post("/v1/commands", json=words.split())
        assert answer.json() == {"error": WRONGTYPE}, words
    await talk.close()


async def test_a_socket_is_told(live: Live, server: Server) -> None:
    put(server, f"{PREFIX}orders", TYPES[1])
    refused: list[dict[str, Any]] = [
        {"type": "subscribe", "sub": "all", "stream": "orders", "after": "0"},
        {"type": "subscribe", "sub": "new", "stream": "orders"},
        {"type": "subscribe", "sub": "g", "stream": "orders", "group": "billing"},
        {"type": "subscribe", "sub": "h", "stream": "orders", "group": "billing", "consumer": "b"},
        {"type": "append", "stream": "orders", "entries": [ENTRY]},
    ]
    async with frames_of(live, "/v1/ws") as frames:
        for number, frame in enumerate(refused):
            await frames.send(rid=str(number), **frame)
            problem = await frames.next("problem")
            assert problem["problem"]["code"] == "wrong_type", frame
            assert "'orders'" in problem["problem"]["detail"]
        await frames.send(type="append", rid="a", stream="others", entries=[ENTRY])
        await frames.next("appended")


async def test_who_reads_when_the_stream_is_replaced_is_told(live: Live, server: Server) -> None:
    await live.create_group("orders", "billing")
    async with frames_of(live, "/v1/ws") as frames:
        await frames.subscribe("all", after="0")
        await frames.subscribe("g", group="billing")
        await live.until_waiting(2)
        put(server, f"{PREFIX}orders", TYPES[0])
        ended = [frame for frame in [await frames.any() for _ in range(4)] if "problem" in frame]
        assert {frame["problem"]["code"] for frame in ended} == {"wrong_type"}
        assert {frame["sub"] for frame in ended} == {"all", "g"}


async def test_a_list_leaves_out_what_cannot_be_described(
    live: Live, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await live.append("others", "1")
    await live.append("orders", "1")
    put(server, f"hg:{PREFIX}meta:{{{PREFIX}orders}}", TYPES[1])
    with caplog.at_level(logging.ERROR):
        listed = (await live.http.get("/v1/streams")).json()
        assert [stream["name"] for stream in listed["streams"]] == ["others"]
        assert (await live.http.get("/metrics")).is_success
        assert (await live.http.get("/readyz")).is_success
    assert f"hg:{PREFIX}meta" in problem_in(await live.http.get(STREAM))["detail"]
    assert complaints(caplog) == []
