"""Schedules: the rights to set one, and to see it."""

from typing import Any

import httpx
import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured
from tests.api.conftest import refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


def body(stream: str) -> dict[str, Any]:
    return {"stream": stream, "fields": {"a": "1"}, "cron": "0 2 * * *"}


async def names(http: httpx.AsyncClient) -> list[str]:
    page = (await http.get("/v1/schedules")).json()
    return [schedule["name"] for schedule in page["schedules"]]


async def test_a_schedule_is_for_who_manages_its_stream_and_may_append(gateway: Secured) -> None:
    manager = await gateway.key(Grant(streams=["mine.*"], do=[Verb.MANAGE]))
    both = await gateway.key(Grant(streams=["mine.*"], do=[Verb.MANAGE, Verb.APPEND]))
    forbidden = 403, "forbidden", ""
    async with gateway.client(manager) as http:
        # What makes no sense is not looked at.
        for asked in (body("mine.a"), body("mine.a") | {"cron": "never"}):
            assert refusal_of(await http.put("/v1/schedules/a", json=asked)) == forbidden
    async with gateway.client(both) as http:
        assert (await http.put("/v1/schedules/a", json=body("mine.a"))).status_code == 201
        for answer in (
            await http.put("/v1/schedules/a", json=body("yours.a")),
            await http.patch("/v1/schedules/a", json={"stream": "yours.a"}),
        ):
            assert refusal_of(answer) == forbidden
        assert (await http.patch("/v1/schedules/a", json={"paused": True})).status_code == 200
    reader = await gateway.key(Grant(streams=["mine.*"], do=[Verb.READ]))
    async with gateway.client(reader) as http:
        assert await names(http) == ["a"]
        assert (await http.get("/v1/schedules/a")).json()["stream"] == "mine.a"
        assert refusal_of(await http.delete("/v1/schedules/a")) == forbidden
    async with gateway.client(manager) as http:
        assert refusal_of(await http.post("/v1/schedules/a/run")) == forbidden
        assert (await http.delete("/v1/schedules/a")).status_code == 204


async def test_a_schedule_of_another_is_not_seen_replaced_run_or_deleted(gateway: Secured) -> None:
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
