"""The list of schedules, as `headgate schedule list` shows it."""

from collections.abc import Sequence

from headgate.app.cli.durations import time_text
from headgate.app.cli.output.listing import show_items
from headgate.client.shapes.answers import ScheduleInfo

_NOTHING = "There is no schedule yet: headgate schedule set nightly jobs kind=report --cron …"
_COLUMNS = ("schedule", "stream", "cron", "time_zone", "next_due", "last_due", "last_id", "state")


def show_schedules(schedules: Sequence[ScheduleInfo], *, as_json: bool) -> None:
    """Show schedules: when they are due next, and what they have appended last."""
    if as_json:
        show_items(schedules, (), as_json=True)
        return
    rows = [
        {
            **schedule,
            "schedule": schedule["name"],
            "next_due": time_text(schedule["next_due_ms"]),
            "last_due": time_text(schedule["last_due_ms"]),
            "state": _state(schedule),
        }
        for schedule in schedules
    ]
    show_items(rows, _COLUMNS, as_json=False, nothing=_NOTHING)


def _state(schedule: ScheduleInfo) -> str:
    if schedule["paused"]:
        return "paused"
    problem = schedule["problem"]
    return "active" if problem is None else problem["code"]
