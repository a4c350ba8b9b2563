"""`headgate redrive`."""

import click

from headgate.app.cli.flags import (
    Utf8,
    gateway_options,
    group_argument,
    json_option,
    stream_argument,
)
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.listing import show_items
from headgate.client.blocking import Client

_PAGE = 1_000


@click.command(
    "redrive",
    short_help="Let dead letters be delivered again.",
    epilog=epilog("headgate redrive orders billing --all"),
)
@stream_argument
@group_argument
@click.argument("ids", nargs=-1, type=Utf8(), metavar="[ID…]")
@click.option("--all", "is_all", is_flag=True, help="All dead letters of the group.")
@json_option
@gateway_options
def command(
    stream: str, group: str, ids: tuple[str, ...], is_all: bool, as_json: bool, gateway: Client
) -> None:
    """Let dead letters be delivered again: those with these ids, or all.

    The ids are those that `headgate dead-letters` shows.
    """
    if bool(ids) == is_all:
        raise click.UsageError("which? IDs or --all says it.")
    reader = gateway.group(stream, group)
    results = reader.redrive(ids or None, limit=None if ids else _PAGE)
    page = results
    while is_all and len(page) == _PAGE:
        page = reader.redrive(limit=_PAGE)
        results += page
    columns = ("id", "outcome", "entry_id")
    show_items(results, columns, as_json=as_json, nothing="There are no dead letters.")
