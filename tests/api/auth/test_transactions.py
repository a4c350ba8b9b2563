"""Transactions: several commands at one moment, each within the rights."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured, secured

URL = "/v1/commands/multi-exec"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as running:
        yield running


async def test_an_append_that_may_not_create_its_stream_fails_as_it_does_alone(
    gateway: Secured,
) -> None:
    old, new = "{news}", "{news}.new"  # in one slot of a cluster, as the tag is the same
    await gateway.live.append(old, "a")
    key = await gateway.key(Grant(streams=["{{news}}*"], do=[Verb.APPEND]))
    append = ["XADD", new, "*", "v", "b"]
    async with gateway.client(key) as http:
        alone = await http.post("/v1/commands", json=append)
        together = await http.post(URL, json=[["XADD", old, "*", "v", "b"], append])
        unwanted = await http.post(URL, json=[["XADD", new, "NOMKSTREAM", "*", "v", "b"]])

    appended, refused = together.json()
    assert alone.json()["error"].startswith("NOPERM ")
    assert refused == alone.json()
    assert "result" in appended
    assert unwanted.json() == [{"result": None}]


async def test_one_command_without_the_right_discards_all(gateway: Secured) -> None:
    await gateway.live.append("news", "a")
    await gateway.live.append("jobs", "a")
    key = await gateway.key(Grant(streams=["news"], do=[Verb.APPEND, Verb.READ]))
    append = ["XADD", "news", "*", "v", "b"]
    async with gateway.client(key) as http:
        for other in (
            ["XLEN", "jobs"],
            ["XLEN", "nowhere"],
            ["DEL", "news"],
            ["FLUSHALL"],
            ["CONFIG", "RESETSTAT"],
            ["XADD", "news", "MAXLEN", "0", "*", "v", "b"],
        ):
            refused = await http.post(URL, json=[append, other, append])
            assert (refused.status_code, refused.json()["error"].split()[0]) == (400, "EXECABORT")
            assert "NOPERM" in refused.json()["error"]
        assert (await http.get("/v1/streams/news/entries")).json()["entries"][1:] == []
