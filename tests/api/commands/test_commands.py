"""Redis commands over HTTP: shapes, errors, encodings, transactions, blocking, INFO and RESTORE."""

import asyncio
import base64
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import pytest

from headgate.app.backends.payloads import PAYLOADS
from headgate.app.settings import Settings
from headgate.engine.limits import UNPACKED_BYTES_MAX, UNPACKED_ELEMENTS_MAX
from tests.api.conftest import Live, connected, problem_in, running
from tests.conditions import WITHIN_S
from tests.unit.app.rdb.bombs import BOMBS, dead_entries

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
    assert (await live.http.post(f"{URL}/XADD/%FF%00key/1-1/f/%C3%28")).json() == {"result": "1-1"}

    encoded = {"Upstash-Encoding": "base64"}
    answer = await live.http.get(f"{URL}/XRANGE/%FF%00key/-/+", headers=encoded)
    ok = await run(live, "XGROUP", "CREATE", "s", "g", "$", "MKSTREAM", **encoded)

    [[entry_id, fields]] = answer.json()["result"]
    assert [base64.b64decode(part) for part in (entry_id, *fields)] == [b"1-1", b"f", b"\xc3\x28"]
    assert ok == "OK"


async def test_a_command_in_the_path_may_only_read_by_get(live: Live) -> None:
    await run(live, "XADD", "orders", "1-1", "sku", "42")

    read = await live.http.get(f"{URL}/xlen/orders")
    write = await live.http.get(f"{URL}/del/orders")

    assert read.json() == {"result": 1}
    assert (await live.http.get(f"{URL}/PING")).json() == {"result": "PONG"}
    assert (await live.http.get(f"{URL}/XLEN/%FF%00%0A")).json() == {"result": 0}
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
    assert [list(result) for result in still.json()] == [["result"], ["error"], ["result"]]
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


async def test_what_is_no_command_is_refused(live: Live) -> None:
    wrong: list[Any] = [[], {}, "XLEN s", [["XLEN", "s"]], ["XLEN", None], ["XLEN", {"a": 1}]]
    for body in wrong:
        assert problem_in(await live.http.post(URL, json=body))["status"] == 422


GIB = 2**30


async def answer_to(live: Live, head: str, chunks: Iterable[bytes]) -> tuple[bytes, int]:
    """Send a request until there is an answer; returns it, and how much of the body was sent."""
    async with connected(live) as (reader, writer), asyncio.timeout(WITHIN_S):
        head += "\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n"
        writer.write(head.encode())
        answer = asyncio.create_task(reader.readuntil(b"}"))
        sent = 0
        for chunk in chunks:
            if answer.done():
                break
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
            sent += len(chunk)
        return await answer, sent


