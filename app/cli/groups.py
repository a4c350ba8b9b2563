"""`headgate groups`."""

import json
import time
from typing import Any

import click
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headgate.app.cli.flags import gateway_options, json_option, stream_argument
from headgate.app.cli.remote import Remote
from headgate.app.cli.screen import NAME, NARROW, screen
from headgate.app.cli.words import one_line, word

_WATCH_S = 1.0
_COUNTS_WIDTH = 24
_MORE_WIDTH = 32
_NONE = "-"
_COLUMNS = ("group", "consumer", "pending", "lag", "idle_ms", "last_id")


@click.command("groups")
@stream_argument
@click.option("--watch", is_flag=True, help="Show it anew every second, until Ctrl-C.")
@json_option
@gateway_options
def command(stream: str, watch: bool, as_json: bool, gateway: Remote) -> None:
    """Show the groups of a stream and their consumers.

    Pending entries were delivered and not acknowledged. The lag counts entries that the group has
    not delivered yet.
    In a pipe: a header, then columns separated by tabs; the line of a group has no consumer.
    """
    console = screen()
    if watch:
        if console is None or as_json:
            raise click.UsageError("--watch needs a terminal.")
        with Live(console=console, auto_refresh=False) as live:
            while True:
                groups = _groups(gateway, stream)
                live.update(_table(groups, console.width), refresh=True)
                time.sleep(_WATCH_S)
    groups = _groups(gateway, stream)
    if as_json:
        for group in groups:
            click.echo(json.dumps(group, ensure_ascii=False))
    elif console is None:
        for line in _lines(groups):
            click.echo("\t".join(line))
    else:
        console.print(_table(groups, console.width) if groups else "It has no groups.")


def _groups(gateway: Remote, stream: str) -> list[dict[str, Any]]:
    """Return the groups; `consumers` is a list of them."""
    groups = gateway.get("v1", "streams", stream, full="true", count=1)["group_details"]
    for group in groups:
        group["consumers"] = group.pop("consumer_details")
        del group["pending_entries"]
    return list(groups)


def _lines(groups: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [_COLUMNS]
    for group in groups:
        name, counts = word(group["name"]), (str(group["pending"]), _count(group["lag"]))
        lines.append((name, _NONE, *counts, _NONE, group["last_id"]))
        for consumer in group["consumers"]:
            cells = (
                word(consumer["name"]),
                str(consumer["pending"]),
                _NONE,
                str(consumer["idle_ms"]),
                _NONE,
            )
            lines.append((name, *cells))
    return lines


def _table(groups: list[dict[str, Any]], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    room = width - _COUNTS_WIDTH - (_MORE_WIDTH if width >= NARROW else 0)
    table.add_column("group", **NAME, max_width=room)
    table.add_column("pending", justify="right", no_wrap=True, min_width=7)
    table.add_column("lag", justify="right", no_wrap=True, min_width=3)
    table.add_column("idle", justify="right", no_wrap=True, min_width=6)
    if width >= NARROW:
        table.add_column("consumers", justify="right", no_wrap=True)
        table.add_column("last id", style="cyan", no_wrap=True)
    for group in groups:
        name, counts = Text(one_line(group["name"]), "bold"), (group["pending"], group["lag"])
        cells = [name, *map(_counted, counts), "", f"{_consumer_count(group):,}", group["last_id"]]
        table.add_row(*cells[: len(table.columns)])
        for consumer in group["consumers"]:
            name = Text(f"  {one_line(consumer['name'])}")
            table.add_row(name, _counted(consumer["pending"]), "", _age(consumer["idle_ms"]))
    return table


def _consumer_count(group: dict[str, Any]) -> int:
    return len(group["consumers"]) + int(group["consumers_left_out"])


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _counted(number: int | None) -> Text:
    """Return a number that stands out where there is work left."""
    if not number:
        return Text(_count(number), "dim")
    return Text(f"{number:,}", "yellow")


def _age(duration_ms: int) -> str:
    """Return a duration in its largest unit."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if duration_ms >= unit_ms:
            return f"{duration_ms // unit_ms} {unit}"
    return f"{duration_ms} ms"
