"""Loading: shows how much of a journal has been read, or copied."""

import logging
import sys
from collections.abc import Callable

import click

log = logging.getLogger("headgate")

_LARGE_BYTES = 8 * 2**20
"""A journal smaller than this is loaded before anybody could read about it."""

_STEP_PERCENT = 10
"""Step between two lines of the log about the progress."""


def show_progress(done: int, total: int, what: str = "Loading") -> None:
    """Print on standard error how far the loading is, unless the files load at once.

    Args:
        done: bytes that are done.
        total: bytes in all.
        what: is done.
    """
    if total < _LARGE_BYTES:
        return
    end = "\n" if done == total else ""
    percentage = done * 100 // total
    click.echo(f"\r{what} {total / 2**20:.0f} MiB: {percentage} %{end}", nl=False, err=True)


def progress_of_gateway() -> Callable[[int, int], None]:
    """Return a callback that shows the progress of loading, at a terminal or in the log."""
    return show_progress if sys.stderr.isatty() else _LoggedProgress().note


class _LoggedProgress:
    def __init__(self) -> None:
        self._percent = 0

    def note(self, done: int, total: int) -> None:
        percent = done * 100 // max(total, 1)
        if total >= _LARGE_BYTES and percent >= self._percent + _STEP_PERCENT:
            self._percent = percent
            log.info("loading", extra={"percent": percent, "total_bytes": total})