@pytest.mark.parametrize("path", [f"{URL}/XADD/s/*/field", URL, f"{URL}/pipeline"])
@pytest.mark.parametrize("has_length", [True, False])
async def test_a_field_of_a_gibibyte_is_refused(live: Live, path: str, has_length: bool) -> None:
    chunk = b"a" * 2**16
    framing = f"Content-Length: {GIB}" if has_length else "Transfer-Encoding: chunked"
    chunks = () if has_length else repeat(chunk, GIB // len(chunk))
    answer, sent = await answer_to(live, f"POST {path} HTTP/1.1\r\n{framing}", chunks)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"too_large"' in answer
    # What was not even sent cannot lie in memory; some of it is on its way in the sockets.
    assert sent <= live.gateway.limits.body_bytes_max + 2**25
    assert await run(live, "EXISTS", "s") == 0


async def test_a_pipeline_ends_once_its_replies_are_too_large() -> None:
    async with running(Settings(read_bytes_max=1024)) as live:
        await live.append("s", "x" * 600)
        command = ["XRANGE", "s", "-", "+"]
        results = (await live.http.post("/v1/commands/pipeline", json=[command] * 4)).json()
    assert [list(result) for result in results] == [["result"], ["result"], ["error"], ["error"]]
    assert "too large together" in results[2]["error"]


async def test_claims_keep_within_the_bounds_of_a_reply() -> None:
    async with running(Settings(read_bytes_max=1024)) as live:
        ids = await live.append("s", *["x" * 600] * 3)
        await run(live, "XGROUP", "CREATE", "s", "g", "0")
        for _ in ids:
            await run(live, "XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
        claimed = await run(live, "XCLAIM", "s", "g", "b", "0", *ids)
        cursor, page, _ = await run(live, "XAUTOCLAIM", "s", "g", "b", "0", "0")
        held = await run(live, "XPENDING", "s", "g", "-", "+", "9", "b")
    assert [entry_id for entry_id, _ in claimed] == [entry_id for entry_id, _ in page] == ids[:1]
    assert (cursor, [entry_id for entry_id, *_ in held]) == (ids[1], ids[:1])


async def test_the_commands_of_a_transaction_share_its_bounds() -> None:
    async with running(Settings(read_entries_max=100)) as live:
        await live.append("s", *("x" * 60))
        read, range_ = ["XREAD", "STREAMS", "s", "0"], ["XRANGE", "s", "-", "+"]

        async def results(*commands: list[str]) -> list[dict[str, Any]]:
            answer = await live.http.post("/v1/commands/multi-exec", json=commands)
            listed: list[dict[str, Any]] = answer.json()
            return listed

        [alone, _] = await results(read, ["XLEN", "s"])
        assert len(alone["result"][0][1]) == 60
        [first, second, refused] = await results(read, read, range_)
        assert [len(both["result"][0][1]) for both in (first, second)] == [33, 33]
        assert "more than 33 entries" in refused["error"]


async def test_ten_thousand_appends_are_one_transaction(live: Live) -> None:
    commands = [["XADD", "s", "*", "item", str(number)] for number in range(10_000)]
    answer = await live.http.post("/v1/commands/multi-exec", json=commands)
    ids = [each["result"] for each in answer.json()]
    page = await live.http.get("/v1/streams/s/entries", params={"limit": 10_000})
    assert [entry["id"] for entry in page.json()["entries"]] == ids
    assert page.json()["entries"][-1]["fields"] == {"item": "9999"}


@pytest.mark.parametrize(
    ("commands", "status", "text"),
    [
        ([["PING"]] * 10_001, 422, "at most 10000"),
        ([["PING"]] * 10_000, 400, "EXECABORT Transaction discarded because of previous errors."),
        ([["DEL", *["a"] * 30]] * 1000, 400, "the transaction would take too long"),
        ([["KEYS", "*"]] * 5, 400, "KEYS, INFO and COMMAND at most 4 times"),
    ],
    ids=["commands", "cost", "keys deleted", "keys listed"],
)
async def test_a_transaction_is_bounded(
    live: Live, commands: list[list[str]], status: int, text: str
) -> None:
    answer = await live.http.post("/v1/commands/multi-exec", json=commands)
    assert answer.status_code == status
    assert text in answer.text


async def result_of(live: Live, *words: Any) -> Any:
    return (await live.http.post(URL, json=list(words))).json().get("result")


async def info(live: Live, *sections: str) -> dict[str, str]:
    text: str = await result_of(live, "INFO", *sections)
    assert "\n" not in text.replace("\r\n", "")
    lines = [line for line in text.split("\r\n") if line and not line.startswith("#")]
    return dict(line.split(":", 1) for line in lines)


async def sections(live: Live, *asked: str) -> list[str]:
    text: str = await result_of(live, "INFO", *asked)
    return [line[2:] for line in text.split("\r\n") if line.startswith("# ")]


async def test_info_says_whose_commands_these_are(live: Live) -> None:
    fields = await info(live)

    assert fields["redis_version"].startswith("8.10.")
    assert (fields["redis_mode"], fields["role"]) == ("standalone", "master")
    assert int(fields["process_id"]) > 0


async def test_sections_are_told_as_asked(live: Live) -> None:
    await result_of(live, "XADD", "s", "*", "a", "b")

    everything = await sections(live, "everything")
    assert await sections(live, "ALL") == everything
    assert set(everything) - set(await sections(live)) == {"Commandstats"}
    assert await sections(live, "KEYSPACE", "clients", "nothing") == ["Clients", "Keyspace"]
    assert await result_of(live, "INFO", "nothing") == ""


async def test_keys_are_counted_with_those_that_will_go(live: Live) -> None:
    assert "db0" not in await info(live, "keyspace")
    for name in ("a", "b"):
        await result_of(live, "XADD", name, "*", "f", "v")
    await result_of(live, "EXPIRE", "a", 100)

    keys, expires, ttl = (await info(live, "keyspace"))["db0"].split(",")

    assert (keys, expires) == ("keys=2", "expires=1")
    assert 90_000 < int(ttl.removeprefix("avg_ttl=")) <= 100_000


async def test_calls_and_errors_are_counted_as_redis_does(live: Live) -> None:
    await result_of(live, "CONFIG", "RESETSTAT")
    await result_of(live, "XADD", "s", "1-1", "a", "b")
    await result_of(live, "XADD", "s", "0", "a", "b")  # runs and fails
    await result_of(live, "XADD", "s")  # never runs
    await result_of(live, "NOPE")
    await result_of(live, "XGROUP", "CREATE", "s", "g", "0")
    await result_of(live, "XGROUP", "CREATE", "s", "g", "0")
    await result_of(live, "XREADGROUP", "GROUP", "x", "c", "STREAMS", "s", ">")

    fields = await info(live, "commandstats", "errorstats", "stats")

    def counts(name: str) -> dict[str, str]:
        return dict(pair.split("=") for pair in fields[f"cmdstat_{name}"].split(","))

    xadd, create = counts("xadd"), counts("xgroup|create")
    assert (xadd["calls"], xadd["rejected_calls"], xadd["failed_calls"]) == ("2", "1", "1")
    assert (create["calls"], create["rejected_calls"], create["failed_calls"]) == ("2", "0", "1")
    assert float(xadd["usec_per_call"]) * 2 == int(xadd["usec"]) > 0
    assert fields["errorstat_ERR"] == "count=3"
    assert fields["errorstat_BUSYGROUP"] == fields["errorstat_NOGROUP"] == "count=1"
    assert fields["total_error_replies"] == "5"
    assert "cmdstat_nope" not in fields

    assert await result_of(live, "CONFIG", "RESETSTAT") == "OK"
    assert "cmdstat_xadd" not in await info(live, "commandstats")


async def test_a_transaction_counts_each_of_its_commands(live: Live) -> None:
    commands = [["XADD", "s", "1-1", "a", "b"], ["XADD", "s", "bad", "a", "b"], ["XLEN", "s"]]

    answer = await live.http.post(f"{URL}/multi-exec", json=commands)

    assert [result.get("result") for result in answer.json()] == ["1-1", None, 1]
    fields = await info(live, "commandstats")
    assert fields["cmdstat_xadd"].startswith("calls=2,")
    assert fields["cmdstat_xadd"].endswith("failed_calls=1")


async def test_who_is_blocked_is_told_with_on_how_many_keys(live: Live) -> None:
    await result_of(live, "XGROUP", "CREATE", "a", "g", "$", "MKSTREAM")
    waiting = [
        asyncio.create_task(result_of(live, "XREAD", "BLOCK", 0, "STREAMS", "a", "b", "$", "$")),
        asyncio.create_task(
            result_of(live, "XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "a", ">")
        ),
    ]
    await live.until_waiting(2)

    fields = await info(live, "clients")
    await result_of(live, "DEL", "a")
    await result_of(live, "XADD", "b", "*", "f", "v")
    await asyncio.gather(*waiting)

    assert fields["blocked_clients"] == "2"
    assert fields["total_blocking_keys"] == "2"
    assert fields["total_blocking_keys_on_nokey"] == "1"
    after = await info(live, "clients", "commandstats", "errorstats")
    assert after["blocked_clients"] == after["total_blocking_keys"] == "0"
    assert after["errorstat_NOGROUP"] == "count=1"
    assert after["cmdstat_xreadgroup"].endswith("failed_calls=1")


RESTORE = "/v1/commands/RESTORE/t/0"
BOMB = next(bomb.payload for bomb in BOMBS if bomb.name == "pending")


async def test_a_payload_without_room_is_refused_for_now(live: Live) -> None:
    with PAYLOADS.share() as others:
        others.take(UNPACKED_BYTES_MAX - 10)
        answer = await live.http.post(RESTORE, content=BOMB)
    assert (answer.status_code, answer.json()["error"][:9]) == (503, "TRYAGAIN ")
    assert (await live.http.post(RESTORE, content=BOMB)).json() == {"result": "OK"}
    assert PAYLOADS.size_bytes == 0


async def test_a_payload_that_is_too_large_is_refused(live: Live) -> None:
    elements = UNPACKED_ELEMENTS_MAX // 15 + 1
    answer = await live.http.post(RESTORE, content=dead_entries(elements))
    assert (answer.status_code, "too large" in answer.json()["error"]) == (413, True)
    assert PAYLOADS.size_bytes == 0
