import time
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import click
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headgate.app.cli.declaration import argument, epilog, option
from headgate.app.cli.flags import LIMIT, confirm, gateway_command, given_rules
from headgate.app.cli.listing import NAME, NARROW, screen, show_deletion, show_item, show_items
from headgate.app.cli.words import json_line, one_line, word
from headgate.app.wire.times import age_text
from headgate.client.blocking import BlockingStream, Client
from headgate.client.shapes.answers import GroupDetail, GroupKey
from headgate.client.shapes.settings import Policy

_WATCH_S = 1.0
_COUNTS_WIDTH = 24
_MORE_WIDTH = 51
_NONE = "-"
_COLUMNS = ("group", "consumer", "pending", "lag", "idle_ms", "last_id", "delayed", "verdict")
_STYLES = {"ok": "dim", "warning": "yellow", "critical": "red"}


def show_groups(stream: BlockingStream, *, as_json: bool) -> None:
    console = screen()
    groups = stream.detail(count=1)["group_details"]
    if as_json:
        for group in groups:
            click.echo(json_line(_item(group)))
    elif console is None:
        for line in _lines(groups):
            click.echo("\t".join(line))
    else:
        console.print(_table(groups, console.width) if groups else "The stream has no groups.")


def watch_groups(stream: BlockingStream) -> None:
    """Redraw the groups of a stream every second. Raises click.UsageError without a terminal."""
    console = screen()
    if console is None:
        raise click.UsageError("--watch requires a terminal.")
    with Live(console=console, auto_refresh=False) as live:
        while True:
            groups = stream.detail(count=1)["group_details"]
            live.update(_table(groups, console.width), refresh=True)
            time.sleep(_WATCH_S)


def _item(group: GroupDetail) -> dict[str, object]:
    left_out = ("consumer_details", "pending_entries")
    item = {name: value for name, value in group.items() if name not in left_out}
    return {**item, "consumers": group["consumer_details"]}


