"""Names: the objects of a bucket by name. Numbers have 20 digits, so names are in their order."""

from __future__ import annotations

LEASES = "leases/"
"""The leases; the greatest number is the one that counts (`lease.py`)."""

PARTS = "parts/"
"""The journal, in parts that follow each other (`parts.py`)."""

MANIFESTS = "manifests/"
"""The manifests; the greatest number is the newest (`manifest.py`)."""

FILES = "files/"
"""Snapshots, extent files and pieces of segments, as manifests name them."""

IDENTITY = "identity"
"""The object that tells this bucket from others, whatever its address is."""

KEYS = "keys/"
"""The keys file of the gateway: the greatest number is the newest."""

_DIGITS = 20


def numbered(prefix: str, number: int) -> str:
    """Return the name of a numbered object."""
    return f"{prefix}{number:0{_DIGITS}}"


def number_of(name: str) -> int | None:
    """Return the number of an object; None if it has none, as it is not one of ours."""
    digits = name.rpartition("/")[2]
    return int(digits) if len(digits) == _DIGITS and digits.isdecimal() else None


def file_object(name: str, writer: str, term: int) -> str:
    """Return the name of the object for a file of a data directory.

    Two writers may have files of one name that differ, so it has the writer and its term.
    """
    return f"{FILES}{name}-{term}-{writer}"
