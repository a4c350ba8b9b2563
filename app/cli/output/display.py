"""Display: where a stream that is followed is shown: in a pipe, or on a terminal."""

import sys
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headgate.app.cli.durations import age_text
from headgate.app.cli.output.listing import NARROW, counted_entries, screen
from headgate.app.cli.words import json_line, json_of, line_of, one_line, pairs_of
from headgate.client.entries import Entry, Gap
from headgate.client.subscription import State

_RATE_S = 5.0
"""The rate is that of so many last seconds."""

_STATES = {"caught_up": "caught up", "lost": "lost"}
_STYLE_OF = {"caught up": "green", "reading": "cyan", "lost": "bold red"}


class Display:
    """The place for entries, and for notes about the connection."""

    def show(self, entries: Sequence[Entry]) -> None:
        """Show entries."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Show a note for people."""
        raise NotImplementedError

    def note_gap(self, gap: Gap) -> None:
        """Tell of the entries that were trimmed before they were read."""
        self.note(f"trimmed and missed: after {gap.first_id} to {gap.last_id}")

    def note_state(self, state: State, why: str) -> None:
        """Tell when the connection is lost."""
        if state == "lost":
            self.note(f"connection lost ({one_line(why)}); going on when it is back")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the screen as it was."""


def open_display(stream: str, *, as_json: bool, wrap: bool) -> Display:
    """Return the display of a stream."""
    console = screen()
    if as_json or console is None:
        return _Pipe(as_json)
    return _Terminal(console, stream, wrap=wrap)


class _Pipe(Display):
    """A pipe: a line for each entry."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def show(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            line = json_line(json_of(entry)) if self._as_json else None
            sys.stdout.write(f"{line or line_of(entry)}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        click.echo(text, err=True)


class _Terminal(Display):
    """A terminal: a row for each entry, and at the bottom how it stands."""

    def __init__(self, console: Console, stream: str, *, wrap: bool) -> None:
        self._console = console
        self._wrap = wrap
        self._status = _Status(stream)
        self._live = Live(self._status, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, entries: Sequence[Entry]) -> None:
        self._status.count(len(entries))
        if entries:
            rows = [_row(entry, self._console.width, wrap=self._wrap) for entry in entries]
            self._console.print(Group(*rows))

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="yellow"))

    def note_state(self, state: State, why: str) -> None:
        super().note_state(state, why)
        self._status.state = _STATES.get(state, "reading")


class _Status:
    """The line at the bottom."""

    def __init__(self, stream: str) -> None:
        self._stream = one_line(stream)
        self.state = "reading"
        self._count = 0
        self._begun = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque()

    def count(self, entries: int) -> None:
        self._count += entries
        self._recent.append((time.monotonic(), entries))

    def __rich__(self) -> Text:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - _RATE_S:
            self._recent.popleft()
        seconds = max(1.0, min(_RATE_S, now - self._begun))
        rate = sum(count for _, count in self._recent) / seconds
        parts = [
            (f"● {self.state}", _STYLE_OF[self.state]),
            (f"  {self._stream}", "bold"),
            (f"  {counted_entries(self._count)}", ""),
            (f"  {rate:,.1f}/s", ""),
            ("  Ctrl-C ends", "dim"),
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
