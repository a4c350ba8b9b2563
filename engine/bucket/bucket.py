"""Bucket: an object store, as the engine uses it.

An object is put once, under a name of its own, and never changed. So the only thing that is asked
of a store is that of two puts of one name exactly one works (S3: `If-None-Match: *`). Leases,
the parts of the journal and manifests are numbered objects: who puts the next number has won.

Every method may be called by any thread, and raises `OSError`: `FileNotFoundError` for an object
that is not there, `BucketError` for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class RequestLimits(NamedTuple):
    """Bounds of a request, which takes at most twice `request_s` with all its retries."""

    connect_s: float = 5
    request_s: float = 30
    retries_max: int = 3
    backoff_s: float = 0.1  # before the first retry; twice as much before each further one


USUAL = RequestLimits()


class BucketError(OSError):
    """The store refuses or does not answer; what was asked may have been done all the same."""


class StoredObject(NamedTuple):
    name: str
    size_bytes: int


@dataclass(slots=True)
class RequestCounts:
    put_count: int = 0
    get_count: int = 0
    list_count: int = 0
    removed_count: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    error_count: int = 0


class Bucket(Protocol):
    counts: RequestCounts
    """The requests so far."""

    @property
    def url(self) -> str:
        """Return its address, without credentials."""
        ...

    def put_new(self, name: str, content: bytes | Path) -> bool:
        """Put an object durably; false if there is one of that name.

        That one may come from this very call, if a retry followed a lost answer: read it to know.
        """
        ...

    def read(self, name: str) -> bytes: ...

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        """Return a part of an object; it is shorter if the object ends before."""
        ...

    def objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        """Return objects below a prefix (ends in /), by name; only those behind `after`."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there are passed by."""
        ...

    async def in_thread(self, act: Callable[[], T]) -> T: ...

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        """Call a function for a reader, while what is put goes on."""
        ...

    def close(self) -> None: ...
