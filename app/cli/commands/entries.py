"""`headgate append`, `read`, `tail`."""

import json
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, BinaryIO

import click

from headgate.app.cli.durations import Duration, TimeToCome
from headgate.app.cli.flags import Utf8, gateway_options, json_option, stream_argument
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.display import Display, open_display
from headgate.app.cli.output.listing import counted_entries, show_entries
from headgate.app.cli.rules import filter_option
from headgate.app.cli.words import fields_of
from headgate.client.blocking import BlockingStream, Client
from headgate.client.client import AsyncClient
from headgate.client.entries import Draft, Entry, decoded
from headgate.client.problems import HeadgateError
from headgate.client.stream import Following, Stream

_READ_BYTES = 2**16
_LINE_BYTES_MAX = 16 * 2**20
_BATCH_MAX = 500
"""Entries in one request: a batch is appended whole or not at all."""

_TIMES = ("delay_ms", "deliver_at_ms", "ttl_ms", "expires_at_ms")

_APPEND_HELP = """\
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


@click.command(
    "append", help=_APPEND_HELP, short_help="Append entries to a stream.", epilog=epilog()
)
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
def append_command(
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
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="So many at most."
)
@click.option("--wait", type=Duration(), default=0, help="Wait so long for an entry, as 5s.")
@filter_option
@json_option
@gateway_options
def read_command(
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
        after=after, start=start, end=end, limit=limit, reverse=reverse, wait_ms=wait, filter=filter
    )
    if page.gap is not None:
        gap = f"trimmed and missed: after {page.gap.first_id} to {page.gap.last_id}"
        click.echo(gap, err=True)
    show_entries(page.entries, as_json=as_json)


_PAGE = 1_000

_GLOB = frozenset("*?[")

_TAIL_HELP = """\
Follow a stream: every entry, as it comes, until Ctrl-C or until the stream is closed.
A name with *, ? or [ is a pattern, unless there is --no-follow: every entry of all streams that
match comes, with its stream.

A connection that breaks is made again, and goes on after the last entry. On a terminal entries
are cut to one line each; in a pipe they are whole, as lines `ID NAME=VALUE …`.

\b
headgate tail orders                      what comes from now on
headgate tail orders --after 0            everything, then what comes
headgate tail orders --no-follow          everything there is
headgate tail orders --no-follow --json | jq .fields.sku
headgate tail orders --filter '{"exact":{"sku":"42"}}'
headgate tail 'orders.*'                  all streams that match, and those that come later
"""


@click.command(
    "tail",
    help=_TAIL_HELP,
    short_help="Follow a stream: every entry, as it comes.",
    epilog=epilog(),
)
@stream_argument
@click.option(
    "--after",
    metavar="ID",
    help="Begin after this entry; 0 is before the oldest, $ is from now on.  "
    "[default: $; with --no-follow: 0]",
)
@click.option("--limit", type=click.IntRange(min=1), help="End after so many entries.")
@filter_option
@click.option("--no-follow", is_flag=True, help="Show what is there, and end.")
@click.option("--wrap", is_flag=True, help="On a terminal: show long entries whole.")
@json_option
@gateway_options
async def tail_command(
    stream: str,
    after: str | None,
    limit: int | None,
    filter: Any,  # noqa: A002
    no_follow: bool,
    wrap: bool,
    as_json: bool,
    gateway: AsyncClient,
) -> None:
    """Follow a stream."""
    display = open_display(stream, as_json=as_json, wrap=wrap)
    source = gateway.stream(stream)
    if no_follow:
        portions = _present(source, after or "0", filter, display)
    elif _GLOB.intersection(stream):
        portions = _coming(
            gateway.follow(stream, after=after or "$", on_state=display.note_state, filter=filter),
            display,
        )
    else:
        portions = _coming_of(source, after or "$", filter, display)
    left = limit
    with display:
        async for entries in portions:
            display.show(entries[:left])
            left = None if left is None else left - len(entries)
            if left is not None and left <= 0:
                return
        if not no_follow:
            display.note("the stream is closed: nothing comes any more")


async def _present(
    stream: Stream, after: str, condition: Any, display: Display
) -> AsyncGenerator[list[Entry]]:
    """Yield the present entries, by pages."""
    async for page in stream.pages(after=after, limit=_PAGE, filter=condition):
        if page.gap is not None:
            display.note_gap(page.gap)
        yield page.entries


async def _coming_of(
    stream: Stream, after: str, condition: Any, display: Display
) -> AsyncGenerator[list[Entry]]:
    """Yield entries of a stream, which exists, behind an id as they come."""
    last_id = (await stream.info())["last_id"]
    following = stream.follow(
        after=last_id if after == "$" else after, on_state=display.note_state, filter=condition
    )
    async for portion in _coming(following, display):
        yield portion


async def _coming(following: Following, display: Display) -> AsyncGenerator[list[Entry]]:
    """Yield entries as they come, as many at once as there are."""
    async with following:
        async for entry in following:
            if following.gap is not None:
                display.note_gap(following.gap)
            portion = [entry]
            while following.ready_count:
                portion.append(await anext(following))
            yield portion
