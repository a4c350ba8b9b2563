"""Record batches of Arrow as entries, with pyarrow, which is optional.

Encoding (`encoder`) and decoding are plain functions. They run in one of a few threads, so that the
event loop goes on meanwhile, and they work with a few calls on whole columns.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import HTTPConnection

from headgate.app.bulk.arrow_body import ArrowBounds, leaves_of, table_of
from headgate.app.wire.ids import parse_new_id
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Draft, IdRequest, Timing, make_drafts
from headgate.engine.limits import ENTRY_FIELDS_MAX, PACKED_COUNT_MIN
from headgate.engine.packing import EncodedDrafts
from headgate.engine.requests.idempotency import Digest
from headgate.engine.threads import Threads

if TYPE_CHECKING:
    from headgate.app.bulk.framed import FieldColumns

THREADS_MAX = 2
"""Encodings and decodings at once: with more, each would only wait for the others."""

_POOL = "ARROW_DEFAULT_MEMORY_POOL", "system"
"""Arrow's allocator, unless the environment names one. mimalloc, its own choice,
asks for huge pages where the system leaves that to programs, and so has 2 MiB more whenever it
touches another part of its arena: up to 14 MiB were seen, for half of one in use at most. Readers
in bulk are as quick with either (tests/bench/README.md)."""

_ROWS_AT_ONCE = 8192
_FIELDS_AT_ONCE = 16_384
"""Encoded together: a millisecond of what keeps other threads from their turn."""


def threads_of(request: HTTPConnection) -> Threads:
    threads: Threads = request.state.arrow
    return threads


@cache
def library() -> Any:
    """Return pyarrow, which is imported at the first use of Arrow; not every gateway has it."""
    os.environ.setdefault(*_POOL)
    try:
        import_module("numpy")
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ImportError:
        text = "this gateway does not support Arrow: pip install -e '.[arrow]'"
        raise GatewayError("extra_missing", text) from None


class NewRows(NamedTuple):
    drafts: Sequence[Draft]
    streams: list[str | None] | None  # of each draft; None: the body does not say
    digest: bytes  # empty if none is needed, or if drafts have ids or times


def decode(body: bytes, bounds: ArrowBounds, *, has_key: bool = False) -> NewRows:
    """Return the rows of an Arrow IPC stream.

    It has a column `fields` (a map, or a list of structs of `name` and `value`), and perhaps `id`
    (null is `*`), `stream`, and times as `Timing` names them. `has_key`: a digest is needed;
    otherwise it is empty. Raises GatewayError, naming the wrong column or row.
    """
    pa = library()
    try:
        return _rows(table_of(pa, body, bounds), has_key=has_key)
    except (pa.ArrowException, OSError, struct.error, ValueError, IndexError) as error:
        text = f"not an Arrow stream: {str(error).splitlines()[0] if str(error) else 'no sense'}"
        raise GatewayError("malformed", text, pointer="/body") from None


def decode_append(body: bytes, bounds: ArrowBounds, *, has_key: bool) -> NewRows:
    """Return the rows of an append, as objects if they are few; see `decode`."""
    rows = decode(body, bounds, has_key=has_key)
    return rows if len(rows.drafts) >= PACKED_COUNT_MIN else rows._replace(drafts=list(rows.drafts))


def _rows(table: Any, *, has_key: bool) -> NewRows:
    encoded: list[EncodedDrafts] = []
    ids: list[IdRequest] = []
    timings: list[Timing | None] = []
    streams: list[str | None] = []
    digest = Digest()
    first = 0
    for batch in _portions(table):
        columns = _fields(batch.column("fields"), first)
        encoded.append(columns.encoded())
        if has_key:
            columns.add_to(digest)
        if "id" in batch.schema.names:
            texts = batch.column("id").to_pylist()
            ids += [
                None if text is None else parse_new_id(text, field=f"/body/{row}/id")
                for row, text in enumerate(texts, first)
            ]
        if not set(Timing._fields).isdisjoint(batch.schema.names):
            timings += _timings(batch, first)
        if "stream" in batch.schema.names:
            streams += batch.column("stream").to_pylist()
        first += len(batch)
    drafts: Sequence[Draft] = EncodedDrafts.joined(encoded)
    if any(wanted is not None for wanted in ids) or any(timings):
        fields = (draft.fields for draft in drafts)
        drafts = make_drafts(ids or repeat(None), fields, timings or repeat(None))
        has_key = False
    return NewRows(
        drafts,
        streams if "stream" in table.schema.names else None,
        digest.value() if has_key else b"",
    )


def _timings(batch: Any, first: int) -> list[Timing | None]:
    """Return the times of each row; `first` is the number of the first row, for errors."""
    columns: list[Sequence[int | None]] = []
    for name in Timing._fields:
        if name not in batch.schema.names:
            columns.append([None] * len(batch))
            continue
        values = batch.column(name).to_pylist()
        for row, value in enumerate(values, first):
            if value is not None and value < 0:
                text = "should be greater than or equal to 0"
                raise GatewayError("invalid_request", text, pointer=f"/body/{row}/{name}")
        columns.append(values)
    return [Timing(*times).or_none() for times in zip(*columns, strict=True)]


def _portions(table: Any) -> Iterator[Any]:
    """Yield batches of neighbouring rows, however the sender has split them."""
    for batch in table.combine_chunks().to_batches(max_chunksize=_ROWS_AT_ONCE):
        ends = batch.column("fields").offsets.to_numpy()[: len(batch) + 1]
        low = 0
        while low < len(batch):
            full = int(ends.searchsorted(ends[low] + _FIELDS_AT_ONCE, "right")) - 1
            high = min(max(full, low + 1), len(batch))
            yield batch.slice(low, high - low)
            low = high


def _fields(column: Any, first: int) -> FieldColumns:
    from headgate.app.bulk.framed import FieldColumns  # noqa: PLC0415 - it needs pyarrow

    pa = library()
    if column.null_count:
        _refuse(first + column.is_null().index(True).as_py(), "should not be null")
    ends = column.offsets.to_numpy()[: len(column) + 1].astype("int64")
    names, values = (
        leaf.slice(int(ends[0]), int(ends[-1] - ends[0])) for leaf in leaves_of(pa, column)
    )
    counts = ends[1:] - ends[:-1]
    if not counts.all():
        _refuse(first + int(counts.argmin()), "an entry needs at least one field")
    longest = int(counts.argmax())
    if counts[longest] > ENTRY_FIELDS_MAX:
        _refuse(first + longest, f"an entry may have at most {ENTRY_FIELDS_MAX} fields")
    for leaf in (names, values):
        if leaf.null_count:
            row = ends.searchsorted(ends[0] + leaf.is_null().index(True).as_py(), "right") - 1
            _refuse(first + int(row), "a name or a value is null")
    return FieldColumns(_as_binary(names), _as_binary(values), ends - ends[0])


def _as_binary(column: Any) -> Any:
    pa = library()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.binary_view())
    return column.cast(pa.binary())


def _refuse(row: int, text: str) -> None:
    raise GatewayError("invalid_request", text, pointer=f"/body/{row}/fields")
