import json
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO, Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headgate.app.cli.declaration import argument, option
from headgate.app.cli.flags import FILTER, LIMIT, gateway_command
from headgate.app.cli.listing import NARROW, counted_entries, screen, show_entries
from headgate.app.cli.words import fields_of, json_line, json_of, line_of, one_line, pairs_of
from headgate.app.wire.times import age_text
from headgate.client.blocking import BlockingStream, Client
from headgate.client.client import AsyncClient
from headgate.client.entries import Draft, Entry, Gap, decoded
from headgate.client.problems import HeadgateError
from headgate.client.stream import Following, Stream
from headgate.client.subscription import State

_RATE_S = 5.0
"""The rate is that of so many last seconds."""

_STATES = {"caught_up": "caught up", "lost": "lost"}
_STYLE_OF = {"caught up": "green", "reading": "cyan", "lost": "bold red"}


class Display:
    """A pipe: a line for each entry; notes about the connection go to standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def show(self, entries: Sequence[Entry]) -> None:
        """Show entries."""
        for entry in entries:
            line = json_line(json_of(entry)) if self._as_json else None
            sys.stdout.write(f"{line or line_of(entry)}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Show a note for people."""
        click.echo(text, err=True)

    def note_gap(self, gap: Gap) -> None:
        """Tell of the entries that were trimmed before they were read."""
        self.note(_text_of(gap))

    def note_state(self, state: State, why: str) -> None:
        """Tell when the connection is lost."""
        if state == "lost":
            self.note(f"connection lost ({one_line(why)}); reconnecting")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the screen as it was."""


def _text_of(gap: Gap) -> str:
    return f"trimmed before they were read: entries after {gap.first_id} to {gap.last_id}"


def open_display(stream: str, *, as_json: bool, wrap: bool) -> Display:
    """Return the display of a stream."""
    console = screen()
    if as_json or console is None:
        return Display(as_json=as_json)
    return _Terminal(console, stream, wrap=wrap)


class _Terminal(Display):
    """A terminal: a row for each entry, and at the bottom how it stands."""

    def __init__(self, console: Console, stream: str, *, wrap: bool) -> None:
        super().__init__(as_json=False)
        self._console = console
        self._stream = one_line(stream)
        self._wrap = wrap
        self._state = "reading"
        self._count = 0
        self._begun = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque()
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, entries: Sequence[Entry]) -> None:
        self._count += len(entries)
        self._recent.append((time.monotonic(), len(entries)))
        if entries:
            rows = [_row(entry, self._console.width, wrap=self._wrap) for entry in entries]
            self._console.print(Group(*rows))

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="yellow"))

    def note_state(self, state: State, why: str) -> None:
        super().note_state(state, why)
        self._state = _STATES.get(state, "reading")

    def __rich__(self) -> Text:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - _RATE_S:
            self._recent.popleft()
        seconds = max(1.0, min(_RATE_S, now - self._begun))
        rate = sum(count for _, count in self._recent) / seconds
        parts = [
            (f"● {self._state}", _STYLE_OF[self._state]),
            (f"  {self._stream}", "bold"),
            (f"  {counted_entries(self._count)}", ""),
            (f"  {rate:,.1f}/s", ""),
            ("  Ctrl-C to stop", "dim"),
        ]
        return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _row(entry: Entry, width: int, *, wrap: bool) -> Text:
    row = Text(no_wrap=not wrap, overflow="fold" if wrap else "ellipsis")
    if width >= NARROW:  # the id says it as well
        row.append(f"{_time_of(entry.id)}  ", "dim")
    if entry.stream is not None:
        row.append(f"{one_line(entry.stream)}  ", "bold")
    row.append(entry.id, "cyan")
    for name, value in pairs_of(entry):
        row.append(f"  {name}", "blue").append("=", "dim").append(value)
    now_ms = time.time_ns() // 1_000_000
    for text, at_ms in (("due in", entry.deliver_at_ms), ("expires in", entry.expires_at_ms)):
        if at_ms is not None and at_ms > now_ms:
            row.append(f"  {text} {age_text(at_ms - now_ms)}", "yellow")
    return row


def _time_of(entry_id: str) -> str:
    """Return when an entry was appended, as its id says, in 12 columns."""
    try:
        at = datetime.fromtimestamp(int(entry_id.partition("-")[0]) / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return " " * 12  # an id of the writer's own making
    today = datetime.now(UTC).astimezone()
    if at.date() == today.date():
        return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"
    return f"{at:%b %d %H:%M}" if at.year == today.year else f"{at:%Y-%m-%d}  "


_READ_BYTES = 2**16
_LINE_BYTES_MAX = 16 * 2**20
_BATCH_MAX = 500
"""Entries in one request: a batch is appended whole or not at all."""

_TIMES = ("delay_ms", "deliver_at_ms", "ttl_ms", "expires_at_ms")


@gateway_command("append", short_help="Append entries to a stream.")
def append_command(
    gateway: Client,
    stream: str,
    as_json: bool,
    fields: tuple[str, ...] = argument(required=True, metavar="NAME=VALUE…|-"),
    entry_id: str | None = option("Id of the entry. Default: the next id.", None, "--id"),
    keep_ids: bool = option("With -: keep the ids of the lines."),
    delay_ms: int | None = option("Groups deliver the entry after this delay, such as 10m."),
    deliver_at_ms: int | None = option(
        "Instead of --delay: groups deliver the entry at this time or later, such as "
        "2026-12-24T18:00+01:00."
    ),
    ttl_ms: int | None = option("The entry expires after this time, such as 1h."),
    expires_at_ms: int | None = option("Instead of --ttl: the entry expires at this time."),
) -> None:
    """Append an entry made of NAME=VALUE arguments, or entries from standard input.

        headgate append orders sku=42 note='two words'
        headgate append reminders to=ann --delay 10m --ttl 1d
        headgate append orders - < entries.ndjson
        headgate tail orders --no-follow --json | headgate append copies -

    With -, each line is a JSON object with `fields`, as `headgate tail --json` prints it. Lines are
    sent as they arrive. A line can have the times of an entry of the API, such as `delay_ms`. If a
    flag sets a time, the times of the lines are ignored.

    The command prints the id of each appended entry, one per line. Groups do not deliver an entry
    after it expires.
    """
    times = zip(_TIMES, (delay_ms, deliver_at_ms, ttl_ms, expires_at_ms), strict=True)
    given = {name: ms for name, ms in times if ms is not None}
    if fields == ("-",):
        if entry_id is not None:
            raise click.UsageError("--id is for a single entry. With -, use --keep-ids.")
        batches = _batches(sys.stdin.buffer, given, keep_ids=keep_ids)
    else:
        if keep_ids:
            raise click.UsageError("--keep-ids requires entries from standard input (-).")
        batches = iter([[Draft(fields_of(fields), entry_id, **given)]])
    _send(gateway.stream(stream), batches, as_json=as_json)


def _send(stream: BlockingStream, batches: Iterator[list[Draft]], *, as_json: bool) -> None:
    done = 0
    for batch in batches:
        try:
            ids = stream.append_many(batch)
        except HeadgateError:
            if done:
                click.echo(f"{counted_entries(done)} appended before the error.", err=True)
            raise
        done += len(ids)
        for entry_id in ids:
            click.echo(json.dumps({"id": entry_id}) if as_json else entry_id)


def _batches(
    source: BinaryIO, times: Mapping[str, int], *, keep_ids: bool
) -> Iterator[list[Draft]]:
    """Yield the entries of the lines that can be read without blocking."""
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
        raise click.ClickException(f"line {number} is not valid JSON") from None
    try:
        fields, pairs = decoded(entry)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise click.ClickException(
            f'line {number} is not an entry such as {{"fields": {{"name": "value"}}}}'
        ) from None
    own = {name: entry[name] for name in _TIMES if name in entry}
    return Draft(pairs or fields, entry.get("id") if keep_ids else None, **(times or own))


@gateway_command(
    "read",
    "headgate read orders --group billing --consumer me --wait 5s",
    short_help="Read a range of entries, or the next entries of a group.",
)
def read_command(
    gateway: Client,
    stream: str,
    as_json: bool,
    after: str | None = option("Read entries after this id; $: only new entries.", metavar="ID"),
    start: str | None = option("Lowest id, inclusive.", metavar="ID"),
    end: str | None = option("Highest id, inclusive.", metavar="ID"),
    reverse: bool = option("Show the highest id first."),
    group: str | None = option("Read as a consumer of this group."),
    consumer: str | None = option("Name of the consumer. Required with --group."),
    claim_idle_ms: int | None = option(
        "With --group: first take over entries idle for at least this long, such as 1m."
    ),
    limit: int = LIMIT,
    wait_ms: int = option("Wait at most this long for an entry, such as 5s.", default=0),
    filter: Any = FILTER,  # noqa: A002
) -> None:
    """Read entries, one per line: a range of a stream, or the next entries of a group.

    Entries that a group delivers are pending until `headgate ack` or `headgate nack` settles them.
    """
    is_range = start is not None or end is not None or reverse
    if (group is None) != (consumer is None):
        raise click.UsageError("--group and --consumer must be used together.")
    if group is not None and consumer is not None:
        if is_range or after is not None:
            flags = "--after, --start, --end and --reverse"
            raise click.UsageError(f"{flags} cannot be used with --group.")
        if filter is not None:
            text = "--filter cannot be used with --group. Set the filters of the group: "
            raise click.UsageError(f"{text}headgate group policy --filters")
        reader = gateway.group(stream, group)
        entries = reader.read(consumer, limit=limit, wait_ms=wait_ms, claim_idle_ms=claim_idle_ms)
        show_entries(entries, as_json=as_json)
        return
    if claim_idle_ms is not None:
        raise click.UsageError("--claim-idle requires --group.")
    if is_range and (after is not None or wait_ms):
        flags = "--after and --wait cannot be used with --start, --end and --reverse."
        raise click.UsageError(flags)
    if not is_range and after is None:
        after = "$" if wait_ms else "0"
    page = gateway.stream(stream).read(
        after=after,
        start=start,
        end=end,
        limit=limit,
        reverse=reverse,
        wait_ms=wait_ms,
        filter=filter,
    )
    if page.gap is not None:
        click.echo(_text_of(page.gap), err=True)
    show_entries(page.entries, as_json=as_json)


_PAGE = 1_000

_GLOB = frozenset("*?[")


@gateway_command("tail", short_help="Follow a stream: print every entry as it arrives.")
async def tail_command(
    gateway: AsyncClient,
    stream: str,
    as_json: bool,
    after: str | None = option(
        "Begin after this id; 0: with the oldest entry, $: with new entries.  "
        "[default: $; with --no-follow: 0]",
        click.STRING,
        metavar="ID",
    ),
    limit: int | None = option("Stop after this many entries.", click.IntRange(min=1)),
    filter: Any = FILTER,  # noqa: A002
    no_follow: bool = option("Show the present entries and exit."),
    wrap: bool = option("On a terminal: wrap long entries instead of cutting them."),
) -> None:
    """Follow a stream: print every entry as it arrives, until Ctrl-C or the stream is closed.

    A name with *, ? or [ is a pattern: the command follows all matching streams, and prints the
    stream of each entry. With --no-follow, a name is never a pattern.

    If the connection breaks, the command reconnects and continues after the last entry. On a
    terminal, each entry is cut to one line. In a pipe, entries are complete, as lines
    `ID NAME=VALUE …`.

        headgate tail orders                      new entries
        headgate tail orders --after 0            all entries, then new ones
        headgate tail orders --no-follow          all present entries
        headgate tail orders --no-follow --json | jq .fields.sku
        headgate tail orders --filter '{"exact":{"sku":"42"}}'
        headgate tail 'orders.*'                  all matching streams, later ones included
    """
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
            display.note("the stream is closed")


async def _present(
    stream: Stream, after: str, condition: Any, display: Display
) -> AsyncGenerator[list[Entry]]:
    async for page in stream.pages(after=after, limit=_PAGE, filter=condition):
        if page.gap is not None:
            display.note_gap(page.gap)
        yield page.entries


async def _coming_of(
    stream: Stream, after: str, condition: Any, display: Display
) -> AsyncGenerator[list[Entry]]:
    last_id = (await stream.info())["last_id"]
    following = stream.follow(
        after=last_id if after == "$" else after, on_state=display.note_state, filter=condition
    )
    async for portion in _coming(following, display):
        yield portion


async def _coming(following: Following, display: Display) -> AsyncGenerator[list[Entry]]:
    async with following:
        async for entry in following:
            if following.gap is not None:
                display.note_gap(following.gap)
            portion = [entry]
            while following.ready_count:
                portion.append(await anext(following))
            yield portion
