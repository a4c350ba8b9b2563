"""The audit log: acts and denials through every way in, and nothing else."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from websockets.asyncio.client import connect

from headgate.app.auth.grants import Grant, Verb
from headgate.app.settings import Settings
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import running
from tests.api.live.frames import Frames

pytestmark = pytest.mark.asyncio(loop_scope="session")

READ = Grant(streams=["news*"], do=[Verb.READ])


def lines(caplog: pytest.LogCaptureFixture, *fields: str) -> list[tuple[Any, ...]]:
    """Return these fields of the lines of the audit log."""
    return [
        tuple(getattr(record, field, None) for field in fields)
        for record in caplog.records
        if record.name == "headgate.audit"
    ]


async def test_each_act_leaves_a_line_and_work_leaves_none(
    gateway: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    http = gateway.admin
    await http.put("/v1/streams/jobs")
    await http.put("/v1/streams/jobs/groups/workers", json={})
    await gateway.live.append("jobs", "a", "b")
    await gateway.live.read_group("jobs", "workers", "w1")
    await http.get("/v1/streams/jobs/entries")
    await http.post("/v1/commands", json=["DEL", "jobs", "none"])
    await http.delete("/v1/streams/jobs")
    # Names with one hash tag: a cluster has such streams in one slot.
    commands = [["XADD", "{a}", "*", "a", "1"], ["RENAME", "{a}none", "{a}x"], ["DEL", "{a}"]]
    await http.post("/v1/commands/multi-exec", json=commands)
    schedule = {"stream": "jobs", "fields": {"a": "1"}, "cron": "0 2 * * *"}
    await http.put("/v1/schedules/nightly", json=schedule)
    await http.delete("/v1/schedules/nightly")

    fields = ("message", "principal", "what", "operation", "client", "outcome")
    assert lines(caplog, *fields) == [
        ("act", "admin", "CreateStream", "createStream", "127.0.0.1", "ok"),
        ("act", "admin", "CreateGroup", "createGroup", "127.0.0.1", "ok"),
        ("act", "admin", "DeleteStreams", "runCommand", "127.0.0.1", "ok"),
        ("act", "admin", "DeleteStream", "deleteStream", "127.0.0.1", "ok"),
        ("act", "admin", "RenameStream", "runTransaction", "127.0.0.1", "stream_not_found"),
        ("act", "admin", "DeleteStreams", "runTransaction", "127.0.0.1", "ok"),
        ("act", "admin", "SetSchedule", "setSchedule", "127.0.0.1", "ok"),
        ("act", "admin", "DeleteSchedule", "deleteSchedule", "127.0.0.1", "ok"),
    ]
    assert lines(caplog, "schedule")[6:] == [("nightly",), ("nightly",)]
    assert lines(caplog, "stream", "group", "streams")[:4] == [
        ("jobs", None, None),
        ("jobs", "workers", None),
        (None, None, ["jobs", "none"]),
        ("jobs", None, None),
    ]
    key_id = next(iter(gateway.keys.ids.values()))
    assert {key for (key,) in lines(caplog, "key")} == {key_id}


async def test_steps_of_a_commit_leave_lines_with_their_names(
    gateway: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    timer = {"name": "t", "stream": "late", "fields": {"a": "1"}, "at_ms": 2**45}
    append = {"append": {"stream": "jobs", "entries": [{"fields": {"a": "1"}}]}}
    steps = [append, {"schedule": timer}, {"cancel": {"name": "other"}}]
    await gateway.admin.post("/v1/commit", json={"steps": steps})
    await gateway.admin.post("/v1/commit", json={"steps": [append]})
    assert lines(caplog, "message", "what", "schedule", "operation", "outcome") == [
        ("act", "DeleteSchedule", "other", "commit", "ok"),
        ("act", "SetSchedule", "t", "commit", "ok"),
    ]


async def test_acts_on_durable_streams(gateway: Secured, caplog: pytest.LogCaptureFixture) -> None:
    http, place = gateway.admin, "/v1/stream/run"
    wanted = {"type": "pull-wake", "pattern": "*", "wake_stream": "w"}
    await http.put(place, headers={"Content-Type": "text/plain"}, content=b"a")
    await http.put("/v1/stream/fork", headers={"Stream-Forked-From": place})
    await http.post(place, headers={"Stream-Closed": "true"})
    await http.delete(place)
    for method in ("PUT", "DELETE"):
        await http.request(method, "/v1/stream/__ds/subscriptions/s", json=wanted)
    assert lines(caplog, "what", "stream", "operation", "outcome") == [
        ("CloseStream", "run", "postDurableStream", "ok"),
        ("Trim", "run", "deleteDurableStream", "ok"),
        ("CreateStream", "__ds:s", "putDurableSubscription", "ok"),
        ("DeleteStream", "__ds:s", "deleteDurableSubscription", "ok"),
    ]


@pytest.mark.embedded("servers have no journal that an operator rewrites")
async def test_an_act_of_an_operator_leaves_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    async with secured(tmp_path, data_dir=tmp_path / "data") as gateway:
        await gateway.admin.post("/v1/admin/rewrite")

    assert lines(caplog, "what", "operation", "outcome") == [("rewrite", "rewriteJournal", "ok")]


async def test_a_cut_connection_is_told(gateway: Secured, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"Authorization": f"Bearer {await gateway.key(READ, name='reader')}"}
    caplog.clear()
    async with connect(f"{gateway.live.ws_url}/v1/ws", additional_headers=headers) as socket:
        named = json.loads(await socket.recv())["connection"]
        for connection in (named, "nobody\n"):
            await gateway.admin.delete(quote(f"/v1/admin/connections/{connection}"))
        await socket.wait_closed()

    assert lines(caplog, "principal", "what", "connection", "outcome") == [
        ("admin", "cut_off", named, "ok"),
        ("admin", "cut_off", "nobody\\n", "not_found"),
    ]


async def test_a_denial_leaves_a_line(gateway: Secured, caplog: pytest.LogCaptureFixture) -> None:
    key = await gateway.key(READ, name="reader")
    caplog.clear()
    async with gateway.client(key) as http:
        await http.get("/v1/streams/jobs/entries")
        await http.delete("/v1/streams/news")
        await http.post("/v1/commands", json=["FLUSHALL"])
        await http.post("/v1/commands/multi-exec", json=[["XLEN", "jobs"]])
    async with gateway.client(None) as http:
        await http.get("/v1/streams")
    async with gateway.client(f"{key}x") as http:
        await http.get("/v1/streams")

    assert lines(caplog, "message", "principal", "operation", "outcome") == [
        ("denied", "reader", "readEntries", "forbidden"),
        ("denied", "reader", "deleteStream", "forbidden"),
        ("denied", "reader", "runCommand", "forbidden"),
        ("denied", "reader", "runTransaction", "forbidden"),
        ("denied", "anonymous", "listStreams", "unauthenticated"),
        ("denied", None, "listStreams", "unauthenticated"),
    ]
    assert lines(caplog, "stream")[:2] == [("jobs",), ("news",)]
    secret = key.rpartition("_")[2]
    assert not [record for record in caplog.records if secret in str(vars(record))]


async def test_denials_over_a_socket(gateway: Secured, caplog: pytest.LogCaptureFixture) -> None:
    key = await gateway.key(READ, name="reader")
    caplog.clear()
    async with connect(f"{gateway.live.ws_url}/v1/ws") as socket:
        frames = Frames(socket)
        await frames.send(type="auth", token=key)
        await frames.next("welcome")
        await frames.send(type="append", rid="a", stream="jobs", entries=[{"fields": {"v": "1"}}])
        while (await frames.any())["type"] != "problem":
            pass

    assert lines(caplog, "message", "principal", "what", "operation", "client") == [
        ("denied", "reader", "Add", "websocket", "127.0.0.1")
    ]


async def test_where_nobody_says_who_it_is_nothing_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    async with running(Settings()) as live:
        await live.http.put("/v1/streams/jobs")
        await live.http.post("/v1/commands/multi-exec", json=[["DEL", "jobs"]])
        await asyncio.sleep(0)

    assert lines(caplog, "message") == []
