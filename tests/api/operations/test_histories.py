"""Histories: what the gateway, a stream and a group were like, by the second."""

import time
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, problem_in, running
from tests.api.live.event_source import events_of
from tests.api.operations.test_operations import sample
from tests.conditions import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "/v1/streams/orders/groups/billing"
LABELS = '{messaging_consumer_group_name="billing",messaging_destination_name="orders"}'


async def until_shown(live: Live, path: str, name: str, value: float) -> dict[str, Any]:
    """Read a history until a series has shown a value; returns the history."""

    async def ask() -> dict[str, Any]:
        history: dict[str, Any] = (await live.http.get(path)).json()
        return history

    return await eventually(ask, lambda history: value in history["series"][name])


async def test_a_gateway_shows_what_it_is_and_was_like() -> None:
    began_ms = time.time_ns() // 10**6
    async with running(Settings()) as live:
        async with events_of(live, "/v1/admin/history/events") as events:
            first = await events.next("sample")
            await live.append("orders", *"abc")
            second = await events.next("sample")
            history = await until_shown(live, "/v1/admin/history", "connections_events", 1)
        later = await live.http.get(f"/v1/admin/history?after_ms={first['time_ms']}")
        minutes = (await live.http.get("/v1/admin/history?step=minute")).json()

    assert began_ms - 1000 < first["time_ms"] < second["time_ms"]
    assert first["values"].keys() == history["series"].keys()
    assert {len(values) for values in history["series"].values()} == {len(history["times_ms"])}
    assert later.json()["times_ms"][0] == second["time_ms"]
    assert sum(history["series"]["appended"]) == pytest.approx(3, rel=0.5)
    assert history["series"]["process_bytes"][-1] > 2**20
    assert history["series"]["memory_bytes"][-1] > 0
    assert (history["step_ms"], minutes["step_ms"]) == (1000, 60_000)
    assert len(minutes["times_ms"]) <= 1  # of the minute that ended meanwhile


async def test_a_stream_and_a_group_show_what_they_were_like() -> None:
    async with running(Settings()) as live:
        await live.create_group("orders", "billing")
        await live.append("orders", *"abc")
        timed = [{"delay_ms": 3_600_000}, {"expires_at_ms": 1}]
        batch = [{"fields": {"v": "timed"}, **times} for times in timed]
        await live.http.post("/v1/streams/timed/entries/batch", json=batch)
        await live.create_group("timed", "billing")
        await live.read_group("timed", "billing", "worker")
        await live.read_group("orders", "billing", "worker", limit=2)
        group = await until_shown(live, f"{GROUP}/history", "pending", 2)
        stream = (await live.http.get("/v1/streams/orders/history")).json()
        metrics = (await live.http.get("/metrics")).text

    assert (group["observed"], stream["observed"]) == (True, True)
    assert group["series"]["lag"][-1] == 1
    assert group["series"]["oldest_pending_ms"][-1] >= 0
    assert stream["series"]["length"][-1] == 3
    assert sample(metrics, f"headgate_group_pending_entries{LABELS}") == 2
    assert sample(metrics, f"headgate_group_delivered_entries_total{LABELS}") == 2
    timed_labels = LABELS.replace("orders", "timed")
    assert sample(metrics, f"headgate_group_delayed_entries{timed_labels}") == 1
    assert sample(metrics, f"headgate_group_expired_entries_total{timed_labels}") == 1
    assert sample(metrics, 'headgate_stream_entries{messaging_destination_name="orders"}') == 3


async def test_what_is_not_observed_says_so_and_is_counted() -> None:
    async with running(Settings(observed_max=1)) as live:
        await live.append("a", "1")
        await live.create_group("orders", "billing")
        await until_shown(live, "/v1/streams/a/history", "length", 1)
        stream = (await live.http.get("/v1/streams/orders/history")).json()
        group = (await live.http.get(f"{GROUP}/history")).json()
        metrics = (await live.http.get("/metrics")).text

    assert (stream["observed"], stream["times_ms"]) == (False, [])
    assert (group["observed"], group["series"]["lag"]) == (False, [])
    assert sample(metrics, "headgate_unobserved_streams") == 1
    assert 'destination_name="orders"' not in metrics


async def test_what_is_not_there_or_makes_no_sense_is_refused(shared: Live) -> None:
    await shared.append("orders", "1")
    for path, code in (
        ("/v1/streams/nothing/history", "stream_not_found"),
        ("/v1/streams/orders/groups/nobody/history", "group_not_found"),
        ("/v1/admin/history?step=hour", "invalid_request"),
        ("/v1/admin/history?after_ms=-1", "invalid_request"),
    ):
        assert problem_in(await shared.http.get(path))["code"] == code
