"""Ahead: prepare the next part while one is used, so that Spark and the gateway both work."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Final, TypeVar

T = TypeVar("T")

_END: Final = object()


def ahead(parts: Generator[T]) -> Iterator[T]:
    """Yield parts in order; a thread makes at most the next one meanwhile."""
    with closing(parts), ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, parts, _END)
        while (part := coming.result()) is not _END:
            coming = thread.submit(next, parts, _END)
            yield part  # type: ignore[misc]  # it is no `_END`
