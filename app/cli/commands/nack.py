"""`headgate nack`."""

import click

from headgate.app.cli.durations import Duration
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
from headgate.client.subscription import Mode


@click.command(
    "nack",
    short_help="Give entries of a group back.",
    epilog=epilog(
        "headgate nack orders billing 1718000000000-0 --delay 1m",
        failed=f"{CALL}, or an entry was not pending",
    ),
)
@stream_argument
@group_argument
@ids_argument
@click.option(
    "--mode",
    type=click.Choice(["fail", "fatal", "silent"]),
    default="fail",
    show_default=True,
    help="fail counts as a failure, fatal makes a dead letter at once, silent counts nothing.",
)
@click.option("--delay", type=Duration(), help="Nobody gets them before that, as 1m.")
@click.option("--error", type=Utf8(), help="Error of the consumer; 1,000 characters are kept.")
@click.option("--consumer", type=Utf8(), help="Only what this consumer still has.")
@json_option
@gateway_options
def command(
    stream: str,
    group: str,
    ids: tuple[str, ...],
    mode: Mode,
    delay: int | None,
    error: str | None,
    consumer: str | None,
    as_json: bool,
    gateway: Client,
) -> None:
    """Give entries back, so that others get them."""
    outcomes = gateway.group(stream, group).nack(
        ids, consumer=consumer, mode=mode, delay_ms=delay, error=error
    )
    show_outcomes(outcomes, "released", as_json=as_json)
