import time
from collections.abc import Sequence
from typing import Unpack

import click
from rich.table import Table
from rich.text import Text

from headgate.app.cli.declaration import argument, epilog, option
from headgate.app.cli.flags import confirm, gateway_command, given_rules
from headgate.app.cli.listing import NAME, NARROW, screen, show_deletion, show_item
from headgate.app.cli.words import fields_of, json_line, one_line, word
from headgate.client.blocking import Client
from headgate.client.shapes.answers import StreamInfo
from headgate.client.shapes.settings import StreamConfig

_NOTHING = "No streams. Append the first entry: headgate append orders sku=42"
_COUNTS_WIDTH = 18
_ID_WIDTH = 24


def show_streams(streams: Sequence[StreamInfo], *, as_json: bool) -> None:
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
    """Create, list, configure, trim, close and delete streams."""


_OLDER = "Remove entries with ids older than this, by the clock of this machine."


@gateway_command("create", "headgate stream create orders --max-age 7d", group=stream_command)
def create(gateway: Client, stream: str, as_json: bool, **rules: Unpack[StreamConfig]) -> None:
    """Create a stream.

    If the stream exists with this configuration, nothing changes. An append also creates its
    stream.
    """
    show_item(gateway.stream(stream).create(given_rules(rules)), as_json=as_json)


@gateway_command("list", "headgate stream list --prefix shop-", group=stream_command)
def list_streams(
    gateway: Client,
    as_json: bool,
    prefix: str = option("Only names with this prefix.", default=""),
    internal: bool = option("Also list internal streams: names that begin with `__`."),
) -> None:
    """List the streams with their entries, groups and last id.

    In a pipe: a header, then columns separated by tabs.
    """
    show_streams(list(gateway.streams(prefix=prefix, internal=internal)), as_json=as_json)


@gateway_command("info", "headgate stream info orders --json", group=stream_command)
def info(gateway: Client, stream: str, as_json: bool) -> None:
    """Show the length, the ids and the configuration of a stream."""
    show_item(gateway.stream(stream).info(), as_json=as_json)


@gateway_command(
    "config", "headgate stream config orders --max-length 100000", group=stream_command
)
def config(gateway: Client, stream: str, as_json: bool, **rules: Unpack[StreamConfig]) -> None:
    """Show the configuration of a stream, or change it with flags.

    The value `none` removes a rule.
    """
    source, changes = gateway.stream(stream), given_rules(rules)
    shown = source.update(changes) if changes else source.info()
    show_item(shown["config"], as_json=as_json)


@gateway_command("trim", "headgate stream trim orders --older-than 7d", group=stream_command)
def trim(
    gateway: Client,
    stream: str,
    as_json: bool,
    max_length: int | None = option("Keep this many entries.", click.IntRange(min=0)),
    min_id: str | None = option("Keep entries from this id on.", metavar="ID"),
    older_than_ms: int | None = option(_OLDER),
    approximate: bool = option("Faster, but may keep a few more entries."),
) -> None:
    """Remove the oldest entries of a stream.

    The command prints the number of removed entries.
    """
    if sum(bound is not None for bound in (max_length, min_id, older_than_ms)) != 1:
        raise click.UsageError("Give one of --max-length, --min-id and --older-than.")
    if older_than_ms is not None:
        min_id = _id_before(older_than_ms)
    removed = gateway.stream(stream).trim(
        max_length=max_length, min_id=min_id, approximate=approximate
    )
    show_item({"removed": removed}, as_json=as_json)


@gateway_command(
    "trim-archive", "headgate stream trim-archive orders --older-than 365d", group=stream_command
)
def trim_archive(
    gateway: Client,
    stream: str,
    yes: bool,
    as_json: bool,
    before: str | None = option("Keep entries from this id on.", metavar="ID"),
    older_than_ms: int | None = option(_OLDER),
) -> None:
    """Remove archived entries of a stream permanently.

    Without --before or --older-than, the command removes all archived entries. It prints the number
    of removed entries. On a terminal, it asks for confirmation.
    """
    if before is not None and older_than_ms is not None:
        raise click.UsageError("--before and --older-than cannot be used together.")
    if older_than_ms is not None:
        before = _id_before(older_than_ms)
    which = "all archived entries" if before is None else f"archived entries before {before}"
    confirm(f"Permanently remove {which} of the stream {stream!r}?", yes=yes)
    removed = gateway.stream(stream).trim_archive(before=before)
    show_item({"removed": removed}, as_json=as_json)


def _id_before(age_ms: int) -> str:
    return str(max(int(time.time() * 1000) - age_ms, 0))


@gateway_command("close", "headgate stream close orders status=done --yes", group=stream_command)
def close(
    gateway: Client,
    stream: str,
    yes: bool,
    as_json: bool,
    fields: tuple[str, ...] = argument(metavar="[NAME=VALUE…]"),
) -> None:
    """Close a stream permanently, with an optional last entry.

    A closed stream accepts no entries and cannot be reopened. Readers that follow it, such as
    `headgate tail`, end after the last entry. Consumers of its groups, such as `headgate consume`,
    end when all entries are processed. The command asks for confirmation on a terminal.
    """
    last = fields_of(fields) if fields else None
    confirm(f"Permanently close the stream {stream!r}?", yes=yes)
    show_item(gateway.stream(stream).close(last), as_json=as_json)


@gateway_command("delete", "headgate stream delete orders --yes", group=stream_command)
def delete(gateway: Client, stream: str, yes: bool, as_json: bool) -> None:
    """Delete a stream and its groups.

    The command asks for confirmation on a terminal.
    """
    confirm(f"Delete the stream {stream!r} and its groups?", yes=yes)
    gateway.stream(stream).delete()
    show_deletion({"stream": stream}, as_json=as_json)
