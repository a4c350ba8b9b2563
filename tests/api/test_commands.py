"""Redis commands over HTTP: shapes, errors, encodings, transactions, blocking, a client library."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from upstash_redis.asyncio import Redis

from tests.api.conftest import Live

URL = "/v1/commands"


async def run(live: Live, *words: Any, **headers: str) -> Any:
    answer = await live.http.post(URL, json=list(words), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def failure(live: Live, *words: Any) -> str:
    answer = await live.http.post(URL, json=list(words))
    assert answer.status_code == 400, answer.text
    text: str = answer.json()["error"]
    return text


async def test_replies_have_the_shapes_of_redis(live: Live) -> None:
    assert await run(live, "XADD", "orders", "1-1", "sku", 42) == "1-1"
    assert await run(live, "xlen", "orders") == 1
    assert await run(live, "XRANGE", "orders", "-", "+") == [["1-1", ["sku", "42"]]]
    assert await run(live, "XGROUP", "CREATE", "orders", "billing", "0") == "OK"
    assert await run(live, "XRANGE", "orders", "-", "+", "COUNT", 0) is None
    assert await run(live, "XPENDING", "orders", "billing") == [0, None, None, None]
    assert await run(live, "TYPE", "orders") == "stream"


async def test_errors_have_the_words_of_redis(live: Live) -> None:
    arity = "ERR wrong number of arguments for 'xadd' command"
    assert await failure(live, "XADD", "orders", "*", "half") == arity
    assert (await failure(live, "NOPE", "x")).startswith("ERR unknown command 'NOPE'")
    assert await failure(live, "XINFO", "STREAM", "nope") == "ERR no such key"
    assert (await failure(live, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")) == (
        "NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"
    )


async def test_any_bytes_pass_in_base64(live: Live) -> None:
    url = f"{URL}/XADD/%FF%00key/1-1/f/%C3%28"
    assert (await live.http.post(url)).json() == {"result": "1-1"}

    encoded = {"Upstash-Encoding": "base64"}
    answer = await live.http.get(f"{URL}/XRANGE/%FF%00key/-/+", headers=encoded)
    ok = await run(live, "XGROUP", "CREATE", "s", "g", "$", "MKSTREAM", **encoded)

    [[entry_id, fields]] = answer.json()["result"]
    assert [base64.b64decode(one) for one in (entry_id, *fields)] == [b"1-1", b"f", b"\xc3\x28"]
    assert ok == "OK"


async def test_a_command_in_the_path_may_only_read_by_get(live: Live) -> None:
    await run(live, "XADD", "orders", "1-1", "sku", "42")

    read = await live.http.get(f"{URL}/xlen/orders")
    write = await live.http.get(f"{URL}/del/orders")

    assert read.json() == {"result": 1}
    assert (write.status_code, write.json()["code"]) == (405, "method_not_allowed")
    assert await run(live, "EXISTS", "orders") == 1


async def test_the_body_of_a_command_in_the_path_is_its_last_argument(live: Live) -> None:
    answer = await live.http.post(f"{URL}/XADD/orders/1-1/blob", content=b"\x00\xff/ ?")
    encoded = {"Upstash-Encoding": "base64"}
    [[_, fields]] = await run(live, "XRANGE", "orders", "-", "+", **encoded)

    assert answer.json() == {"result": "1-1"}
    assert base64.b64decode(fields[1]) == b"\x00\xff/ ?"


async def test_in_a_pipeline_each_command_stands_for_itself(live: Live) -> None:
    commands = [["XADD", "s", "1-1", "a", "1"], ["XADD", "s", "1-1", "a", "1"], ["XLEN", "s"]]

    answers = (await live.http.post(f"{URL}/pipeline", json=commands)).json()

    assert answers[0] == {"result": "1-1"}
    assert answers[1]["error"].startswith("ERR The ID specified in XADD is equal or smaller")
    assert answers[2] == {"result": 1}


async def test_a_transaction_serves_waiters_only_at_its_end(live: Live) -> None:
    await run(live, "XADD", "s", "1-1", "a", "0")
    waiting = asyncio.create_task(run(live, "XREAD", "BLOCK", 0, "STREAMS", "s", "$"))
    await live.until_waiting(1)

    await live.http.post(
        f"{URL}/multi-exec", json=[["XADD", "s", "2-1", "a", "1"], ["XDEL", "s", "2-1"]]
    )
    assert live.waiter_count == 1
    answers = await live.http.post(
        f"{URL}/multi-exec",
        json=[
            ["XADD", "s", "3-1", "a", "1"],
            ["XADD", "s", "3-1", "a"],
            ["XADD", "s", "4-1", "a", "2"],
        ],
    )
    still = await live.http.post(
        f"{URL}/multi-exec",
        json=[["XADD", "s", "3-1", "a", "1"], ["XADD", "s", "3-0", "a", "1"], ["XLEN", "s"]],
    )

    assert answers.json()["error"].startswith("EXECABORT")
    assert [list(one) for one in still.json()] == [["result"], ["error"], ["result"]]
    assert await waiting == [["s", [["3-1", ["a", "1"]]]]]


async def test_a_blocked_command_ends_with_its_time_or_its_client(live: Live) -> None:
    await run(live, "XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    assert await run(live, "XREAD", "BLOCK", 20, "STREAMS", "s", "$") is None

    leaving = asyncio.create_task(
        run(live, "XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
    )
    await live.until_waiting(1)
    leaving.cancel()
    await live.until_waiting(0)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([], 422),
        ({}, 422),
        ("XLEN s", 422),
        ([["XLEN", "s"]], 422),
        (["XLEN", None], 422),
        (["XLEN", {"a": 1}], 422),
    ],
)
async def test_what_is_no_command_is_refused(live: Live, body: Any, status: int) -> None:
    answer = await live.http.post(URL, json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.fixture
async def upstash(live: Live) -> AsyncIterator[Any]:
    url = f"{live.url}{URL}"
    async with Redis(url=url, token="none needed", allow_telemetry=False) as redis:
        yield redis


async def test_an_existing_client_library_works_unmodified(upstash: Any) -> None:
    first = await upstash.xadd("s", "*", {"sku": "42", "name": "é"})
    assert await upstash.xlen("s") == 1
    assert await upstash.xrange("s", "-", "+") == [[first, ["sku", "42", "name", "é"]]]
    assert await upstash.xgroup_create("s", "g", "0") == "OK"
    assert await upstash.xreadgroup("g", "c", {"s": ">"}) == [
        ["s", [[first, ["sku", "42", "name", "é"]]]]
    ]
    assert await upstash.xpending("s", "g") == [1, first, first, [["c", "1"]]]
    assert await upstash.xclaim("s", "g", "d", 0, first, justid=True) == [first]
    assert await upstash.xautoclaim("s", "g", "c", 0, "0-0", justid=True) == ["0-0", [first], []]
    assert await upstash.xack("s", "g", first) == 1
    pipeline = upstash.pipeline()
    pipeline.xadd("s", "*", {"a": "1"})
    pipeline.xlen("s")
    assert (await pipeline.exec())[1] == 2
    transaction = upstash.multi()
    transaction.xtrim("s", maxlen=1, approximate=False)
    transaction.xlen("s")
    assert await transaction.exec() == [1, 1]
    assert await upstash.delete("s") == 1
