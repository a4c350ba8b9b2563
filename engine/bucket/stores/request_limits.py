"""Bounds of a request to an object store."""

from __future__ import annotations

from typing import NamedTuple


class RequestLimits(NamedTuple):
    """Bounds of a request.

    It takes twice `request_s` at most, with all that it is tried again.
    """

    connect_s: float = 5
    request_s: float = 30
    retries_max: int = 3
    backoff_s: float = 0.1  # before the first retry; twice as much before each further one


USUAL = RequestLimits()
