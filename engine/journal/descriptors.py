"""Descriptors: some kept open for nothing, so that the engine can open a file when none are left.

A process that has as many connections as it may have descriptors can accept no more of them. The
journal must go on all the same: it needs one now and then, for a segment or a rewrite.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from headgate.engine.limits import SPARE_DESCRIPTORS

T = TypeVar("T")


def none_are_left(error: OSError) -> bool:
    """Tell whether something failed because no more descriptors can be had."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class SpareDescriptors:
    """Descriptors of nothing. Threads may share them."""

    def __init__(self, count: int = SPARE_DESCRIPTORS) -> None:
        """Keep so many open, or as many as there are."""
        self._count = count
        self._kept: list[int] = []
        self._refill()

    def use(self, act: Callable[[], T]) -> T:
        """Do something that opens a file; if no descriptor is left, try again with a spare one."""
        try:
            return act()
        except OSError as error:
            if not none_are_left(error):
                raise
        self.close()
        try:
            return act()
        finally:
            self._refill()

    def close(self) -> None:
        """Close all of them."""
        with suppress(IndexError):
            while True:
                os.close(self._kept.pop())

    def _refill(self) -> None:
        with suppress(OSError):
            while len(self._kept) < self._count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
