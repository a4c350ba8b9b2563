"""`headgate claim`."""

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
from headgate.app.cli.output.listing import show_entries
from headgate.client.blocking import Client


@click.command(
    "claim",
    short_help="Take over pending entries of other consumers.",
    epilog=epilog("headgate claim orders billing --consumer me --min-idle 5m"),
)
@stream_argument
@group_argument
@click.argument("ids", nargs=-1, type=Utf8(), metavar="[ID…]")
@click.option("--consumer", type=Utf8(), required=True, help="Their new owner.")
@click.option(
    "--min-idle", type=Duration(), default=0, help="Only what was idle for so long, as 5m."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="So many at most, without IDs.",
)
@json_option
@gateway_options
def command(
    stream: str,
    group: str,
    ids: tuple[str, ...],
    consumer: str,
    min_idle: int,
    limit: int,
    as_json: bool,
    gateway: Client,
) -> None:
    """Take over pending entries, and show those that were: the IDs, or whatever is idle."""
    pending = gateway.group(stream, group)
    if ids:
        entries = pending.claim(ids, consumer=consumer, min_idle_ms=min_idle)
    else:
        entries = pending.autoclaim(consumer=consumer, min_idle_ms=min_idle, limit=limit).entries
    show_entries(entries, as_json=as_json)
