"""`headgate read`."""

from typing import Any

import click

from headgate.app.cli.durations import Duration
from headgate.app.cli.flags import Utf8, gateway_options, json_option, stream_argument
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.listing import show_entries
from headgate.app.cli.rules import filter_option
from headgate.client.blocking import Client


@click.command(
    "read",
    short_help="Read entries, of a range or for a consumer of a group.",
    epilog=epilog("headgate read orders --group billing --consumer me --wait 5s"),
)
@stream_argument
@click.option("--after", type=Utf8(), metavar="ID", help="Entries after this id; $: from now on.")
@click.option("--start", type=Utf8(), metavar="ID", help="The lowest id, inclusive.")
@click.option("--end", type=Utf8(), metavar="ID", help="The highest id, inclusive.")
@click.option("--reverse", is_flag=True, help="The highest id first.")
@click.option("--group", type=Utf8(), help="Read for a consumer of this group.")
@click.option("--consumer", type=Utf8(), help="Name of the consumer, with --group.")
@click.option(
    "--claim-idle",
    type=Duration(),
    help="With --group: first take over what was idle for so long, as 1m.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="So many at most.",
)
@click.option("--wait", type=Duration(), default=0, help="Wait so long for an entry, as 5s.")
@filter_option
@json_option
@gateway_options
def command(
    stream: str,
    after: str | None,
    start: str | None,
    end: str | None,
    reverse: bool,
    group: str | None,
    consumer: str | None,
    claim_idle: int | None,
    limit: int,
    wait: int,
    filter: Any,  # noqa: A002
    as_json: bool,
    gateway: Client,
) -> None:
    """Read entries, a line for each: all of a range, or those that a group has not delivered yet.

    What a group delivers is pending until `headgate ack` or `headgate nack` settles it.
    """
    is_range = start is not None or end is not None or reverse
    if (group is None) != (consumer is None):
        raise click.UsageError("--group and --consumer belong together.")
    if group is not None and consumer is not None:
        if is_range or after is not None:
            raise click.UsageError("A group delivers what comes next: no --after, --start, --end.")
        if filter is not None:
            raise click.UsageError("A group has filters of its own: headgate group --filters.")
        reader = gateway.group(stream, group)
        entries = reader.read(consumer, limit=limit, wait_ms=wait, claim_idle_ms=claim_idle)
        show_entries(entries, as_json=as_json)
        return
    if claim_idle is not None:
        raise click.UsageError("--claim-idle is for a --group.")
    if is_range and (after is not None or wait):
        raise click.UsageError("--after and --wait are for what comes, not for a range.")
    if not is_range and after is None:
        after = "$" if wait else "0"
    page = gateway.stream(stream).read(
        after=after,
        start=start,
        end=end,
        limit=limit,
        reverse=reverse,
        wait_ms=wait,
        filter=filter,
    )
    if page.gap is not None:
        gap = f"trimmed and missed: after {page.gap.first_id} to {page.gap.last_id}"
        click.echo(gap, err=True)
    show_entries(page.entries, as_json=as_json)
