"""`headgate stream`."""

import time
from collections.abc import Sequence
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from headgate.app.cli.durations import Duration
from headgate.app.cli.flags import (
    Utf8,
    confirm,
    gateway_options,
    json_option,
    stream_argument,
    yes_option,
)
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.listing import NAME, NARROW, screen, show_deletion, show_item
from headgate.app.cli.rules import config_of, config_options
from headgate.app.cli.words import fields_of, json_line, one_line, word
from headgate.client.blocking import Client
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


@click.group("stream", epilog=epilog("headgate stream info orders"))
def stream_command() -> None:
    """Create, list, set, trim, close and delete streams."""


@stream_command.command("create", epilog=epilog("headgate stream create orders --max-age 7d"))
@stream_argument
@config_options
@json_option
@gateway_options
def create(stream: str, as_json: bool, gateway: Client, **rules: Any) -> None:
    """Create a stream, or do nothing if it is there with this configuration.

    An append creates its stream, too.
    """
    show_item(gateway.stream(stream).create(config_of(rules)), as_json=as_json)


@stream_command.command("list", epilog=epilog("headgate stream list --prefix shop-"))
@click.option("--prefix", type=Utf8(), default="", help="Only names that begin so.")
@json_option
@gateway_options
def list_streams(prefix: str, as_json: bool, gateway: Client) -> None:
    """List the streams: how many entries and groups, and the last id.

    In a pipe: a header, then columns separated by tabs.
    """
    show_streams(list(gateway.streams(prefix=prefix)), as_json=as_json)


@stream_command.command("info", epilog=epilog("headgate stream info orders --json"))
@stream_argument
@json_option
@gateway_options
def info(stream: str, as_json: bool, gateway: Client) -> None:
    """Show the length, the ids and the configuration of a stream."""
    show_item(gateway.stream(stream).info(), as_json=as_json)


@stream_command.command(
    "config", epilog=epilog("headgate stream config orders --max-length 100000")
)
@stream_argument
@config_options
@json_option
@gateway_options
def config(stream: str, as_json: bool, gateway: Client, **rules: Any) -> None:
    """Show the configuration of a stream, or change what flags name; `none` ends a rule."""
    source, changes = gateway.stream(stream), config_of(rules)
    shown = source.update(changes) if changes else source.info()
    show_item(shown["config"], as_json=as_json)


@stream_command.command("trim", epilog=epilog("headgate stream trim orders --older-than 7d"))
@stream_argument
@click.option("--max-length", type=click.IntRange(min=0), help="Number of entries that stay.")
@click.option("--min-id", type=Utf8(), metavar="ID", help="Entries from this id on stay.")
@click.option(
    "--older-than",
    type=Duration(),
    help="Remove entries whose ids are older, by the clock of this machine.",
)
@click.option("--approximate", is_flag=True, help="A few more may stay, which is faster.")
@json_option
@gateway_options
def trim(
    stream: str,
    max_length: int | None,
    min_id: str | None,
    older_than: int | None,
    approximate: bool,
    as_json: bool,
    gateway: Client,
) -> None:
    """Remove the oldest entries of a stream, and say how many."""
    if sum(bound is not None for bound in (max_length, min_id, older_than)) != 1:
        raise click.UsageError("which entries? --max-length, --min-id or --older-than says it.")
    if older_than is not None:
        min_id = str(max(int(time.time() * 1000) - older_than, 0))
    removed = gateway.stream(stream).trim(
        max_length=max_length, min_id=min_id, approximate=approximate
    )
    show_item({"removed": removed}, as_json=as_json)


@stream_command.command(
    "trim-archive", epilog=epilog("headgate stream trim-archive orders --older-than 365d")
)
@stream_argument
@click.option("--before", type=Utf8(), metavar="ID", help="Entries from this id on stay.")
@click.option(
    "--older-than",
    type=Duration(),
    help="Remove entries whose ids are older, by the clock of this machine.",
)
@yes_option
@json_option
@gateway_options
def trim_archive(
    stream: str,
    before: str | None,
    older_than: int | None,
    yes: bool,
    as_json: bool,
    gateway: Client,
) -> None:
    """Remove archived entries of a stream for good, and say how many; all without a bound.

    On a terminal it asks before.
    """
    if before is not None and older_than is not None:
        raise click.UsageError("--before and --older-than are two bounds: give one of them.")
    if older_than is not None:
        before = str(max(int(time.time() * 1000) - older_than, 0))
    which = "all archived entries" if before is None else f"archived entries before {before}"
    confirm(f"Remove {which} of {stream!r}?", yes=yes)
    removed = gateway.stream(stream).trim_archive(before=before)
    show_item({"removed": removed}, as_json=as_json)


@stream_command.command("close", epilog=epilog("headgate stream close orders status=done --yes"))
@stream_argument
@click.argument("fields", nargs=-1, type=Utf8(), metavar="[NAME=VALUE…]")
@yes_option
@json_option
@gateway_options
def close(stream: str, fields: tuple[str, ...], yes: bool, as_json: bool, gateway: Client) -> None:
    """Close a stream for good, behind a last entry if there is one.

    It takes no entries any more, and is never opened again. What follows it, such as `headgate
    tail`, ends behind the last entry; what works a group off, such as `headgate consume`, ends once
    all is done. On a terminal it asks before.
    """
    last = fields_of(fields) if fields else None
    confirm(f"Close {stream!r} for good?", yes=yes)
    show_item(gateway.stream(stream).close(last), as_json=as_json)


@stream_command.command("delete", epilog=epilog("headgate stream delete orders --yes"))
@stream_argument
@yes_option
@json_option
@gateway_options
def delete(stream: str, yes: bool, as_json: bool, gateway: Client) -> None:
    """Delete a stream with its groups. On a terminal it asks before."""
    confirm(f"Delete {stream!r} with its groups?", yes=yes)
    gateway.stream(stream).delete()
    show_deletion({"stream": stream}, as_json=as_json)
