"""Schedules: set, describe, list, change, pause, delete, and what is refused."""

from typing import Any

import pytest

from headgate.app.settings import Settings
from headgate.engine.requests.schedules import SetSchedule
from headgate.engine.schedules import Definition
from tests.api.conftest import Live, problem_in, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

NIGHTLY = "/v1/schedules/nightly"
BODY = {
    "stream": "jobs",
    "fields": {"kind": "report"},
    "cron": "0 2 * * *",
    "time_zone": "Europe/Berlin",
}


async def put(live: Live, path: str = NIGHTLY, **changes: Any) -> Any:
    return await live.ask(f"PUT {path}", BODY | changes)


async def test_a_schedule_is_described_as_it_was_set(shared: Live) -> None:
    body = {**BODY, "fields": {"raw": "/wA=", "kind": "report"}, "base64": ["raw"]}
    answer = await shared.http.put(NIGHTLY, json=body)
    assert answer.status_code == 201
    schedule = answer.json()
    next_due_ms = schedule.pop("next_due_ms")
    assert next_due_ms % 3_600_000 == 0
    assert schedule == {
        **body,
        "name": "nightly",
        "missed": "run_once",
        "paused": False,
        "problem": None,
        "last_due_ms": None,
        "last_id": None,
        "missed_count": 0,
        "refused_count": 0,
    }
    described = await shared.http.get(NIGHTLY)
    assert described.json() == {**schedule, "next_due_ms": next_due_ms}
    again = await shared.http.put(NIGHTLY, json=body)
    assert (again.status_code, again.json()) == (200, described.json())


async def test_a_patch_changes_parts(shared: Live) -> None:
    before = await put(shared)
    for part in ({"fields": {"kind": "other"}}, {"paused": True, "next_due_ms": None}):
        sent = {name: value for name, value in part.items() if value is not None}
        changed = (await shared.http.patch(NIGHTLY, json=sent)).json()
        before |= part
        assert changed == before
    changed = (
        await shared.http.patch(NIGHTLY, json={"cron": "30 2 * * *", "paused": False})
    ).json()
    assert changed["cron"] == "30 2 * * *"
    assert changed["next_due_ms"] % 3_600_000 == 1_800_000


async def test_schedules_are_listed_in_pages(shared: Live) -> None:
    for name in "bca":
        await put(shared, f"/v1/schedules/{name}")
    page = (await shared.http.get("/v1/schedules", params={"limit": 2})).json()
    assert [schedule["name"] for schedule in page["schedules"]] == ["a", "b"]
    page = (await shared.http.get("/v1/schedules", params={"cursor": page["next_cursor"]})).json()
    assert [schedule["name"] for schedule in page["schedules"]] == ["c"]
    assert page["next_cursor"] is None


async def test_a_patch_has_parts_and_no_nulls(shared: Live) -> None:
    await put(shared)
    for patch in ({}, {"cron": None}, {"fields": None}, {"stream": None}):
        answer = await shared.http.patch(NIGHTLY, json=patch)
        assert problem_in(answer)["code"] == "invalid_request", patch


async def test_a_schedule_is_run_at_once(shared: Live) -> None:
    before = await put(shared)
    answer = await shared.http.post(f"{NIGHTLY}/run")
    assert answer.status_code == 201
    [entry] = (await shared.http.get("/v1/streams/jobs/entries")).json()["entries"]
    assert entry["id"] == answer.json()["id"]
    asked_ms, made_ms = int(entry["fields"].pop("_due_ms")), int(entry["id"].partition("-")[0])
    assert asked_ms <= made_ms < asked_ms + 60_000
    assert entry["fields"] == {"kind": "report", "_schedule": "nightly"}
    assert (await shared.http.get(NIGHTLY)).json() == before
    assert (await shared.http.delete(NIGHTLY)).status_code == 204
    assert (await shared.http.get(NIGHTLY)).status_code == 404


async def test_the_next_due_times_of_an_expression_are_listed(shared: Live) -> None:
    asked = {"cron": str(BODY["cron"]), "time_zone": str(BODY["time_zone"])}
    answer = await shared.http.get("/v1/schedule-times", params=asked)
    times_ms = answer.json()["times_ms"]
    assert len(times_ms) == 3
    assert times_ms == sorted(set(times_ms))
    assert times_ms[0] == (await put(shared))["next_due_ms"]
    answer = await shared.http.get("/v1/schedule-times", params={**asked, "count": 5})
    assert answer.json()["times_ms"][:3] == times_ms
    answer = await shared.http.get("/v1/schedule-times", params={"cron": "@60000"})
    assert answer.json() == {"times_ms": []}


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"cron": "0 25 * * *"}, "/query/cron"),
        ({"cron": "0 0 30 2 *"}, "/query/cron"),
        ({"cron": "* " * 300}, "/query/cron"),
        ({"cron": "* * * * *", "time_zone": "Nowhere"}, "/query/time_zone"),
        ({"cron": "* * * * *", "count": "6"}, "/query/count"),
        ({"cron": "* * * * *", "count": "0"}, "/query/count"),
        ({}, "/query/cron"),
    ],
)
async def test_an_expression_without_due_times_is_refused(
    shared: Live, asked: dict[str, str], pointer: str
) -> None:
    problem = problem_in(await shared.http.get("/v1/schedule-times", params=asked))
    assert problem["code"] == "invalid_request"
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_the_gateway_runs_what_is_due(shared: Live) -> None:
    await shared.http.put("/v1/streams/jobs")
    definition = Definition(b"jobs", (b"a", b"1"), "0 0 1 * *", "UTC")
    await shared.gateway.backend.perform(SetSchedule(b"monthly", definition, 60_000, 0))
    params: dict[str, str | int] = {"after": "0", "wait_ms": 20_000}
    [entry] = (await shared.http.get("/v1/streams/jobs/entries", params=params)).json()["entries"]
    assert entry["fields"]["_schedule"] == "monthly"
    schedule = (await shared.http.get("/v1/schedules/monthly")).json()
    assert schedule["last_id"] == entry["id"]
    assert schedule["last_due_ms"] == int(entry["fields"]["_due_ms"])
    assert schedule["missed_count"] > 600
    assert schedule["next_due_ms"] > schedule["last_due_ms"]
    assert "headgate_schedule_runs_total" in (await shared.http.get("/metrics")).text


async def test_a_schedule_whose_append_is_refused_is_listed_with_the_reason(shared: Live) -> None:
    await shared.http.put("/v1/streams/jobs")
    await shared.http.post("/v1/streams/jobs/close")
    definition = Definition(b"jobs", (b"a", b"1"), "0 0 1 * *", "UTC")
    await shared.gateway.backend.perform(SetSchedule(b"monthly", definition, 60_000, 0))
    described: dict[str, Any] = {"problem": None}
    while described["problem"] is None:
        described = (await shared.http.get("/v1/schedules/monthly")).json()
    assert described["problem"]["code"] == "stream_closed"
    assert (await shared.http.get("/v1/schedules")).json()["schedules"] == [described]


async def test_one_schedule_too_many_is_refused() -> None:
    async with running(Settings(schedules_max=1)) as live:
        await put(live)
        answer = await live.http.put("/v1/schedules/second", json=BODY)
        assert problem_in(answer)["code"] == "limit_reached"
        assert (await live.http.put(NIGHTLY, json=BODY)).status_code == 200
        assert (await live.http.get("/v1/limits")).json()["schedules_max"] == 1
