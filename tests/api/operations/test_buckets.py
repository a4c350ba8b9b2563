"""Two gateways on one bucket, as operators and clients see them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

import headgate
from headgate.app.settings import Settings
from headgate.client.problems import NotLeader
from tests.api.commands.command_line import headgate as command
from tests.api.conftest import Live, problem_in, running
from tests.conditions import moment


class Two(NamedTuple):
    leader: Live
    standby: Live


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    def settings(name: str) -> Settings:
        return Settings(
            data_dir=tmp_path / name,
            bucket=f"file://{tmp_path}/bucket",
            standby=name == "b",
            standby_redirect=name == "b",
            address=f"http://{name}:8080",
        )

    async with running(settings("a")) as leader, running(settings("b")) as standby:
        async with asyncio.timeout(30):
            while "leader" not in (await standby.http.get("/readyz")).json():
                await moment()
        yield Two(leader, standby)


async def test_the_leader_is_ready_and_the_standby_names_it(two: Two) -> None:
    ready = (await two.leader.http.get("/readyz")).json()
    async with asyncio.timeout(10):
        while "leader" not in (refused := await two.standby.http.get("/readyz")).json():
            await moment()  # it has not seen the lease yet
    redirected = await two.standby.http.get("/v1/streams/orders/entries?limit=1")

    assert (ready["role"], ready["durable"]) == ("leader", "disk")
    assert ready["unshipped_bytes"] >= 0
    assert (refused.status_code, problem_in(refused)["leader"]) == (503, "http://a:8080")
    assert redirected.status_code == 307
    assert redirected.headers["location"] == "http://a:8080/v1/streams/orders/entries?limit=1"


async def test_health_finds_the_leader_among_two(two: Two) -> None:
    urls = f"{two.standby.url},{two.leader.url}"

    ended = await command(urls, "health")
    alone = await command(two.standby.url, "health")

    assert ended.code == 0
    assert ended.output.startswith(f"ok\nleader at {two.leader.url}; the bucket ")
    assert alone.code == 1
    assert "not_leader" in alone.error


async def test_a_redirect_is_followed_to_addresses_of_the_list_only(two: Two) -> None:
    async with headgate.AsyncClient([two.standby.url, two.leader.url], retry_s=0) as hg:
        await hg.stream("orders").append({"n": "1"})
        assert hg.url == two.leader.url
    async with headgate.AsyncClient(two.standby.url, retry_s=0) as hg:
        with pytest.raises(NotLeader, match="sends to http://a:8080"):
            await hg.stream("orders").append({"n": "1"})
