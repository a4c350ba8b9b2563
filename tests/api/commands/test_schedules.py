"""The commands that set, list, show, pause, run and delete schedules."""

import json

from tests.api.commands.command_line import headgate
from tests.api.conftest import Live

SET = ("schedule", "set", "nightly", "jobs", "kind=report", "--cron", "0 2 * * *")


async def shown(live: Live, *words: str) -> dict[str, object]:
    ended = await headgate(live.url, *words, "--json")
    assert ended.code == 0, ended.error
    answer: dict[str, object] = json.loads(ended.output)
    return answer


async def test_a_schedule_is_set_paused_run_and_deleted(live: Live) -> None:
    created = await shown(live, *SET, "--time-zone", "Europe/Berlin", "--missed", "skip")
    assert (created["stream"], created["fields"]) == ("jobs", {"kind": "report"})
    assert (created["time_zone"], created["missed"]) == ("Europe/Berlin", "skip")
    assert await shown(live, "schedule", "show", "nightly") == created
    paused = await shown(live, "schedule", "pause", "nightly")
    assert (paused["paused"], paused["next_due_ms"]) == (True, None)
    assert await shown(live, "schedule", "resume", "nightly") == created
    entry_id = (await shown(live, "schedule", "run", "nightly"))["id"]
    assert (await live.stream("jobs"))["last_id"] == entry_id
    assert await headgate(live.url, "schedule", "delete", "nightly") == (0, "", "")
    assert (await headgate(live.url, "schedule", "show", "nightly")).code == 1


async def test_schedules_are_listed_in_columns(live: Live) -> None:
    await shown(live, *SET)
    await shown(live, *SET[:2], "weekly", *SET[3:], "--paused")
    ended = await headgate(live.url, "schedule", "list")
    header, nightly, weekly = (line.split("\t") for line in ended.lines)
    assert header[:4] == ["schedule", "stream", "cron", "time_zone"]
    assert nightly[:4] == ["nightly", "jobs", '"0 2 * * *"', "UTC"]
    assert nightly[4].endswith("T02:00:00Z")
    assert nightly[5:] == ["-", "-", "active"]
    assert weekly[4:] == ["-", "-", "-", "paused"]


async def test_what_makes_no_sense_is_refused(live: Live) -> None:
    ended = await headgate(live.url, *SET[:-1], "0 0 30 2 *")
    assert ended.code == 1
    assert "/body/cron" in ended.error
    assert (await headgate(live.url, *SET[:4], "kind", *SET[5:])).code == 2
    assert (await headgate(live.url, *SET[:5])).code == 2
