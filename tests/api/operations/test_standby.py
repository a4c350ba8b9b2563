"""A standby: it says that it is none that leads, and leads once the other one has ended."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headgate.app.settings import DurableIn, Settings
from tests.api.conftest import Live, problem_in, running
from tests.api.resp.talk import Talk
from tests.conditions import moment

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.embedded("a bucket is behind a data directory"),
]

ENTRIES = "/v1/streams/orders/entries"


def settings(tmp_path: Path, name: str, **chosen: object) -> Settings:
    given = {
        "data_dir": tmp_path / name,
        "bucket": (tmp_path / "bucket").as_uri(),
        "address": f"http://{name}.example",
        "lease_ms": 2_000,
        "ship_ms": 50,
        "standby": True,
        "allow_anonymous": True,
        "redis_port": 0,
        **chosen,
    }
    return Settings.model_validate(given)


async def until_ready(live: Live) -> None:
    async with asyncio.timeout(30):
        while (await live.http.get("/readyz")).status_code != 200:
            await moment()


async def test_a_standby_can_be_read_and_leads_once_the_leader_has_ended(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "a", durable=DurableIn.BUCKET)
    async with AsyncExitStack() as first, running(chosen) as leader:
        await until_ready(leader)
        await leader.append("orders", "1", "2")
        standby = await first.enter_async_context(
            running(settings(tmp_path, "b", standby_reads=True))
        )
        await until_read(standby, ["1", "2"])
        read = await standby.http.get(ENTRIES)
        assert int(read.headers["Headgate-Behind-Ms"]) < 5_000
        assert "Headgate-Behind-Ms" not in (await leader.http.get(ENTRIES)).headers
        ready = problem_in(await standby.http.get("/readyz"))
        assert (ready["code"], ready["leader"]) == ("not_leader", "http://a.example")
        assert (await standby.http.get("/healthz")).status_code == 200
        refused = await standby.http.post(ENTRIES, json={"fields": {"v": "3"}})
        assert (refused.status_code, problem_in(refused)["code"]) == (503, "not_leader")
        assert refused.headers["Retry-After"] == "1"
        talk = await Talk.open(standby.redis_port)
        refusal = b"-READONLY You can't write against a read only replica.\r\n"
        await talk.say(b"XADD orders * v 3\r\n", refusal)
        await talk.say(b"XLEN orders\r\n", b":2\r\n")
        await talk.close()
        await leader.gateway.backend.close()
        await until_ready(standby)
        await standby.append("orders", "3")
        await until_read(standby, ["1", "2", "3"])


async def until_read(live: Live, values: list[str]) -> None:
    async with asyncio.timeout(30):
        while True:
            answer = (await live.http.get(ENTRIES)).json()
            if [entry["fields"]["v"] for entry in answer.get("entries", ())] == values:
                return
            await moment()


async def test_a_standby_without_reads_sends_everybody_to_the_leader(tmp_path: Path) -> None:
    async with running(settings(tmp_path, "a")) as leader:
        await until_ready(leader)
        async with running(settings(tmp_path, "b", standby_redirect=True)) as standby:
            async with asyncio.timeout(20):
                while (moved := await standby.http.get(f"{ENTRIES}?limit=3")).status_code != 307:
                    await moment()
            assert moved.headers["Location"] == f"http://a.example{ENTRIES}?limit=3"
            assert (await standby.http.get("/readyz")).status_code == 503


async def test_a_second_gateway_that_is_no_standby_does_not_start(tmp_path: Path) -> None:
    async with running(settings(tmp_path, "a")) as leader:
        await until_ready(leader)
        async with running(settings(tmp_path, "b", standby=False, redis_port=None)) as second:
            async with asyncio.timeout(20):
                await second.gateway.died.wait()
        assert await leader.append("orders", "1")
