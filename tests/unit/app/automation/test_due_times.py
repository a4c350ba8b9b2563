"""Due times: clocks that are set, outages, wrong expressions; and how many one may have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from itertools import islice

import pytest

from headgate.app.automation.records import check_share
from headgate.app.automation.schedules import COUNTED_MAX, MISSED_MS, DuePlan, DueTimes, plan
from headgate.engine.errors import Invalid, LimitReached
from headgate.engine.schedules import Definition, Missed, Progress, ScheduleInfo

BERLIN = "Europe/Berlin"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def ms(text: str) -> int:
    """Return the unix time of a time with its offset, such as `2026-03-29 03:00+02`."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def following(cron: str, zone: str, after: str, count: int) -> list[int]:
    times, at_ms = DueTimes(cron, zone), ms(after)
    due: list[int] = []
    for _ in range(count):
        next_ms = times.after(at_ms)
        assert next_ms is not None
        due.append(next_ms)
        at_ms = next_ms
    return due


# In Berlin 02:00 to 03:00 is missing on 2026-03-29, and comes twice on 2026-10-25. A time that does
# not exist is the first behind the gap, and several of them are one. Of a time that comes twice the
# first counts. What goes by passing time skips nothing that there is, and comes in both hours.
CASES = """\
* * * * *|UTC|2026-01-01 00:00:00.001+00|2026-01-01 00:01+00
* * * * *|UTC|2026-01-01 00:01+00|2026-01-01 00:02+00
0 6 * * MON-FRI|Europe/Berlin|2026-01-02 06:00+01|2026-01-05 06:00+01
0 0 29 2 *|UTC|2026-01-01 00:00+00|2028-02-29 00:00+00
30 5 L * *|Asia/Kolkata|2026-02-01 00:00+05:30|2026-02-28 05:30+05:30
30 2 * * *|Europe/Berlin|2026-03-28 12:00+01|2026-03-29 03:00+02|2026-03-30 02:30+02
0,30 2 * * *|Europe/Berlin|2026-03-28 12:00+01|2026-03-29 03:00+02|2026-03-30 02:00+02
30 2 * * *|Europe/Berlin|2026-10-24 12:00+02|2026-10-25 02:30+02|2026-10-26 02:30+01
30 2 * * *|Europe/Berlin|2026-10-25 02:10+01|2026-10-26 02:30+01
30 * * * *|Europe/Berlin|2026-03-29 01:30+01|2026-03-29 03:30+02|2026-03-29 04:30+02
30 * * * *|Europe/Berlin|2026-10-25 02:30+02|2026-10-25 02:30+01|2026-10-25 03:30+01
"""


def test_a_time_that_never_comes_is_not_searched_for_ever() -> None:
    for cron in ("0 0 */31 * MON#5", "0 0 */31 2 0#5"):
        assert DueTimes(cron, "UTC").after(ms("2026-01-01 00:00+00")) is None


@pytest.mark.parametrize("case", CASES.splitlines())
def test_the_due_times_are_those_of_debian(case: str) -> None:
    cron, zone, after, *due = case.split("|")
    assert following(cron, zone, after, len(due)) == [*map(ms, due)]


