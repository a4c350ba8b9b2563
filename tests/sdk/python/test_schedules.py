"""Schedules with the Python client."""

import pytest

import headgate
from headgate.client import problems


async def test_a_schedule_is_set_changed_and_deleted(hg: headgate.AsyncClient) -> None:
    nightly = hg.schedule("a b")
    created = await nightly.set("jobs", {"raw": b"\xff"}, "0 2 * * *", time_zone="Europe/Berlin")
    assert (created["fields"], created["base64"]) == ({"raw": "/w=="}, ["raw"])
    changed = await nightly.update(fields={"kind": "report"}, missed="skip")
    assert (changed["fields"], changed["missed"]) == ({"kind": "report"}, "skip")
    assert changed["next_due_ms"] == created["next_due_ms"]
    assert (await nightly.pause())["next_due_ms"] is None
    assert await nightly.resume() == changed == await nightly.info()
    entry_id = await nightly.run()
    [entry] = [entry async for entry in hg.stream("jobs").scan()]
    assert (entry.id, entry.fields["_schedule"]) == (entry_id, "a b")
    assert [schedule["name"] async for schedule in hg.schedules()] == ["a b"]
    await nightly.delete()
    with pytest.raises(problems.NotFound):
        await nightly.info()
