"""`headgate append`."""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import click

from headgate.app.cli.durations import Duration, TimeToCome
from headgate.app.cli.flags import Utf8, gateway_options, json_option, stream_argument
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.counts import counted_entries
from headgate.app.cli.words import fields_of
from headgate.client.blocking import BlockingStream, Client
from headgate.client.entries import Draft, decoded
from headgate.client.problems import HeadgateError

_READ_BYTES = 2**16
_LINE_BYTES_MAX = 16 * 2**20
_BATCH_MAX = 500
"""Entries in one request: a batch is appended whole or not at all."""

_TIMES = ("delay_ms", "deliver_at_ms", "ttl_ms", "expires_at_ms")

_HELP = """\
Append an entry made of NAME=VALUE words, or entries from standard input.

\b
headgate append orders sku=42 note='two words'
headgate append reminders to=ann --delay 10m --ttl 1d
headgate append orders - < entries.ndjson
headgate tail orders --no-follow --json | headgate append copies -

With - each line is a JSON object with `fields`, as `headgate tail --json` prints them; lines are
sent as they come. A line may have times as entries of the API have, such as `delay_ms`; flags count
instead of them. What was appended is told by its id, one per line.
"""


@click.command("append", help=_HELP, short_help="Append entries to a stream.", epilog=epilog())
@stream_argument
@click.argument("fields", nargs=-1, required=True, type=Utf8(), metavar="NAME=VALUE…|-")
@click.option("--id", "entry_id", type=Utf8(), help="The entry's own id, instead of the next one.")
@click.option("--keep-ids", is_flag=True, help="With -: append under the ids the lines have.")
@click.option(
    "--delay", "delay_ms", type=Duration(), help="Groups deliver it so much later, as 10m."
)
@click.option(
    "--deliver-at",
    "deliver_at_ms",
    type=TimeToCome(),
    help="Instead: no sooner than this time, as 2026-12-24T18:00+01:00.",
)
@click.option(
    "--ttl", "ttl_ms", type=Duration(), help="Groups deliver it for so long, as 1h, and no more."
)
@click.option("--expires-at", "expires_at_ms", type=TimeToCome(), help="Instead: until this time.")
@json_option
@gateway_options
def command(
    stream: str,
    fields: tuple[str, ...],
    entry_id: str | None,
    keep_ids: bool,
    as_json: bool,
    gateway: Client,
    **times: int | None,
) -> None:
    """Append entries."""
    given = {name: ms for name, ms in times.items() if ms is not None}
    if fields == ("-",):
        if entry_id is not None:
            raise click.UsageError("--id is for one entry; lines have their own, with --keep-ids.")
        batches = _batches(sys.stdin.buffer, given, keep_ids=keep_ids)
    else:
        if keep_ids:
            raise click.UsageError("--keep-ids is for entries from standard input.")
        batches = iter([[Draft(fields_of(fields), entry_id, **given)]])
    _send(gateway.stream(stream), batches, as_json=as_json)


def _send(stream: BlockingStream, batches: Iterator[list[Draft]], *, as_json: bool) -> None:
    done = 0
    for batch in batches:
        try:
            ids = stream.append_many(batch)
        except HeadgateError:
            if done:
                click.echo(f"{counted_entries(done)} appended before that.", err=True)
            raise
        done += len(ids)
        for entry_id in ids:
            click.echo(json.dumps({"id": entry_id}) if as_json else entry_id)


def _batches(
    source: BinaryIO, times: Mapping[str, int], *, keep_ids: bool
) -> Iterator[list[Draft]]:
    """Yield the entries of the lines that are there, without waiting for more."""
    number = 0
    for lines in _lines(source):
        batch = []
        for line in lines:
            number += 1
            if line.strip():
                batch.append(_read(line, number, times, keep_ids=keep_ids))
        for start in range(0, len(batch), _BATCH_MAX):
            yield batch[start : start + _BATCH_MAX]


def _lines(source: BinaryIO) -> Iterator[list[bytes]]:
    remaining = b""
    while chunk := source.read1(_READ_BYTES):  # type: ignore[attr-defined]  # as it is buffered
        *lines, remaining = (remaining + chunk).split(b"\n")
        yield lines
        if len(remaining) > _LINE_BYTES_MAX:
            raise click.ClickException(f"a line is longer than {_LINE_BYTES_MAX} bytes")
    yield [remaining]


def _read(line: bytes, number: int, times: Mapping[str, int], *, keep_ids: bool) -> Draft:
    try:
        entry = json.loads(line)
    except ValueError:
        raise click.ClickException(f"line {number} is no JSON") from None
    try:
        fields, pairs = decoded(entry)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise click.ClickException(
            f'line {number} is no entry: {{"fields": {{"name": "value"}}}} is one'
        ) from None
    own = {name: entry[name] for name in _TIMES if name in entry}
    return Draft(pairs or fields, entry.get("id") if keep_ids else None, **(times or own))
