import click

from headgate.app.cli.declaration import argument, epilog, option
from headgate.app.cli.durations import time_text
from headgate.app.cli.flags import confirm, gateway_command
from headgate.app.cli.listing import show_deletion, show_item, show_items
from headgate.app.cli.words import fields_of
from headgate.client.blocking import Client
from headgate.client.shapes.answers import Missed, ScheduleInfo

_NOTHING = "No schedules. Create one: headgate schedule set nightly jobs kind=report --cron …"
_COLUMNS = ("schedule", "stream", "cron", "time_zone", "next_due", "last_due", "last_id", "state")


def _row(schedule: ScheduleInfo) -> dict[str, object]:
    return {
        **schedule,
        "schedule": schedule["name"],
        "next_due": time_text(schedule["next_due_ms"]),
        "last_due": time_text(schedule["last_due_ms"]),
        "state": _state(schedule),
    }


def _state(schedule: ScheduleInfo) -> str:
    if schedule["paused"]:
        return "paused"
    problem = schedule["problem"]
    return "active" if problem is None else problem["code"]


@click.group("schedule", epilog=epilog("headgate schedule list"))
def schedule_command() -> None:
    """Append entries on a schedule (cron)."""


@gateway_command(
    "set",
    "headgate schedule set nightly jobs kind=report --cron '0 2 * * *'",
    group=schedule_command,
)
def set_schedule(
    gateway: Client,
    schedule: str,
    stream: str,
    as_json: bool,
    fields: tuple[str, ...] = argument(required=True, metavar="NAME=VALUE…"),
    cron: str = option(
        "Minute, hour, day of month, month, day of week.", required=True, metavar="'M H D M W'"
    ),
    time_zone: str = option("IANA name of the time zone.", default="UTC"),
    missed: Missed = option(
        "After missed due times: run once for the latest of them, or skip all.", default="run_once"
    ),
    paused: bool = option("Create the schedule paused. Start it with `resume`."),
) -> None:
    """Create or replace a schedule.

    The schedule appends an entry to the stream at each due time.
    """
    shown = gateway.schedule(schedule).set(
        stream, fields_of(fields), cron, time_zone=time_zone, missed=missed, paused=paused
    )
    show_item(shown, as_json=as_json)


@gateway_command("list", "headgate schedule list --json", group=schedule_command)
def list_schedules(gateway: Client, as_json: bool) -> None:
    """List the schedules with their next due time and last entry.

    In a pipe: a header, then columns separated by tabs.
    """
    schedules = list(gateway.schedules())
    show_items(schedules, _COLUMNS, as_json=as_json, nothing=_NOTHING, told=_row)


@gateway_command("show", "headgate schedule show nightly", group=schedule_command)
def show(gateway: Client, schedule: str, as_json: bool) -> None:
    """Show a schedule, and why its last append failed."""
    show_item(gateway.schedule(schedule).info(), as_json=as_json)


@gateway_command("pause", "headgate schedule pause nightly", group=schedule_command)
def pause(gateway: Client, schedule: str, as_json: bool) -> None:
    """Pause a schedule until `resume`."""
    show_item(gateway.schedule(schedule).pause(), as_json=as_json)


@gateway_command("resume", "headgate schedule resume nightly", group=schedule_command)
def resume(gateway: Client, schedule: str, as_json: bool) -> None:
    """Resume a paused schedule.

    The schedule does not catch up on due times during the pause.
    """
    show_item(gateway.schedule(schedule).resume(), as_json=as_json)


@gateway_command("run", "headgate schedule run nightly", group=schedule_command)
def run(gateway: Client, schedule: str, as_json: bool) -> None:
    """Append the entry of a schedule now. Its due times do not change."""
    show_item({"id": gateway.schedule(schedule).run()}, as_json=as_json)


@gateway_command("delete", "headgate schedule delete nightly --yes", group=schedule_command)
def delete(gateway: Client, schedule: str, yes: bool, as_json: bool) -> None:
    """Delete a schedule, but keep its stream.

    The command asks for confirmation on a terminal.
    """
    confirm(f"Delete the schedule {schedule!r}?", yes=yes)
    gateway.schedule(schedule).delete()
    show_deletion({"schedule": schedule}, as_json=as_json)
