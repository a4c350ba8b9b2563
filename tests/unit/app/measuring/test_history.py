"""A history keeps seconds for a quarter of an hour and minutes for a day."""

from __future__ import annotations

from headgate.app.measuring.history import SECONDS_KEPT, History, Step

MINUTE_MS = 60_000


def test_seconds_and_minutes_are_kept_and_the_oldest_go() -> None:
    history = History(["lag"])
    for second in range(1, 2 * SECONDS_KEPT + 1):
        history.add(second * 1000, {"lag": second})

    times, series = history.after(0, Step.SECOND)
    assert len(times) == SECONDS_KEPT
    assert times[0] == (SECONDS_KEPT + 1) * 1000
    assert series["lag"] == [time / 1000 for time in times]
    times, series = history.after(0, Step.MINUTE)
    assert times == [minute * MINUTE_MS for minute in range(1, 30)]  # the last one goes on
    assert series["lag"][0] == 30.5


def test_a_minute_shows_the_mean_or_what_was_worst() -> None:
    history = History(["appended", "delay"], frozenset({"delay"}))
    for second in range(1, 62):
        history.add(second * 1000, {"appended": second % 2, "delay": second, "unknown": 1})
    _, series = history.after(0, Step.MINUTE)
    assert series == {"appended": [0.5], "delay": [60]}


def test_times_ascend_though_the_clock_is_set_back() -> None:
    history = History(["lag"])
    history.add(10_250, {"lag": 1})
    history.add(2_000, {"lag": 2})
    assert history.after(0, Step.SECOND).times_ms == [10_000, 11_000]
