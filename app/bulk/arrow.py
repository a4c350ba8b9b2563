"""Arrow: record batches as entries, with pyarrow, which a gateway need not have.

Encoding (`encoder`) and decoding are plain functions. They run in one of a few threads, so that the
event loop goes on meanwhile, and they work with a few calls on whole columns.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from starlette.requests import HTTPConnection

from headgate.app.bulk.arrow_body import ArrowBounds, leaves_of, table_of
from headgate.app.wire.ids import parse_new_id
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Draft, Fields, IdRequest, make_draft
from headgate.engine.threads import Threads

T = TypeVar("T")

THREADS_MAX = 2
"""Encodings and decodings at once: with more, each would only wait for the others."""

_POOL = "ARROW_DEFAULT_MEMORY_POOL", "system"
"""Arrow's allocator, unless the environment names one. mimalloc, its own choice,
asks for huge pages where the system leaves that to programs, and so has 2 MiB more whenever it
touches another part of its arena: up to 14 MiB were seen, for half of one in use at most. Readers
in bulk are as quick with either (tests/bench/README.md)."""

_ROWS_AT_ONCE = 1024
_VALUES_AT_ONCE = 4096
"""Made into objects before another thread can have its turn: a fraction of a millisecond each."""


class ArrowThreads:
    """The threads of a gateway that encode and decode Arrow. They begin when they are needed."""

    def __init__(self) -> None:
        """Start without threads."""
        self._threads = Threads(THREADS_MAX, "arrow")

    async def run(self, act: Callable[[], T]) -> T:
        """Call a function in a thread while the event loop goes on."""
        return await self._threads.call_if_awaited(act)

    async def load(self) -> None:
        """Check that pyarrow is installed.

        Raises:
            GatewayError: it is not.
        """
        await self.run(_pyarrow)

    async def close(self) -> None:
        """End the threads after their work."""
        await asyncio.to_thread(self._threads.shutdown)


def threads_of(request: HTTPConnection) -> ArrowThreads:
    """Return the threads of the gateway that serves a request."""
    threads: ArrowThreads = request.state.arrow
    return threads


@cache
def _pyarrow() -> Any:
    """Return the library; it is imported at the first use of Arrow."""
    os.environ.setdefault(*_POOL)
    try:
        import_module("numpy")
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ImportError:
        text = "this gateway cannot speak Arrow: pip install '.[arrow]'"
        raise GatewayError("extra_missing", text) from None


class NewRows(NamedTuple):
    """The drafts of an Arrow body, in order."""

    drafts: list[Draft]
    streams: list[str | None] | None  # of each draft; None: the body does not say


def decode(body: bytes, bounds: ArrowBounds) -> NewRows:
    """Return the rows of an Arrow IPC stream.

    Args:
        body: with a column `fields` (a map, or a list of structs of `name` and `value`), and
            perhaps `id` (null is `*`) and `stream`.
        bounds: what it may hold.

    Raises:
        GatewayError: it is no such stream; with the column or the row that is wrong.
    """
    pa = _pyarrow()
    try:
        return _rows(table_of(pa, body, bounds))
    except (pa.ArrowException, OSError, struct.error, ValueError, IndexError) as error:
        text = f"not an Arrow stream: {str(error).splitlines()[0] if str(error) else 'no sense'}"
        raise GatewayError("malformed", text, pointer="/body") from None


def _rows(table: Any) -> NewRows:
    drafts: list[Draft] = []
    streams: list[str | None] = []
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        first = len(drafts)
        fields = _fields(batch.column("fields"), first)
        ids: list[IdRequest] = [None] * len(fields)
        if "id" in batch.schema.names:
            texts = batch.column("id").to_pylist()
            ids = [
                None if text is None else parse_new_id(text, field=f"/body/{row}/id")
                for row, text in enumerate(texts, first)
            ]
        if "stream" in batch.schema.names:
            streams += batch.column("stream").to_pylist()
        drafts += map(make_draft, zip(ids, fields, strict=True))
    return NewRows(drafts, streams if "stream" in table.schema.names else None)


def _fields(column: Any, first: int) -> list[Fields]:
    """Return the fields of each row; `first` is the number of the first row, for errors."""
    pa = _pyarrow()
    if not len(column):  # it may have no offsets then, and what is read is not its own
        return []
    if column.null_count:
        _refuse(first + column.is_null().index(True).as_py(), "should not be null")
    ends = column.offsets.to_pylist()
    begin, count = ends[0], ends[-1] - ends[0]
    names, values = (leaf.slice(begin, count) for leaf in leaves_of(pa, column))
    flat: list[bytes] = [b""] * (2 * count)
    flat[0::2], flat[1::2] = _bytes(names), _bytes(values)
    places = ((2 * (low - begin), 2 * (high - begin)) for low, high in pairwise(ends))
    many = [tuple(flat[low:high]) for low, high in places]
    if not all(many):
        _refuse(first + many.index(()), "an entry has at least one field")
    if names.null_count or values.null_count:
        for row, fields in enumerate(many, first):
            if None in fields:
                _refuse(row, "a name or a value is null")
    return many


def _bytes(column: Any) -> list[bytes]:
    """Return the bytes of a column, a few values at a time: nothing else runs meanwhile."""
    pa = _pyarrow()
    values: list[bytes] = []
    for begin in range(0, len(column), _VALUES_AT_ONCE):
        portion = column.slice(begin, _VALUES_AT_ONCE)
        if pa.types.is_string_view(portion.type):
            portion = portion.cast(pa.binary_view())
        values += portion.cast(pa.large_binary()).to_pylist()
    return values


def _refuse(row: int, text: str) -> None:
    raise GatewayError("invalid_request", text, pointer=f"/body/{row}/fields")
