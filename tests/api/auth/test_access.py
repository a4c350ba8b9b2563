"""The rights of a key, and their limits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured, secured

READ_NEWS = Grant(streams=["news*"], do=[Verb.READ])


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as running:
        yield running


async def test_nobody_comes_in_without_a_credential(gateway: Secured) -> None:
    async with gateway.client(None) as http:
        refused = await http.get("/v1/streams")

    assert refused.status_code == 401
    assert refused.json()["code"] == "unauthenticated"
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")


async def test_a_key_that_may_read_may_not_append(gateway: Secured) -> None:
    for stream in ("news.today", "jobs"):
        await gateway.live.append(stream, "a")
    key = await gateway.key(READ_NEWS)
    async with gateway.client(key) as http:
        read = await http.get("/v1/streams/news.today/entries")
        refused = await http.post("/v1/streams/news.today/entries", json={"fields": {"v": "b"}})
        other = await http.get("/v1/streams/jobs/entries")
        nowhere = await http.get("/v1/streams/nowhere/entries")
        listed = await http.get("/v1/streams")

    assert read.status_code == 200
    assert len(read.json()["entries"]) == 1
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "append" in refused.json()["detail"]
    assert other.status_code == nowhere.status_code == 403
    assert other.json()["detail"] == nowhere.json()["detail"].replace("nowhere", "jobs")
    assert [stream["name"] for stream in listed.json()["streams"]] == ["news.today"]


async def test_a_close_needs_manage_and_with_a_last_entry_append_as_well(gateway: Secured) -> None:
    for stream in ("jobs.a", "jobs.b"):
        await gateway.live.append(stream, "1")
    appender = await gateway.key(Grant(streams=["jobs*"], do=[Verb.APPEND]))
    manager = await gateway.key(Grant(streams=["jobs*"], do=[Verb.MANAGE]))
    both = await gateway.key(Grant(streams=["jobs*"], do=[Verb.APPEND, Verb.MANAGE]))
    entry = {"fields": {"v": "last"}}
    async with gateway.client(appender) as http:
        refused = [await http.post("/v1/streams/jobs.a/close", json=body) for body in (None, entry)]
    async with gateway.client(manager) as http:
        refused.append(await http.post("/v1/streams/jobs.a/close", json=entry))
        allowed = [await http.post("/v1/streams/jobs.a/close")]
    async with gateway.client(both) as http:
        allowed += [
            await http.post(f"/v1/streams/{stream}/close", json=entry)
            for stream in ("jobs.b", "jobs.new")
        ]

    assert [answer.status_code for answer in refused] == [403] * 3
    assert [answer.status_code for answer in allowed] == [200] * 3
