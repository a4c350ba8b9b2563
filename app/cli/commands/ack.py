"""`headgate ack`."""

import click

from headgate.app.cli.flags import (
    Utf8,
    gateway_options,
    group_argument,
    ids_argument,
    json_option,
    stream_argument,
)
from headgate.app.cli.manual import CALL, epilog
from headgate.app.cli.output.listing import show_outcomes
from headgate.client.blocking import Client


@click.command(
    "ack",
    short_help="Acknowledge entries of a group.",
    epilog=epilog(
        "headgate ack orders billing 1718000000000-0", failed=f"{CALL}, or an entry was not pending"
    ),
)
@stream_argument
@group_argument
@ids_argument
@click.option("--consumer", type=Utf8(), help="Only what this consumer still has.")
@json_option
@gateway_options
def command(
    stream: str,
    group: str,
    ids: tuple[str, ...],
    consumer: str | None,
    as_json: bool,
    gateway: Client,
) -> None:
    """Acknowledge entries: they are done."""
    outcomes = gateway.group(stream, group).ack(ids, consumer=consumer)
    show_outcomes(outcomes, "acked", as_json=as_json)
