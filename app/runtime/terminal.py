"""Terminal: tells what SIGHUP means.

It is sent when the terminal of a program closes, and by operators who want a daemon to reload.
"""

import os


class Terminal:
    """The terminal of standard error, if there is one."""

    def __init__(self) -> None:
        """Look whether there is one now."""
        self._was_there = _is_there()

    @property
    def is_gone(self) -> bool:
        """Tell whether there was a terminal, and is none any more."""
        return self._was_there and not _is_there()


def _is_there() -> bool:
    return os.isatty(2)
