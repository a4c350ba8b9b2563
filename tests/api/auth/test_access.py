"""The rights of a key, and their limits."""

from typing import Any

import pytest

from headgate.app.auth.grants import Grant, Verb
from headgate.app.settings import Settings
from tests.api.auth.secured import Secured
from tests.api.conftest import running
from tests.api.live.frames import frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

READ_NEWS = Grant(streams=["news*"], do=[Verb.READ])
TRANSACTION = "/v1/commands/multi-exec"
ENDING_MS = 4_000_000_000_000


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

    assert len(read.json()["entries"]) == 1
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "append" in refused.json()["detail"]
    assert other.status_code == nowhere.status_code == 403
    assert other.json()["detail"] == nowhere.json()["detail"].replace("nowhere", "jobs")
    assert [stream["name"] for stream in listed.json()["streams"]] == ["news.today"]


async def test_a_close_needs_manage_and_with_a_last_entry_append_as_well(gateway: Secured) -> None:
    await gateway.live.append("jobs.a", "1")
    entry = {"fields": {"v": "last"}}
    for verbs, body, stream, status in [
        ([Verb.APPEND], None, "jobs.a", 403),
        ([Verb.APPEND], entry, "jobs.a", 403),
        ([Verb.MANAGE], entry, "jobs.a", 403),
        ([Verb.MANAGE], None, "jobs.a", 200),
        ([Verb.APPEND, Verb.MANAGE], entry, "jobs.new", 200),
    ]:
        async with gateway.client(await gateway.key(Grant(streams=["jobs*"], do=verbs))) as http:
            answer = await http.post(f"/v1/streams/{stream}/close", json=body)
        assert answer.status_code == status, (verbs, body)


async def test_only_streams_that_may_be_read_are_followed_by_pattern(gateway: Secured) -> None:
    keys = [
        await gateway.key(Grant(streams=["orders.ann.*"], do=[Verb.READ])),
        await gateway.key(Grant(streams=["orders.*"], do=[Verb.APPEND])),
    ]
    reading, appending = ({"Authorization": f"Bearer {key}"} for key in keys)
    async with frames_of(gateway.live, "/v1/ws", additional_headers=reading) as frames:
        await frames.send(type="subscribe", rid="p", sub="p", match="*")
        await frames.next("subscribed")
        await gateway.live.append("orders.ben.1", "secret")
        await gateway.live.append("orders.ann.1", "mine")
        [entry] = await frames.entries(1)
        assert (entry["stream"], entry["fields"]) == ("orders.ann.1", {"v": "mine"})
    answer = await gateway.live.http.get("/v1/events?match=*", headers=appending)
    assert answer.status_code == 403


async def test_a_principal_reads_its_grants_with_its_name_filled_in(gateway: Secured) -> None:
    reading = Grant(streams=["news*", "orders"], do=[Verb.APPEND, Verb.READ], create=True)
    own = Grant(streams=["jobs"], do=[Verb.CONSUME], groups=["workers"], consumer="{sub}")
    key = await gateway.key(reading, own, name="bob", expires_at_ms=ENDING_MS)
    async with gateway.client(key) as http:
        who = (await http.get("/v1/principal")).json()

    allowed: list[dict[str, Any]] = [
        {"streams": ["news*", "orders"], "do": ["read", "append"], "create": True},
        {"streams": ["jobs"], "do": ["consume"], "groups": ["workers"], "consumer": "bob"},
    ]
    defaults = {"groups": None, "consumer": None, "create": False}
    shown = {"id": "bob", "anonymous": False, "expires_at_ms": ENDING_MS}
    assert who == {**shown, "allowed": [defaults | grant for grant in allowed]}
    async with running(Settings()) as home:
        who = (await home.http.get("/v1/principal")).json()
    [everything] = who["allowed"]
    assert (who["anonymous"], who["expires_at_ms"]) == (True, None)
    assert (everything["streams"], everything["do"]) == (["*"], [verb.value for verb in Verb])


async def test_an_append_that_may_create_no_stream_fails_in_a_transaction(gateway: Secured) -> None:
    old, new = "{news}", "{news}.new"  # in one slot of a cluster, as the tag is the same
    await gateway.live.append(old, "a")
    key = await gateway.key(Grant(streams=["{{news}}*"], do=[Verb.APPEND]))
    append = ["XADD", new, "*", "v", "b"]
    async with gateway.client(key) as http:
        alone = await http.post("/v1/commands", json=append)
        together = await http.post(TRANSACTION, json=[["XADD", old, "*", "v", "b"], append])
        unwanted = await http.post(TRANSACTION, json=[["XADD", new, "NOMKSTREAM", "*", "v", "b"]])

    appended, refused = together.json()
    assert alone.json()["error"].startswith("NOPERM ")
    assert refused == alone.json()
    assert "result" in appended
    assert unwanted.json() == [{"result": None}]


async def test_one_command_without_the_right_discards_a_transaction(gateway: Secured) -> None:
    for stream in ("news", "jobs"):
        await gateway.live.append(stream, "a")
    key = await gateway.key(Grant(streams=["news"], do=[Verb.APPEND, Verb.READ]))
    append = "XADD news * v b"
    async with gateway.client(key) as http:
        for other in (
            *("XLEN jobs", "XLEN nowhere", "DEL news", "FLUSHALL", "CONFIG RESETSTAT"),
            "XADD news MAXLEN 0 * v b",
        ):
            commands = [words.split() for words in (append, other, append)]
            refused = await http.post(TRANSACTION, json=commands)
            assert (refused.status_code, refused.json()["error"].split()[0]) == (400, "EXECABORT")
            assert "NOPERM" in refused.json()["error"]
        assert (await http.get("/v1/streams/news/entries")).json()["entries"][1:] == []
