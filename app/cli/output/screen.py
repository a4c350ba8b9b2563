"""The screen: a terminal that can show colours and tables, if there is one."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypedDict

from rich.console import Console, OverflowMethod
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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


@contextmanager
def progress_bar(total: int | None, what: str = "rows") -> Iterator[Callable[[int], None]]:
    """Show the progress of work, if standard error is a terminal.

    Args:
        total: how much there is; None: nobody knows.
        what: is counted.
    """
    console = Console(stderr=True)
    is_shown = console.is_terminal and not console.is_dumb_terminal
    columns = BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)