def _lines(groups: Sequence[GroupDetail]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [_COLUMNS]
    for group in groups:
        name, counts = word(group["name"]), (str(group["pending"]), _count(group["lag"]))
        more = group["last_id"], str(group["delayed"]), group["verdict"]
        lines.append((name, _NONE, *counts, _NONE, *more))
        for consumer in group["consumer_details"]:
            cells = (
                word(consumer["name"]),
                str(consumer["pending"]),
                _NONE,
                str(consumer["idle_ms"]),
                *[_NONE] * 3,
            )
            lines.append((name, *cells))
    return lines


def _table(groups: Sequence[GroupDetail], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    room = width - _COUNTS_WIDTH - (_MORE_WIDTH if width >= NARROW else 0)
    table.add_column("group", **NAME, max_width=room)
    table.add_column("pending", justify="right", no_wrap=True, min_width=7)
    table.add_column("lag", justify="right", no_wrap=True, min_width=3)
    table.add_column("idle", justify="right", no_wrap=True, min_width=6)
    if width >= NARROW:
        table.add_column("consumers", justify="right", no_wrap=True)
        table.add_column("delayed", justify="right", no_wrap=True)
        table.add_column("last id", style="cyan", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
    for group in groups:
        title, counts = Text(one_line(group["name"]), "bold"), (group["pending"], group["lag"])
        cells: list[Text | str] = [title, *map(_counted, counts), ""]
        cells += [f"{_consumer_count(group):,}", f"{group['delayed']:,}", group["last_id"]]
        cells.append(Text(group["verdict"], _STYLES.get(group["verdict"], "")))
        table.add_row(*cells[: len(table.columns)])
        for consumer in group["consumer_details"]:
            name = Text(f"  {one_line(consumer['name'])}")
            table.add_row(name, _counted(consumer["pending"]), "", age_text(consumer["idle_ms"]))
    return table


def _consumer_count(group: GroupDetail) -> int:
    return len(group["consumer_details"]) + group["consumers_left_out"]


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _counted(number: int | None) -> Text:
    if not number:
        return Text(_count(number), "dim")
    return Text(f"{number:,}", "yellow")


@click.group("group", epilog=epilog("headgate group list orders --watch"))
def group_command() -> None:
    """Create, list, move and delete groups of consumers, and change their policies."""


@gateway_command(
    "create",
    "headgate group create orders billing --start 0 --max-deliveries 5",
    group=group_command,
)
def create(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    start: str = option(
        "Deliver entries after this id; 0: all entries, $: new entries.", default="$", metavar="ID"
    ),
    **rules: Unpack[Policy],
) -> None:
    """Create a group, and its stream if that does not exist.

    If the group exists and has this policy, nothing changes.
    """
    policy = given_rules(rules) or None
    show_item(gateway.group(stream, group).create(start=start, policy=policy), as_json=as_json)


@gateway_command("list", "headgate group list orders --watch", group=group_command)
def list_groups(
    gateway: Client,
    stream: str,
    as_json: bool,
    watch: bool = option("Refresh every second, until Ctrl-C."),
) -> None:
    """Show the groups of a stream and their consumers.

    Pending entries were delivered but not acknowledged. The lag is the number of entries that the
    group has not delivered yet.

    In a pipe: a header, then columns separated by tabs. The line of a group has no consumer.
    """
    if watch and as_json:
        raise click.UsageError("--watch cannot be used with --json.")
    if watch:
        watch_groups(gateway.stream(stream))
    show_groups(gateway.stream(stream), as_json=as_json)


@gateway_command("set", "headgate group set orders billing 0", group=group_command)
def set_start(
    gateway: Client, stream: str, group: str, as_json: bool, start: str = argument(metavar="ID")
) -> None:
    """Move the position of a group.

    The group continues after the entry ID; 0: with the oldest entry, $: with new entries.
    """
    show_item(gateway.group(stream, group).update(start=start), as_json=as_json)


@gateway_command(
    "policy", "headgate group policy orders billing --backoff 1s,1m", group=group_command
)
def policy(
    gateway: Client, stream: str, group: str, as_json: bool, **rules: Unpack[Policy]
) -> None:
    """Show the policy of a group, or change it with flags.

    The value `none` removes a rule.
    """
    reader, changes = gateway.group(stream, group), given_rules(rules)
    shown = reader.update(policy=changes) if changes else reader.info()
    show_item(shown["policy"], as_json=as_json, nothing="No rules are set.")


@gateway_command("keys", "headgate group keys orders billing", group=group_command)
def keys(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    oldest: bool = option("Show the longest wait first.", is_flag=True),
    limit: int = LIMIT,
) -> None:
    """List the keys of a fair group.

    The columns are the waiting entries of each key, its pending entries, its longest wait, and its
    share.
    """
    listed = gateway.group(stream, group).keys(order="age" if oldest else "waiting", limit=limit)
    show_items(
        listed,
        ("key", "waiting", "pending", "oldest", "share"),
        as_json=as_json,
        nothing="No entries are waiting.",
        told=_told_key,
    )


def _told_key(key: GroupKey) -> Mapping[str, Any]:
    age_ms = key["oldest_age_ms"]
    name = "(without the field)" if key["key"] is None else key["key"]
    age = _NONE if age_ms is None else age_text(age_ms)
    return {**key, "key": name, "oldest": age, "share": f"{key['share']:.0%}"}


@gateway_command("delete", "headgate group delete orders billing --yes", group=group_command)
def delete(gateway: Client, stream: str, group: str, yes: bool, as_json: bool) -> None:
    """Delete a group and its pending entries.

    The command asks for confirmation on a terminal.
    """
    confirm(f"Delete the group {group!r} of the stream {stream!r}?", yes=yes)
    gateway.group(stream, group).delete()
    show_deletion({"stream": stream, "group": group}, as_json=as_json)
