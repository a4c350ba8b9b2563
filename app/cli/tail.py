"""`headgate tail`."""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headgate.app.cli.flags import gateway_options, json_option, stream_argument
from headgate.app.cli.follow import Following, News
from headgate.app.cli.remote import Remote
from headgate.app.cli.screen import NARROW, screen
from headgate.app.cli.words import line_of, one_line, pairs_of

_RATE_S = 5.0
"""The rate is that of so many last seconds."""

_HELP = """\
Follow a stream: every entry, as it comes, until Ctrl-C.

A connection that breaks is made again, and goes on after the last entry. On a terminal entries
are cut to one line each; in a pipe they are whole, as lines `ID NAME=VALUE …`.

\b
headgate tail orders                      what comes from now on
headgate tail orders --after 0            everything, then what comes
headgate tail orders --no-follow          everything there is
headgate tail orders --no-follow --json | jq .fields.sku
"""

_STYLE_OF = {"caught up": "green", "reading": "cyan", "lost": "bold red"}


@click.command("tail", help=_HELP, short_help="Follow a stream: every entry, as it comes.")
@stream_argument
@click.option(
    "--after",
    metavar="ID",
    help="Begin after this entry; 0 is before the oldest, $ is from now on.  "
    "[default: $; with --no-follow: 0]",
)
@click.option("--limit", type=click.IntRange(min=1), help="End after so many entries.")
@click.option("--no-follow", is_flag=True, help="Show what is there, and end.")
@click.option("--wrap", is_flag=True, help="On a terminal: show long entries whole.")
@json_option
@gateway_options
def command(
    stream: str,
    after: str | None,
    limit: int | None,
    no_follow: bool,
    wrap: bool,
    as_json: bool,
    gateway: Remote,
) -> None:
    """Follow a stream."""
    if after is None:
        after = "0" if no_follow else "$"
    console = screen()
    show = _plain(as_json) if as_json or console is None else _live(console, stream, wrap=wrap)
    with show as print_news:
        left = limit
        for news in Following(gateway, stream, after=after).news():
            print_news(news._replace(entries=news.entries[:left]))
            left = None if left is None else left - len(news.entries)
            if (left is not None and left <= 0) or (no_follow and news.state == "caught up"):
                return


@contextmanager
def _plain(as_json: bool) -> Iterator[Callable[[News], None]]:
    def show_news(news: News) -> None:
        for note in news.notes:
            click.echo(note, err=True)
        lines = news.entries if as_json else [line_of(json.loads(entry)) for entry in news.entries]
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()

    yield show_news


@contextmanager
def _live(console: Console, stream: str, *, wrap: bool) -> Iterator[Callable[[News], None]]:
    status = _Status(stream)
    with Live(status, console=console, refresh_per_second=4, transient=True):

        def show_news(news: News) -> None:
            status.note(news)
            lines = [Text(note, style="yellow") for note in news.notes]
            lines += [_row(entry, console.width, wrap=wrap) for entry in news.entries]
            if lines:
                console.print(Group(*lines))

        yield show_news


class _Status:
    """The line at the bottom."""

    def __init__(self, stream: str) -> None:
        self._stream = one_line(stream)
        self._state = "reading"
        self._count = 0
        self._begun = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque()

    def note(self, news: News) -> None:
        self._state = news.state
        self._count += len(news.entries)
        self._recent.append((time.monotonic(), len(news.entries)))

    def __rich__(self) -> Text:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - _RATE_S:
            self._recent.popleft()
        seconds = max(1.0, min(_RATE_S, now - self._begun))
        rate = sum(count for _, count in self._recent) / seconds
        parts = [
            (f"● {self._state}", _STYLE_OF[self._state]),
            (f"  {self._stream}", "bold"),
            (f"  {self._count:,} {'entry' if self._count == 1 else 'entries'}", ""),
            (f"  {rate:,.1f}/s", ""),
            ("  Ctrl-C ends", "dim"),
        ]
        return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _row(text: str, width: int, *, wrap: bool) -> Text:
    entry = json.loads(text)
    row = Text(no_wrap=not wrap, overflow="fold" if wrap else "ellipsis")
    if width >= NARROW:  # the id says it as well
        row.append(f"{_time_of(entry['id'])}  ", "dim")
    row.append(entry["id"], "cyan")
    for name, value in pairs_of(entry):
        row.append(f"  {name}", "blue").append("=", "dim").append(value)
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
