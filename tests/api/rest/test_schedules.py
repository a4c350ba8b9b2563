"""Schedules: set, describe, list, change, pause, delete, and what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headgate.app.settings import Settings
from headgate.engine.requests.schedules import SetSchedule
from headgate.engine.schedules.definition import Definition
from tests.api.conftest import Live, problem_in, refusal_of, running
from tests.conditions import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

NIGHTLY = "/v1/schedules/nightly"
BODY = {
    "stream": "jobs",
    "fields": {"kind": "report"},
    "cron": "0 2 * * *",
    "time_zone": "Europe/Berlin",
}


async def put(live: Live, path: str = NIGHTLY, **changes: Any) -> dict[str, Any]:
    answer = await live.http.put(path, json=BODY | changes)
    assert answer.status_code in (200, 201), answer.text
    schedule: dict[str, Any] = answer.json()
    return schedule


async def test_a_schedule_is_described_as_it_was_set(shared: Live) -> None:
    answer = await shared.http.put(NIGHTLY, json=BODY)
    assert answer.status_code == 201
    schedule = answer.json()
    next_due_ms = schedule.pop("next_due_ms")
    assert next_due_ms % 3_600_000 == 0
    assert schedule == {
        **BODY,
        "name": "nightly",
        "missed": "run_once",
        "paused": False,
        "last_due_ms": None,
        "last_id": None,
        "missed_count": 0,
        "refused_count": 0,
        "problem": None,
    }
    described = await shared.http.get(NIGHTLY)
    assert described.json() == {**schedule, "next_due_ms": next_due_ms}
    again = await shared.http.put(NIGHTLY, json=BODY)
    assert (again.status_code, again.json()) == (200, described.json())


async def test_fields_may_be_bytes(shared: Live) -> None:
    schedule = await put(shared, fields={"raw": "/wA="}, base64=["raw"])
    assert (schedule["fields"], schedule["base64"]) == ({"raw": "/wA="}, ["raw"])


async def test_a_patch_changes_parts(shared: Live) -> None:
    before = await put(shared)
    patch = {"fields": {"kind": "other"}, "missed": "skip"}
    changed = (await shared.http.patch(NIGHTLY, json=patch)).json()
    assert changed == before | patch
    changed = (await shared.http.patch(NIGHTLY, json={"cron": "30 2 * * *"})).json()
    assert changed["cron"] == "30 2 * * *"
    assert changed["next_due_ms"] % 3_600_000 == 1_800_000


async def test_a_schedule_is_paused_and_goes_on(shared: Live) -> None:
    before = await put(shared)
    paused = (await shared.http.patch(NIGHTLY, json={"paused": True})).json()
    assert paused == before | {"paused": True, "next_due_ms": None}
    assert (await shared.http.patch(NIGHTLY, json={"paused": False})).json() == before
    assert (await put(shared, paused=True))["next_due_ms"] is None


async def test_schedules_are_listed_in_pages(shared: Live) -> None:
    for name in "bca":
        await put(shared, f"/v1/schedules/{name}")
    page = (await shared.http.get("/v1/schedules", params={"limit": 2})).json()
    assert [schedule["name"] for schedule in page["schedules"]] == ["a", "b"]
    params = {"cursor": page["next_cursor"]}
    page = (await shared.http.get("/v1/schedules", params=params)).json()
    assert [schedule["name"] for schedule in page["schedules"]] == ["c"]
    assert page["next_cursor"] is None


async def test_a_schedule_is_deleted(shared: Live) -> None:
    await put(shared)
    assert (await shared.http.delete(NIGHTLY)).status_code == 204
    for answer in (
        await shared.http.delete(NIGHTLY),
        await shared.http.get(NIGHTLY),
        await shared.http.patch(NIGHTLY, json={"paused": True}),
        await shared.http.post(f"{NIGHTLY}/run"),
    ):
        assert refusal_of(answer) == (404, "not_found", "")


@pytest.mark.parametrize(
    ("part", "pointer"),
    [
        ({"cron": "0 0 30 2 *"}, "/body/cron"),
        ({"cron": "0 0 */31 * MON#5"}, "/body/cron"),
        ({"cron": "every day"}, "/body/cron"),
        ({"cron": "@daily"}, "/body/cron"),
        ({"time_zone": "Mars"}, "/body/time_zone"),
        ({"time_zone": "../zones"}, "/body/time_zone"),
        ({"stream": ""}, "/body/stream"),
        ({"stream": "a/b"}, "/body/stream"),
        ({"missed": "always"}, "/body/missed"),
        ({"paused": 1}, "/body/paused"),
        ({"fields": {"x": "y" * 65_536}}, "/body/fields"),
        ({"fields": {"_due_ms": "1"}}, "/body/fields"),
        ({"fields": {}}, "/body"),
        ({"more": 1}, "/body/more"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    shared: Live, part: dict[str, Any], pointer: str
) -> None:
    answer = await shared.http.put(NIGHTLY, json=BODY | part)
    assert refusal_of(answer) == (422, "invalid_request", pointer)
    assert (await shared.http.get("/v1/schedules")).json()["schedules"] == []
    await put(shared)
    if "more" not in part:
        answer = await shared.http.patch(NIGHTLY, json=part)
        assert refusal_of(answer) == (422, "invalid_request", pointer)


async def test_a_patch_has_parts_and_no_nulls(shared: Live) -> None:
    await put(shared)
    for patch in ({}, {"cron": None}, {"fields": None}, {"stream": None}):
        answer = await shared.http.patch(NIGHTLY, json=patch)
        assert problem_in(answer)["code"] == "invalid_request", patch


async def test_a_bad_name_is_refused(shared: Live) -> None:
    answer = await shared.http.put("/v1/schedules/%07", json=BODY)
    assert refusal_of(answer) == (422, "invalid_request", "/path/schedule")


async def test_a_schedule_is_run_at_once(shared: Live) -> None:
    before = await put(shared)
    answer = await shared.http.post(f"{NIGHTLY}/run")
    assert answer.status_code == 201
    entries = (await shared.http.get("/v1/streams/jobs/entries")).json()["entries"]
    [entry] = entries
    assert entry["id"] == answer.json()["id"]
    asked_ms, made_ms = int(entry["fields"].pop("_due_ms")), int(entry["id"].partition("-")[0])
    assert asked_ms <= made_ms < asked_ms + 60_000
    assert entry["fields"] == {"kind": "report", "_schedule": "nightly"}
    assert (await shared.http.get(NIGHTLY)).json() == before


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
    metrics = (await shared.http.get("/metrics")).text
    assert "headgate_schedule_runs_total" in metrics


async def test_a_schedule_whose_append_is_refused_is_listed_with_the_reason(shared: Live) -> None:
    await shared.http.put("/v1/streams/jobs")
    await shared.http.post("/v1/streams/jobs/close")
    definition = Definition(b"jobs", (b"a", b"1"), "0 0 1 * *", "UTC")
    await shared.gateway.backend.perform(SetSchedule(b"monthly", definition, 60_000, 0))
    described: dict[str, Any] = {"problem": None}
    while described["problem"] is None:
        described = (await shared.http.get("/v1/schedules/monthly")).json()
    assert described["problem"]["code"] == "stream_closed"
    answer = await shared.http.get("/v1/schedules")
    assert answer.json()["schedules"] == [described]


async def test_one_schedule_too_many_is_refused() -> None:
    async with running(Settings(schedules_max=1)) as live:
        await put(live)
        answer = await live.http.put("/v1/schedules/second", json=BODY)
        assert problem_in(answer)["code"] == "limit_reached"
        assert (await live.http.put(NIGHTLY, json=BODY)).status_code == 200
        assert (await live.http.get("/v1/limits")).json()["schedules_max"] == 1


async def test_many_set_a_schedule_at_the_same_time(shared: Live) -> None:
    answers = await asyncio.gather(
        *(shared.http.put(NIGHTLY, json=BODY | {"cron": f"{n} 2 * * *"}) for n in range(8))
    )
    assert max(answer.status_code for answer in answers) == 201
    assert [answer.status_code for answer in answers].count(201) == 1
    assert (await shared.http.get(NIGHTLY)).json()["cron"] in {f"{n} 2 * * *" for n in range(8)}


async def test_schedules_are_there_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    async with running(settings) as live:
        before = await put(live)
        await put(live, "/v1/schedules/other", paused=True)
        await live.http.delete("/v1/schedules/other")
    async with running(settings) as live:
        assert (await live.http.get("/v1/schedules")).json()["schedules"] == [before]
        answer = await live.http.post("/v1/admin/rewrite")
        assert answer.status_code == 202, answer.text
        journal = live.gateway.backend.journal
        assert journal is not None
        await until(lambda: journal.status.rewrite_count == 1)
    async with running(settings) as live:
        assert (await live.http.get("/v1/schedules")).json()["schedules"] == [before]
