"""`headgate pending`, `ack`, `nack`, `claim`, `dead-letters`, `redrive`."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

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
from headgate.app.cli.output.listing import show_entries, show_item, show_items, show_outcomes
from headgate.app.cli.words import json_of, word
from headgate.client.blocking import Client
from headgate.client.entries import Entry
from headgate.client.subscription import Mode

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
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="So many at most."
)
@click.option("--summary", is_flag=True, help="Only how many there are, and with whom.")
@json_option
@gateway_options
def pending_command(
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
def ack_command(
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
def nack_command(
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
def claim_command(
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


_ORIGIN = {"_stream": "stream", "_id": "entry_id", "_group": "group"}
_FACTS = {"_deliveries": "deliveries", "_reason": "reason", "_error": "error"}
_LETTER_COLUMNS = ("id", "entry_id", "deliveries", "reason", "error", "fields")


@click.command(
    "dead-letters",
    short_help="Show the entries that a group has given up.",
    epilog=epilog("headgate dead-letters orders billing"),
)
@stream_argument
@group_argument
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="So many at most."
)
@json_option
@gateway_options
def dead_letters_command(
    stream: str, group: str, limit: int, as_json: bool, gateway: Client
) -> None:
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
    show_items(items, _LETTER_COLUMNS, as_json=as_json, nothing="There are no dead letters.")


def _dead_letters(entries: Iterator[Entry], stream: str, group: str) -> Iterator[dict[str, Any]]:
    """Yield the dead letters of a group, each with the fields that it came with."""
    for entry in entries:
        if entry.fields.get("_stream") == stream and entry.fields.get("_group") == group:
            item = json_of(entry)
            own = {**item["fields"]}
            facts = {name: own.pop(key, None) for key, name in (_ORIGIN | _FACTS).items()}
            yield {**item, **facts, "fields": own}


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
def redrive_command(
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
