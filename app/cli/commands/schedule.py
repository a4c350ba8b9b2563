"""`headgate schedule`."""

from collections.abc import Sequence

import click

from headgate.app.cli.durations import time_text
from headgate.app.cli.flags import (
    Utf8,
    confirm,
    gateway_options,
    json_option,
    schedule_argument,
    stream_argument,
    yes_option,
)
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.listing import show_deletion, show_item, show_items
from headgate.app.cli.words import fields_of
from headgate.client.blocking import Client
from headgate.client.shapes.answers import Missed, ScheduleInfo

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


@click.group("schedule", epilog=epilog("headgate schedule list"))
def schedule_command() -> None:
    """Append entries at the times of a cron expression."""


@schedule_command.command(
    "set", epilog=epilog("headgate schedule set nightly jobs kind=report --cron '0 2 * * *'")
)
@schedule_argument
@stream_argument
@click.argument("fields", nargs=-1, required=True, type=Utf8(), metavar="NAME=VALUE…")
@click.option(
    "--cron",
    required=True,
    type=Utf8(),
    metavar="'M H D M W'",
    help="Minute, hour, day of month, month, day of week.",
)
@click.option(
    "--time-zone", type=Utf8(), default="UTC", show_default=True, help="IANA name of the time zone."
)
@click.option(
    "--missed",
    type=click.Choice(["run_once", "skip"]),
    default="run_once",
    show_default=True,
    help="Of due times that nobody could run: run the latest late, or none.",
)
@click.option("--paused", is_flag=True, help="Nothing is due until `resume`.")
@json_option
@gateway_options
def set_schedule(
    schedule: str,
    stream: str,
    fields: tuple[str, ...],
    cron: str,
    time_zone: str,
    missed: Missed,
    paused: bool,
    as_json: bool,
    gateway: Client,
) -> None:
    """Create a schedule, or replace it: it appends an entry to the stream whenever it is due."""
    shown = gateway.schedule(schedule).set(
        stream, fields_of(fields), cron, time_zone=time_zone, missed=missed, paused=paused
    )
    show_item(shown, as_json=as_json)


@schedule_command.command("list", epilog=epilog("headgate schedule list --json"))
@json_option
@gateway_options
def list_schedules(as_json: bool, gateway: Client) -> None:
    """List the schedules: when they are due next, and what they have appended last.

    In a pipe: a header, then columns separated by tabs.
    """
    show_schedules(list(gateway.schedules()), as_json=as_json)


@schedule_command.command("show", epilog=epilog("headgate schedule show nightly"))
@schedule_argument
@json_option
@gateway_options
def show(schedule: str, as_json: bool, gateway: Client) -> None:
    """Show a schedule, and why its last append was refused, if it was."""
    show_item(gateway.schedule(schedule).info(), as_json=as_json)


@schedule_command.command("pause", epilog=epilog("headgate schedule pause nightly"))
@schedule_argument
@json_option
@gateway_options
def pause(schedule: str, as_json: bool, gateway: Client) -> None:
    """Let nothing be due until `resume`."""
    show_item(gateway.schedule(schedule).pause(), as_json=as_json)


@schedule_command.command("resume", epilog=epilog("headgate schedule resume nightly"))
@schedule_argument
@json_option
@gateway_options
def resume(schedule: str, as_json: bool, gateway: Client) -> None:
    """End the pause; due times of the pause are not made up for."""
    show_item(gateway.schedule(schedule).resume(), as_json=as_json)


@schedule_command.command("run", epilog=epilog("headgate schedule run nightly"))
@schedule_argument
@json_option
@gateway_options
def run(schedule: str, as_json: bool, gateway: Client) -> None:
    """Append the entry of a schedule now; its due times stay."""
    show_item({"id": gateway.schedule(schedule).run()}, as_json=as_json)


@schedule_command.command("delete", epilog=epilog("headgate schedule delete nightly --yes"))
@schedule_argument
@yes_option
@json_option
@gateway_options
def delete(schedule: str, yes: bool, as_json: bool, gateway: Client) -> None:
    """Delete a schedule; its stream stays. On a terminal it asks before."""
    confirm(f"Delete the schedule {schedule!r}?", yes=yes)
    gateway.schedule(schedule).delete()
    show_deletion({"schedule": schedule}, as_json=as_json)
