"""The list of streams, as `headgate stream list` shows it."""

from collections.abc import Sequence

import click
from rich.table import Table
from rich.text import Text

from headgate.app.cli.output.screen import NAME, NARROW, screen
from headgate.app.cli.words import json_line, one_line, word
from headgate.client.shapes.answers import StreamInfo

_NOTHING = "There is no stream yet: headgate append orders sku=42"
_COUNTS_WIDTH = 18
_ID_WIDTH = 24


def show_streams(streams: Sequence[StreamInfo], *, as_json: bool) -> None:
    """Show streams: how many entries and groups, and the last id."""
    console = screen()
    if as_json:
        for stream in streams:
            click.echo(json_line(stream))
    elif console is None:
        click.echo("stream\tentries\tgroups\tlast_id")
        for stream in streams:
            cells = [word(stream["name"]), stream["length"], stream["groups"]]
            click.echo("\t".join(map(str, [*cells, stream["last_id"]])))
    else:
        console.print(_table(streams, console.width) if streams else _NOTHING)


def _table(streams: Sequence[StreamInfo], width: int) -> Table:
    room = width - _COUNTS_WIDTH - (_ID_WIDTH if width >= NARROW else 0)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("stream", style="bold", **NAME, max_width=room)
    table.add_column("entries", justify="right", no_wrap=True, min_width=7)
    table.add_column("groups", justify="right", no_wrap=True, min_width=6)
    if width >= NARROW:
        table.add_column("last id", style="cyan", no_wrap=True)
    for stream in streams:
        counts = f"{stream['length']:,}", f"{stream['groups']:,}"
        name = Text(one_line(stream["name"]))
        if stream["closed_at_ms"] is not None:
            name.append(" closed", style="not bold dim")
        cells = name, *counts, stream["last_id"]
        table.add_row(*cells[: len(table.columns)])
    return table
