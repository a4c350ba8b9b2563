"""Sizes of memory: what this process takes, and how people read it."""

from __future__ import annotations

import platform
import resource
from pathlib import Path

_PAGE_BYTES = resource.getpagesize()
_STATM = Path("/proc/self/statm")


def human(size_bytes: int) -> str:
    """Return a size as Redis shows it to people: `1.50M`."""
    size = float(size_bytes)
    if size < 1024:
        return f"{size_bytes}B"
    units = iter("MGTP")
    unit = "K"
    size /= 1024
    while size >= 1024 and (larger := next(units, None)):
        unit, size = larger, size / 1024
    return f"{size:.2f}{unit}"


def resident_bytes() -> int:
    """Return how much memory this process takes now; where that is not known, the most it had."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return peak_bytes()


def peak_bytes() -> int:
    """Return the greatest memory size that this process has had, in bytes."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
