"""Descriptors: spare file descriptors, so that the engine can open a file when none are left.

A process that has used up its descriptors can accept no more connections. The journal must go on:
it needs a descriptor now and then, for a segment or a rewrite.
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
    """Tell whether an error means that no descriptors are left."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class SpareDescriptors:
    """Descriptors that are open and unused. Threads may share them."""

    def __init__(self, count: int = SPARE_DESCRIPTORS) -> None:
        """Open so many, or as many as the system allows."""
        self._count = count
        self._kept: list[int] = []
        self._refill()

    def use(self, act: Callable[[], T]) -> T:
        """Call a function that opens a file; if no descriptor is left, free one and call again."""
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
