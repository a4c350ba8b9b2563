"""The screen: a terminal that can show colours and tables, if there is one."""

import sys
from typing import TypedDict

from rich.console import Console, OverflowMethod

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
