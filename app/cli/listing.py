"""Listing: items as a table, as columns in a pipe, or as lines of JSON."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

import click
from rich.cells import cell_len
from rich.console import Console, OverflowMethod
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from headgate.app.cli.durations import duration_text, time_text
from headgate.app.cli.words import json_line, json_of, line_of, one_line, word
from headgate.app.wire.times import age_text
from headgate.client.entries import Delivery, Entry


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 entry`, `2,000 entries`.

    Args:
        count: of what the noun names.
        noun: for a count of 1.
        plural: for the others, if it is more than the noun with an `s`.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def counted_entries(count: int) -> str:
    """Return a count of entries: `1 entry`, `2,000 entries`."""
    return counted(count, "entry", "entries")


def contents(records: int, streams: int, entries: int, pending: int) -> str:
    """Return the size of a journal, and of the keyspace that it leads to."""
    sizes = counted(streams, "stream"), counted_entries(entries), f"{pending:,} pending"
    return f"{counted(records, 'record')}: {', '.join(sizes)}"


NARROW = 64
"""On a screen with fewer columns what matters less is left out."""


class _Column(TypedDict):
    overflow: OverflowMethod
    no_wrap: bool
    min_width: int


NAME: _Column = {"overflow": "ellipsis", "no_wrap": True, "min_width": 8}
"""A column of names: cut where there is no room."""


def screen() -> Console | None:
    """Return standard output as a screen; None where it is a pipe, a file or a dumb terminal."""
    if not sys.stdout.isatty():
        return None
    console = Console(highlight=False, soft_wrap=False)
    return None if console.is_dumb_terminal else console


class Bar:
    """A bar that shows the progress of work."""

    def __init__(self, progress: Progress, total: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def expect(self, total: int) -> None:
        """Show how much there is."""
        self._progress.update(self._task, total=total)

    def advance(self, count: int) -> None:
        """Show how much more is done."""
        self._progress.advance(self._task, count)


@contextmanager
def progress_bar(
    total: int | None = None, what: str = "rows", *, is_hidden: bool = False
) -> Iterator[Bar]:
    """Show the progress of work, if standard error is a terminal.

    Args:
        total: how much there is; None: nobody knows.
        what: is counted.
        is_hidden: show nothing.
    """
    console = Console(stderr=True)
    is_hidden = is_hidden or not console.is_terminal or console.is_dumb_terminal
    columns = BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as progress:
        yield Bar(progress, total)


_NONE = "-"
_SHORT = 20
"""Columns that are no wider are shown whole: times, counts, states."""
_LONG_MIN = 8
_TIMES = ("at_ms", "due_ms", "until_ms", "since_ms")
"""Ends of the names of times; the other names in milliseconds are durations."""

_GAP = 2


def show_item(item: Mapping[str, Any], *, as_json: bool, nothing: str = "") -> None:
    """Show one item: a line for each thing that is known of it.

    Args:
        item: the things by their names.
        as_json: print a line of JSON.
        nothing: what a terminal says if there are none.
    """
    if as_json:
        click.echo(json_line(item))
        return
    console = screen()
    lines = dict(_flat(item, for_people=console is not None))
    width = max(map(len, lines), default=0)
    if not lines and console is not None:
        console.print(nothing)
    for name, value in lines.items():
        if console is None:
            click.echo(f"{name}\t{value}")
        else:
            console.print(Text.assemble((name.ljust(width), "dim"), "  ", value))


def show_items(
    items: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    as_json: bool,
    nothing: str = "",
    told: Callable[[Any], Mapping[str, Any]] = dict,
) -> None:
    """Show items.

    Args:
        items: what is known of each.
        columns: what people see of it; JSON has everything.
        as_json: print lines of JSON.
        nothing: what a terminal says if there are none.
        told: makes what the columns show of an item.
    """
    if as_json:
        for item in items:
            click.echo(json_line(item))
        return
    console = screen()
    cell = (lambda value, _: _cell(value)) if console is None else _told
    rows = [[cell(item.get(column), column) for column in columns] for item in map(told, items)]
    if console is None:
        for row in ([*columns], *rows):
            click.echo("\t".join(row))
    elif rows:
        console.print(_table(columns, rows, console.width))
    elif nothing:
        console.print(nothing)


def show_entries(entries: Iterable[Entry | Delivery], *, as_json: bool) -> None:
    """Show entries, a line for each."""
    for entry in entries:
        click.echo(json_line(json_of(entry)) if as_json else line_of(entry))


def show_outcomes(outcomes: Mapping[str, str], wanted: str, *, as_json: bool) -> None:
    """Show the outcome of each entry; end with 1 if one is not `wanted`."""
    items = [{"id": entry_id, "outcome": outcome} for entry_id, outcome in outcomes.items()]
    show_items(items, ("id", "outcome"), as_json=as_json)
    if any(outcome != wanted for outcome in outcomes.values()):
        raise SystemExit(1)


def show_deletion(what: Mapping[str, str], *, as_json: bool) -> None:
    """Show in JSON that something is deleted; people see that nothing was wrong."""
    if as_json:
        show_item({**what, "deleted": True}, as_json=True)


def _table(columns: Sequence[str], rows: list[list[str]], width: int) -> Table:
    """Return rows as a table so wide: long columns share the room that short ones leave."""
    widths = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    short = [each for each in widths if each <= _SHORT]
    gaps = _GAP * (len(widths) - 1)
    room = (width - gaps - sum(short)) // max(len(widths) - len(short), 1)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, column in enumerate(columns):
        is_count = all(row[place].isdecimal() or row[place] == _NONE for row in rows)
        table.add_column(
            column.removesuffix("_ms").replace("_", " "),
            justify="right" if is_count or column.endswith("_ms") else "left",
            style="cyan" if column.endswith("id") else "",
            overflow="ellipsis",
            no_wrap=True,
            max_width=None if widths[place] <= _SHORT else max(room, _LONG_MIN),
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _cell(value: Any) -> str:
    """Return a value as a word, as scripts read it."""
    if value is None:
        return _NONE
    if isinstance(value, str):
        return word(value)
    if isinstance(value, Mapping):
        return " ".join(f"{word(part)}={_cell(each)}" for part, each in value.items())
    if isinstance(value, list) and not any(isinstance(each, Mapping) for each in value):
        return ",".join(map(_cell, value)) or _NONE
    return json_line(value)


def _told(value: Any, name: str) -> str:
    """Return a value as people read it: times by UTC, durations with their units."""
    if not name.endswith("_ms"):
        return _cell(value)
    if isinstance(value, list):
        return ",".join(_told(each, name) for each in value) or _NONE
    if isinstance(value, float):
        return f"{value} ms"
    if not isinstance(value, int):
        return _cell(value)
    if name.endswith(_TIMES):
        return str(time_text(value))
    return age_text(value) if value > 1_000 and value % 1_000 else duration_text(value)


def _flat(
    item: Mapping[str, Any], before: str = "", *, for_people: bool
) -> Iterable[tuple[str, str]]:
    """Yield names and values; those of an inner item with its name before them."""
    for name, value in item.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.", for_people=for_people)
        elif for_people:
            yield one_line(f"{before}{name.removesuffix('_ms')}"), _told(value, name)
        else:
            yield one_line(f"{before}{name}"), _cell(value)
