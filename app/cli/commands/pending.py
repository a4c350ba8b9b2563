"""`headgate pending`."""

import click

from headgate.app.cli.durations import Duration
from headgate.app.cli.flags import (
    Utf8,
    gateway_options,
    group_argument,
    json_option,
    stream_argument,
)
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.listing import show_item, show_items
from headgate.client.blocking import Client

_COLUMNS = ("id", "consumer", "idle_ms", "deliveries", "last_error", "waits_for", "delay_ms")


@click.command(
    "pending",
    short_help="Show what was delivered and is not acknowledged.",
    epilog=epilog("headgate pending orders billing --min-idle 1m"),
)
@stream_argument
@group_argument
@click.option("--consumer", type=Utf8(), help="Only what this consumer has.")
@click.option("--min-idle", type=Duration(), help="Only what was idle for so long, as 1m.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="So many at most.",
)
@click.option("--summary", is_flag=True, help="Only how many there are, and with whom.")
@json_option
@gateway_options
def command(
    stream: str,
    group: str,
    consumer: str | None,
    min_idle: int | None,
    limit: int,
    summary: bool,
    as_json: bool,
    gateway: Client,
) -> None:
    """Show the entries that were delivered and are not acknowledged, the lowest id first."""
    reader = gateway.group(stream, group)
    if summary:
        counts = reader.pending_summary()
        shares = {each["name"]: each["pending"] for each in counts["consumers"]}
        show_item(counts if as_json else {**counts, "consumers": shares}, as_json=as_json)
        return
    entries = reader.pending(consumer=consumer, min_idle_ms=min_idle, limit=limit)
    show_items(entries, _COLUMNS, as_json=as_json, nothing="Nothing is pending.")
