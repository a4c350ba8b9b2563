"""Listing: items as a table, as columns in a pipe, or as lines of JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from headgate.app.cli.output.screen import screen
from headgate.app.cli.words import json_line, json_of, line_of, one_line, word
from headgate.client.entries import Delivery, Entry

_NONE = "-"
_SHORT = 20
"""Columns that are no wider are shown whole: times, counts, states."""
_LONG_MIN = 8
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
    lines = dict(_flat(item))
    console = screen()
    width = max(map(len, lines), default=0)
    if not lines and console is not None:
        console.print(nothing)
    for name, value in lines.items():
        if console is None:
            click.echo(f"{name}\t{value}")
        else:
            console.print(Text.assemble((name.ljust(width), "dim"), "  ", value))


def show_items(
    items: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, nothing: str = ""
) -> None:
    """Show items.

    Args:
        items: what is known of each.
        columns: what people see of it; JSON has everything.
        as_json: print lines of JSON.
        nothing: what a terminal says if there are none.
    """
    if as_json:
        for item in items:
            click.echo(json_line(item))
        return
    rows = [[_cell(item.get(column)) for column in columns] for item in items]
    console = screen()
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
            column.replace("_", " "),
            justify="right" if is_count else "left",
            style="cyan" if column.endswith("id") else "",
            overflow="ellipsis",
            no_wrap=True,
            max_width=None if widths[place] <= _SHORT else max(room, _LONG_MIN),
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return _NONE
    if isinstance(value, list):
        return ",".join(one_line(str(each)) for each in value) or _NONE
    if isinstance(value, Mapping):
        return " ".join(f"{word(name)}={_cell(each)}" for name, each in value.items())
    return word(value) if isinstance(value, str) else one_line(str(value))


def _flat(item: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    """Yield names and values; those of an inner item with its name before them."""
    for name, value in item.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield one_line(f"{before}{name}"), _cell(value)
