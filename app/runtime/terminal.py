"""Tells what SIGHUP means.

It is sent when the terminal of a program closes, and by operators who want a daemon to reload.
"""

import os


class Terminal:
    def __init__(self) -> None:
        self._was_there = _is_there()

    @property
    def is_gone(self) -> bool:
        """Return whether there was a terminal that has closed."""
        return self._was_there and not _is_there()


def _is_there() -> bool:
    return os.isatty(2)
