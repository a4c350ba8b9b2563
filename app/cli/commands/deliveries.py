from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from headgate.app.cli.declaration import CALL, argument, option
from headgate.app.cli.flags import LIMIT, gateway_command
from headgate.app.cli.listing import show_entries, show_item, show_items, show_outcomes
from headgate.app.cli.words import json_of, word
from headgate.client.blocking import Client
from headgate.client.entries import Entry
from headgate.client.subscription import Mode

_COLUMNS = ("id", "consumer", "idle_ms", "deliveries", "last_error", "waits_for", "delay_ms")
_SOME_IDS = argument(metavar="[ID…]")


@gateway_command(
    "pending",
    "headgate pending orders billing --min-idle 1m",
    short_help="Show the pending entries of a group.",
)
def pending_command(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    consumer: str | None = option("Only entries of this consumer."),
    min_idle_ms: int | None = option("Only entries idle for at least this long, such as 1m."),
    limit: int = LIMIT,
    summary: bool = option("Show only the counts: in total, and per consumer."),
) -> None:
    """Show the entries that were delivered but not acknowledged, lowest id first."""
    reader = gateway.group(stream, group)
    if summary:
        counts = reader.pending_summary()
        shares = {each["name"]: each["pending"] for each in counts["consumers"]}
        show_item(counts if as_json else {**counts, "consumers": shares}, as_json=as_json)
        return
    entries = reader.pending(consumer=consumer, min_idle_ms=min_idle_ms, limit=limit)
    show_items(entries, _COLUMNS, as_json=as_json, nothing="No entries are pending.")


_STILL = "Only entries that this consumer still holds."
_NOT_PENDING = f"{CALL}, or an entry was not pending"


@gateway_command(
    "ack",
    "headgate ack orders billing 1718000000000-0",
    failed=_NOT_PENDING,
    short_help="Acknowledge entries of a group.",
)
def ack_command(
    gateway: Client,
    stream: str,
    group: str,
    ids: tuple[str, ...],
    as_json: bool,
    consumer: str | None = option(_STILL),
) -> None:
    """Acknowledge entries: the group does not deliver them again."""
    outcomes = gateway.group(stream, group).ack(ids, consumer=consumer)
    show_outcomes(outcomes, "acked", as_json=as_json)


@gateway_command(
    "nack",
    "headgate nack orders billing 1718000000000-0 --delay 1m",
    failed=_NOT_PENDING,
    short_help="Give entries back to their group.",
)
def nack_command(
    gateway: Client,
    stream: str,
    group: str,
    ids: tuple[str, ...],
    as_json: bool,
    mode: Mode = option(
        "fail counts a failure, fatal makes a dead letter at once, silent counts nothing.",
        default="fail",
    ),
    delay_ms: int | None = option("Redeliver the entries only after this delay, such as 1m."),
    error: str | None = option("Error of the consumer. Up to 1,000 characters are kept."),
    consumer: str | None = option(_STILL),
) -> None:
    """Give entries back, so that the group can deliver them to other consumers."""
    outcomes = gateway.group(stream, group).nack(
        ids, consumer=consumer, mode=mode, delay_ms=delay_ms, error=error
    )
    show_outcomes(outcomes, "released", as_json=as_json)


@gateway_command(
    "claim",
    "headgate claim orders billing --consumer me --min-idle 5m",
    short_help="Take over pending entries from other consumers.",
)
def claim_command(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    ids: tuple[str, ...] = _SOME_IDS,
    consumer: str = option("Consumer that takes over the entries.", required=True),
    min_idle_ms: int = option("Only entries idle for at least this long, such as 5m.", default=0),
    limit: int = option(
        "Maximum number of entries, without IDs.", click.IntRange(min=1), default=100
    ),
) -> None:
    """Take over pending entries and print them: the given IDs, or without IDs all idle entries."""
    pending = gateway.group(stream, group)
    if ids:
        entries = pending.claim(ids, consumer=consumer, min_idle_ms=min_idle_ms)
    else:
        entries = pending.autoclaim(consumer=consumer, min_idle_ms=min_idle_ms, limit=limit).entries
    show_entries(entries, as_json=as_json)


_ORIGIN = {"_stream": "stream", "_id": "entry_id", "_group": "group"}
_FACTS = {"_deliveries": "deliveries", "_reason": "reason", "_error": "error"}
_LETTER_COLUMNS = ("id", "entry_id", "deliveries", "reason", "error", "fields")


@gateway_command(
    "dead-letters",
    "headgate dead-letters orders billing",
    short_help="Show the dead letters of a group.",
)
def dead_letters_command(
    gateway: Client, stream: str, group: str, as_json: bool, limit: int = LIMIT
) -> None:
    """Show the dead letters of a group and their reasons, oldest first.

    Dead letters are entries of the stream that the policy of the group names. To deliver them
    again, use `headgate redrive`.
    """
    place = gateway.group(stream, group).info()["policy"].get("dead_letter_stream")
    if place is None:
        raise click.ClickException(
            f"the group {group!r} has no dead-letter stream. Set one: "
            f"headgate group policy {word(stream)} {word(group)} --dead-letter-stream STREAM"
        )
    entries = gateway.stream(place).scan()
    items = list(islice(_dead_letters(entries, stream, group), limit))
    show_items(items, _LETTER_COLUMNS, as_json=as_json, nothing="No dead letters.")


def _dead_letters(entries: Iterator[Entry], stream: str, group: str) -> Iterator[dict[str, Any]]:
    """Yield the dead letters of a group with the fields that the entry had originally."""
    for entry in entries:
        if entry.fields.get("_stream") == stream and entry.fields.get("_group") == group:
            item = json_of(entry)
            own = {**item["fields"]}
            facts = {name: own.pop(key, None) for key, name in (_ORIGIN | _FACTS).items()}
            yield {**item, **facts, "fields": own}


_PAGE = 1_000


@gateway_command(
    "redrive", "headgate redrive orders billing --all", short_help="Deliver dead letters again."
)
def redrive_command(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    ids: tuple[str, ...] = _SOME_IDS,
    is_all: bool = option("All dead letters of the group.", None, "--all"),
) -> None:
    """Deliver dead letters again: those with the given IDs, or all.

    `headgate dead-letters` shows the IDs.
    """
    if bool(ids) == is_all:
        raise click.UsageError("Give either IDs or --all.")
    reader = gateway.group(stream, group)
    results = reader.redrive(ids or None, limit=None if ids else _PAGE)
    page = results
    while is_all and len(page) == _PAGE:
        page = reader.redrive(limit=_PAGE)
        results += page
    columns = ("id", "outcome", "entry_id")
    show_items(results, columns, as_json=as_json, nothing="No dead letters.")
