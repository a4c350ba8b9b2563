"""`headgate dead-letters`."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from headgate.app.cli.flags import gateway_options, group_argument, json_option, stream_argument
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.listing import show_items
from headgate.app.cli.words import json_of, word
from headgate.client.blocking import Client
from headgate.client.entries import Entry

_ORIGIN = {"_stream": "stream", "_id": "entry_id", "_group": "group"}
_FACTS = {"_deliveries": "deliveries", "_reason": "reason", "_error": "error"}
_COLUMNS = ("id", "entry_id", "deliveries", "reason", "error", "fields")


@click.command(
    "dead-letters",
    short_help="Show the entries that a group has given up.",
    epilog=epilog("headgate dead-letters orders billing"),
)
@stream_argument
@group_argument
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="So many at most.",
)
@json_option
@gateway_options
def command(stream: str, group: str, limit: int, as_json: bool, gateway: Client) -> None:
    """Show the entries that a group has given up, the oldest first, and why.

    They are entries of the stream that the policy names. `headgate redrive` sends them back.
    """
    place = gateway.group(stream, group).info()["policy"].get("dead_letter_stream")
    if place is None:
        raise click.ClickException(
            f"the group {group!r} keeps no dead letters: "
            f"headgate group policy {word(stream)} {word(group)} --dead-letter-stream STREAM"
        )
    entries = gateway.stream(place).scan()
    items = list(islice(_dead_letters(entries, stream, group), limit))
    show_items(items, _COLUMNS, as_json=as_json, nothing="There are no dead letters.")


def _dead_letters(entries: Iterator[Entry], stream: str, group: str) -> Iterator[dict[str, Any]]:
    """Yield the dead letters of a group, each with the fields that it came with."""
    for entry in entries:
        if entry.fields.get("_stream") == stream and entry.fields.get("_group") == group:
            item = json_of(entry)
            own = {**item["fields"]}
            facts = {name: own.pop(key, None) for key, name in (_ORIGIN | _FACTS).items()}
            yield {**item, **facts, "fields": own}
