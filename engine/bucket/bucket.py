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
    """Bounds of a request.

    It takes twice `request_s` at most, with all that it is tried again.
    """

    connect_s: float = 5
    request_s: float = 30
    retries_max: int = 3
    backoff_s: float = 0.1  # before the first retry; twice as much before each further one


USUAL = RequestLimits()


class BucketError(OSError):
    """The store refuses, does not answer, or answers what it should not.

    What was asked may have been done all the same.
    """


class StoredObject(NamedTuple):
    """An object of a bucket."""

    name: str
    size_bytes: int


@dataclass(slots=True)
class RequestCounts:
    """The requests to a store: what it costs."""

    put_count: int = 0
    get_count: int = 0
    list_count: int = 0
    removed_count: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    error_count: int = 0


class Bucket(Protocol):
    """A bucket, or the objects below a prefix of one."""

    counts: RequestCounts
    """The requests so far."""

    @property
    def url(self) -> str:
        """Return its address, without credentials."""
        ...

    def put_new(self, name: str, content: bytes | Path) -> bool:
        """Put an object, safe against a crash of the store; false if there is one of that name.

        The one that is there may be of this very call, when it was tried again behind an answer
        that got lost: whoever must know reads it.
        """
        ...

    def read(self, name: str) -> bytes:
        """Return an object."""
        ...

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        """Return a part of an object; it is shorter if the object ends before."""
        ...

    def objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        """Return the objects below a prefix (which ends in /), by name.

        Args:
            prefix: the beginning of their names.
            after: only those behind this name.
        """
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there are passed by."""
        ...

    async def in_thread(self, act: Callable[[], T]) -> T:
        """Call a function while the event loop goes on."""
        ...

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        """Call a function for a reader, while what is put goes on."""
        ...

    def close(self) -> None:
        """End the threads, after what they do."""
        ...
