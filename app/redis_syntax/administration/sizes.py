"""Sizes of memory, as people read them."""

from __future__ import annotations


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
