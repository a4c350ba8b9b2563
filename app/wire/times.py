"""Times and ages as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}


def time_text(ms: int) -> str:
    """Return a unix time in milliseconds as RFC 3339 in UTC, to the second."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # its year is in no calendar
        return f"{ms} ms"


def age_text(ms: int) -> str:
    """Return a duration in its largest unit, rounded down."""
    for unit, length_ms in _UNITS_MS.items():
        if ms >= length_ms:
            return f"{ms // length_ms} {unit}"
    return f"{ms} ms"