@pytest.mark.parametrize(
    "cron",
    [
        *("", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "* * 0 * *"),
        *("a * * * *", "*/0 * * * *", "5-1 * * * *", "* * * * 8", "* * * * *\n", "é * * * *"),
        *("0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "1," * 200 + "1 * * * *", "1,, * * * *"),
    ],
)
def test_an_expression_that_makes_no_sense_is_refused(cron: str) -> None:
    with pytest.raises(Invalid) as refused:
        DueTimes(cron, "UTC")
    assert refused.value.location == ("cron",)


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "x" * 300, "a\0b"]
)
def test_a_time_zone_that_is_not_known_is_refused(zone: str) -> None:
    with pytest.raises(Invalid) as refused:
        DueTimes("* * * * *", zone)
    assert refused.value.location == ("time_zone",)
    with pytest.raises(Invalid):  # it may have gone since
        plan(waiting(NOON_MS, zone=zone), NOON_MS)


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/7 * * * *", "0,30 2,3 * * *", "30 * * * *"])
@pytest.mark.parametrize("around", ["2026-03-28 20:00+01", "2026-10-24 20:00+02"])
def test_the_latest_due_time_is_one_on_the_way_forward(cron: str, around: str) -> None:
    times, start_ms = DueTimes(cron, BERLIN), ms(around)
    forward = list(islice(each_after(times, start_ms), 300))
    for at_ms in range(forward[0], start_ms + DAY_MS, 13 * MINUTE_MS):
        latest_ms = max(due_ms for due_ms in forward if due_ms <= at_ms)
        assert times.latest(at_ms, forward[0]) == latest_ms


def each_after(times: DueTimes, at_ms: int) -> Iterator[int]:
    while (due_ms := times.after(at_ms)) is not None:
        yield due_ms
        at_ms = due_ms


def waiting(
    due_ms: int, cron: str = "0 * * * *", missed: Missed = Missed.RUN_ONCE, zone: str = "UTC"
) -> ScheduleInfo:
    definition = Definition(b"s", (b"a", b"1"), cron, zone, missed)
    return ScheduleInfo(b"hourly", 1, 1, definition, Progress(due_ms))


NOON_MS = ms("2026-05-01 12:00+00")


@pytest.mark.parametrize(
    ("late_ms", "missed", "due_h", "next_h", "count"),
    [
        *((0, missed, 0, 1, 0) for missed in Missed),
        *((MISSED_MS - 1, Missed.SKIP, 0, 1, 0), (MISSED_MS, Missed.SKIP, None, 1, 1)),
        (MISSED_MS, Missed.RUN_ONCE, 0, 1, 0),
        (3 * HOUR_MS, Missed.SKIP, None, 3, 3),  # that of now is run as if nothing had been
        (3 * HOUR_MS, Missed.RUN_ONCE, 2, 3, 2),
        (3 * HOUR_MS + MISSED_MS, Missed.RUN_ONCE, 3, 4, 3),
    ],
)
def test_what_was_missed_is_run_once_or_skipped(
    late_ms: int, missed: Missed, due_h: int | None, next_h: int, count: int
) -> None:
    due_ms = None if due_h is None else NOON_MS + due_h * HOUR_MS
    planned = plan(waiting(NOON_MS, missed=missed), NOON_MS + late_ms)
    assert planned == DuePlan(due_ms, NOON_MS + next_h * HOUR_MS, count)


def test_a_long_outage_is_not_counted_to_its_end() -> None:
    info = waiting(NOON_MS, "* * * * *", Missed.SKIP)
    planned = plan(info, NOON_MS + 365 * DAY_MS)
    assert planned == DuePlan(None, NOON_MS + 365 * DAY_MS, COUNTED_MAX)


@pytest.mark.parametrize(
    ("there", "maker", "refusal"),
    [
        (["ann"] * 9, "ann", None),
        (["ann"] * 10, "ann", "too many pushes of one principal: the limit is 10"),
        (["ann"] * 10, "bob", None),
        (["ann"] * 9 + ["bob"] * 9, "cid", "too many pushes: the limit is 20"),
        *((["ann"] * 9 + ["bob"] * 9, None, None), ([""] * 19, None, None)),
        ([""] * 20, None, "too many pushes: the limit is 20"),
    ],
)
async def test_another_one_is_made_as_long_as_there_is_a_share(
    there: Sequence[str], maker: str | None, refusal: str | None
) -> None:
    async def makers() -> AsyncIterator[str]:
        for each in there:
            yield each

    if refusal is None:
        await check_share("pushes", 20, len(there), maker, makers)
    else:
        with pytest.raises(LimitReached, match=refusal):
            await check_share("pushes", 20, len(there), maker, makers)
