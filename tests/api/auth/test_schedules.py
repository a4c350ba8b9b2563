"""Schedules: the rights to set one, and to see it."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import refusal_of


@pytest.fixture
async def gateway(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Secured]:
    caplog.set_level(logging.INFO, "headgate.audit")
    async with secured(tmp_path) as opened:
        yield opened


def body(stream: str) -> dict[str, Any]:
    return {"stream": stream, "fields": {"a": "1"}, "cron": "0 2 * * *"}


async def names(http: httpx.AsyncClient) -> list[str]:
    page = (await http.get("/v1/schedules")).json()
    return [schedule["name"] for schedule in page["schedules"]]


async def test_a_schedule_is_set_by_who_manages_its_stream_and_may_append(
    gateway: Secured,
) -> None:
    both = await gateway.key(Grant(streams=["mine.*"], do=[Verb.MANAGE, Verb.APPEND]))
    manager = await gateway.key(Grant(streams=["mine.*"], do=[Verb.MANAGE]))
    async with gateway.client(manager) as http:
        answer = await http.put("/v1/schedules/a", json=body("mine.a"))
        assert refusal_of(answer) == (403, "forbidden", "")
        # What makes no sense is not looked at.
        answer = await http.put("/v1/schedules/a", json=body("mine.a") | {"cron": "never"})
        assert refusal_of(answer) == (403, "forbidden", "")
    async with gateway.client(both) as http:
        assert (await http.put("/v1/schedules/a", json=body("mine.a"))).status_code == 201
        answer = await http.put("/v1/schedules/a", json=body("yours.a"))
        assert refusal_of(answer) == (403, "forbidden", "")
        answer = await http.patch("/v1/schedules/a", json={"stream": "yours.a"})
        assert refusal_of(answer) == (403, "forbidden", "")
        assert (await http.patch("/v1/schedules/a", json={"paused": True})).status_code == 200


async def test_a_schedule_of_another_is_not_seen_replaced_run_or_deleted(
    gateway: Secured,
) -> None:
    assert (await gateway.admin.put("/v1/schedules/a", json=body("yours.a"))).status_code == 201
    mine = Grant(streams=["mine.*"], do=[Verb.MANAGE, Verb.APPEND, Verb.READ])
    async with gateway.client(await gateway.key(mine)) as http:
        assert await names(http) == []
        for answer in (
            await http.get("/v1/schedules/a"),
            await http.delete("/v1/schedules/a"),
            await http.patch("/v1/schedules/a", json={"paused": True}),
            await http.post("/v1/schedules/a/run"),
        ):
            assert refusal_of(answer) == (404, "not_found", "")
        answer = await http.put("/v1/schedules/a", json=body("mine.a"))
        assert refusal_of(answer) == (403, "forbidden", "")
    assert await names(gateway.admin) == ["a"]


async def test_a_reader_sees_a_schedule_and_changes_nothing(gateway: Secured) -> None:
    await gateway.admin.put("/v1/schedules/a", json=body("mine.a"))
    reader = await gateway.key(Grant(streams=["mine.*"], do=[Verb.READ]))
    async with gateway.client(reader) as http:
        assert await names(http) == ["a"]
        assert (await http.get("/v1/schedules/a")).json()["stream"] == "mine.a"
        answer = await http.delete("/v1/schedules/a")
        assert refusal_of(answer) == (403, "forbidden", "")
    managing = Grant(streams=["mine.*"], do=[Verb.MANAGE])
    async with gateway.client(await gateway.key(managing)) as http:
        answer = await http.post("/v1/schedules/a/run")
        assert refusal_of(answer) == (403, "forbidden", "")
        assert (await http.delete("/v1/schedules/a")).status_code == 204


async def test_acts_on_schedules_are_in_the_audit_log(
    gateway: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    await gateway.admin.put("/v1/schedules/nightly", json=body("mine.a"))
    await gateway.admin.delete("/v1/schedules/nightly")
    acts = [record for record in caplog.records if record.name == "headgate.audit"]
    facts = [
        (vars(record).get("what"), vars(record).get("schedule"), vars(record).get("outcome"))
        for record in acts
    ]
    assert ("SetSchedule", "nightly", "ok") in facts
    assert ("DeleteSchedule", "nightly", "ok") in facts
