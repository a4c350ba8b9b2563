"""Clients of Redis over HTTP, unmodified: `upstash-redis`, and Upstash's for JavaScript."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from upstash_redis.asyncio import Redis
from upstash_redis.errors import UpstashError

from tests.api.conftest import Live

FOLDER = Path(__file__).parent / "upstash"


@pytest.fixture
async def redis(live: Live) -> AsyncIterator[Any]:
    url = f"{live.url}/v1/commands"
    async with Redis(url=url, token="none needed", allow_telemetry=False) as client:
        yield client


async def test_the_python_client_writes_and_reads(redis: Any) -> None:
    assert await redis.xadd("s", "1-1", {"sku": "a", "name": "é"}) == "1-1"
    assert await redis.xadd("s", "1-*", {"sku": "b"}) == "1-2"
    assert await redis.xadd("s", "2-0", {"sku": "c"}, maxlen=9, approximate_trim=False) == "2-0"
    assert await redis.xadd("t", "*", {"sku": "d"}, nomkstream=True) is None
    with pytest.raises(UpstashError, match="equal or smaller than the target stream top item"):
        await redis.xadd("s", "2-0", {"sku": "c"})

    assert await redis.xlen("s") == 3
    assert await redis.xrange("s", "-", "1") == [
        ["1-1", ["sku", "a", "name", "é"]],
        ["1-2", ["sku", "b"]],
    ]
    assert await redis.xrevrange("s", count=1) == [["2-0", ["sku", "c"]]]
    assert await redis.xread({"s": "1-2", "t": "0"}, count=5) == [["s", [["2-0", ["sku", "c"]]]]]

    assert await redis.xtrim("s", maxlen=2, approximate=False) == 1
    assert await redis.xdel("s", "1-2", "9-9") == 1
    assert await redis.xdelex("s", "2-0", "9-9", option="ACKED") == [1, -1]
    assert await redis.delete("s", "t") == 1


async def test_the_python_client_reads_as_a_consumer(redis: Any) -> None:
    for number in (1, 2, 3):
        await redis.xadd("s", f"{number}-0", {"n": number})
    entry_1, second, third = ([f"{number}-0", ["n", str(number)]] for number in (1, 2, 3))

    assert await redis.xgroup_create("s", "g", "0") == "OK"
    assert await redis.xgroup_create("t", "g", mkstream=True) == "OK"
    assert await redis.xgroup_createconsumer("s", "g", "c") == 1
    assert await redis.xgroup_setid("t", "g", "0") == "OK"
    assert await redis.xgroup_delconsumer("t", "g", "c") == 0
    assert await redis.xgroup_destroy("t", "g") == 1

    assert await redis.xreadgroup("g", "c", {"s": ">"}, count=2) == [["s", [entry_1, second]]]
    assert await redis.xreadgroup("g", "c", {"s": ">"}, noack=True) == [["s", [third]]]
    assert await redis.xpending("s", "g") == [2, "1-0", "2-0", [["c", "2"]]]
    [[first, owner, _, count], _] = await redis.xpending("s", "g", "-", "+", 10, "c")
    assert (first, owner, count) == ("1-0", "c", 1)

    assert await redis.xclaim("s", "g", "d", 0, "1-0") == [entry_1]
    assert await redis.xclaim("s", "g", "d", 0, "2-0", justid=True) == ["2-0"]
    assert await redis.xautoclaim("s", "g", "c", 0, "0-0", count=1) == ["2-0", [entry_1], []]
    assert (await redis.xinfo_groups("s"))[0][:6] == ["name", "g", "consumers", 2, "pending", 2]
    assert await redis.xack("s", "g", "1-0", "9-0") == 1
    assert await redis.xackdel("s", "g", "2-0", "9-0") == [1, -1]


async def test_the_python_client_sends_many_commands_at_once(redis: Any) -> None:
    pipeline = redis.pipeline()
    pipeline.xadd("p", "1-0", {"n": 1})
    pipeline.xadd("p", "2-0", {"n": 2})
    pipeline.xlen("p")
    assert await pipeline.exec() == ["1-0", "2-0", 2]

    transaction = redis.multi()
    transaction.xtrim("p", maxlen=1, approximate=False)
    transaction.xrange("p")
    assert await transaction.exec() == [1, [["2-0", ["n", "2"]]]]


@pytest.fixture
async def session(tmp_path: Path) -> Path:
    """Return the script of a session with the client from npm, installed beside it."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        assert not os.environ.get("CI"), "node or npm is missing"
        pytest.skip("node or npm is not installed")
    for name in ("package.json", "package-lock.json", "session.mjs", "realtime.mjs"):
        shutil.copy(FOLDER / name, tmp_path)
    quiet = ("--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
    await output_of(npm, "ci", *quiet, folder=tmp_path)
    return tmp_path / "session.mjs"


async def output_of(*command: str, folder: Path) -> bytes:
    """Run a program to its end; returns what it printed."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(120):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output


async def test_the_javascript_client_works_unmodified(live: Live, session: Path) -> None:
    url = f"{live.url}/v1/commands"
    result = json.loads(await output_of("node", session.name, url, folder=session.parent))
    idle_ms = [entry.pop(2) for entry in result["pending"]]
    entry = ["1-1", ["sku", "a", "name", "é"]]

    assert all(isinstance(each, int) for each in idle_ms)
    assert result == {
        "add": ["1-1", "1-2", "2-0", None],
        "add_again": "Command failed: ERR The ID specified in XADD is equal or smaller than the "
        "target stream top item",
        "length": 3,
        "range": {"1-1": {"sku": "a", "name": "é"}, "1-2": {"sku": "b"}, "2-0": {"sku": "c"}},
        "reverse_range": {"2-0": {"sku": "c"}},
        "read": [["s", [["2-0", ["sku", "c"]]]]],
        "group": ["OK", "OK", 1, "OK", 0, 1],
        "read_group": [["s", [entry, ["1-2", ["sku", "b"]]]]],
        "read_group_no_ack": [["s", [["2-0", ["sku", "c"]]]]],
        "groups": [
            [
                *("name", "g", "consumers", 1, "pending", 2),
                *("last-delivered-id", "2-0", "entries-read", 3, "lag", 0),
            ]
        ],
        "pending": [["1-1", "c", 1], ["1-2", "c", 1]],
        "claim": [entry],
        "claim_just_id": ["1-2"],
        "autoclaim": ["1-2", [entry], []],
        "ack": 1,
        "ack_and_delete": [1, -1],
        "delete": 1,
        "delete_each": [1, 2],  # 9-9 is newer than what the group has read
        "pipeline": ["1-0", "2-0", 2],
        "trim": 1,
        "multi": ["3-0", 1, {"3-0": {"n": 3}}],
        "del": 3,
    }


async def test_upstash_realtime_works_unmodified(live: Live, session: Path) -> None:
    url = f"{live.url}/v1/commands"
    assert json.loads(await output_of("node", "realtime.mjs", url, folder=session.parent)) == {
        "connected": {"type": "connected", "channel": "room"},
        "live": ["chat.said", "hello", "room"],
        "missed": ["chat.said", "while away"],
        "history": ["hello", "while away"],
    }
