"""Arrow: entries as record batches and back, by pyarrow, which a gateway need not have.

Encoding and decoding are plain functions, to be run `aside`: in one of few threads, so that the
event loop goes on meanwhile. They do their work in few calls on whole columns.
"""

from __future__ import annotations

import asyncio
import io
import os
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeVar

from app.ids import parse_new_id
from app.problems import GatewayError, pointer_to
from engine.entry import Draft, Entry, Fields, IdRequest, make_draft

T = TypeVar("T")

Compression = Literal["none", "zstd"]

THREADS_MAX = 2
"""Encodings and decodings at once: with more, each would only wait for the others."""

ROWS_MAX = 4096
"""Rows of one batch: with twice as many a long poll beside two readers waits a third longer, and
they read no faster."""

BATCH_BYTES_MAX = 8 * 2**20
"""Names and values of one batch, about."""

_POOL = "ARROW_DEFAULT_MEMORY_POOL", "system"
"""Where Arrow takes memory from, unless the environment says otherwise. mimalloc, its own choice,
asks for huge pages where the system leaves that to programs, and so has 2 MiB more whenever it
touches another part of its arena: up to 14 MiB were seen, for half of one in use at most. Readers
in bulk are as quick with either (tests/bench/README.md)."""

_INT64_MAX = 2**63 - 1
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"

_threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="arrow")


async def aside(act: Callable[[], T]) -> T:
    """Do something with Arrow while the event loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(_threads, act)


async def load() -> None:
    """Make sure that there is pyarrow.

    Raises:
        GatewayError: there is none.
    """
    await aside(_pyarrow)


@cache
def _pyarrow() -> Any:
    """Return the library, imported once, and not before somebody asks for Arrow."""
    os.environ.setdefault(*_POOL)
    try:
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ImportError:
        text = "this gateway cannot speak Arrow: pip install 'headgate[arrow]'"
        raise GatewayError("extra_missing", text) from None


class Encoder:
    """Entries of one stream into an Arrow IPC stream, batch by batch."""

    def __init__(self, stream: str, epoch: int, compression: Compression) -> None:
        """Begin the stream; its schema says whose entries they are."""
        pa = _pyarrow()
        self._fields_type = pa.map_(pa.binary(), pa.binary())
        self._schema = pa.schema(
            [
                pa.field("id", pa.string(), nullable=False),
                pa.field("ms", pa.int64(), nullable=False),
                pa.field("seq", pa.int64()),
                pa.field("fields", self._fields_type, nullable=False),
            ],
            {"headgate.stream": stream, "headgate.epoch": str(epoch)},
        )
        options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self._sink = io.BytesIO()
        self._writer = pa.ipc.new_stream(
            pa.PythonFile(self._sink, "w"), self._schema, options=options
        )

    def encode(self, entries: Sequence[Entry]) -> bytes:
        """Return the next bytes of the stream, with these entries as one batch."""
        pa = _pyarrow()
        ids, ms, seq = _id_columns(list(map(itemgetter(0), entries)))
        many = list(map(itemgetter(1), entries))
        flat = list(chain.from_iterable(many))
        ends = accumulate((len(fields) // 2 for fields in many), initial=0)
        fields = pa.MapArray.from_arrays(
            pa.array(list(ends), pa.int32()),
            pa.array(flat[0::2], pa.binary()),
            pa.array(flat[1::2], pa.binary()),
            type=self._fields_type,
        )
        batch = pa.RecordBatch.from_arrays([ids, ms, seq, fields], schema=self._schema)
        self._writer.write_batch(batch)
        return self._taken()

    def finish(self) -> bytes:
        """Return the last bytes: whoever has them has it all."""
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        taken = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return taken


def _id_columns(ids: list[tuple[int, int]]) -> tuple[Any, Any, Any]:
    """Return ids as texts, their times and their sequence numbers."""
    pa = _pyarrow()
    flat = list(chain.from_iterable(ids))
    ms, seq = pa.array(flat[0::2], pa.uint64()), pa.array(flat[1::2], pa.uint64())
    text = pa.string()
    texts = pa.compute.binary_join_element_wise(ms.cast(text), seq.cast(text), "-")
    try:
        return texts, ms.cast(pa.int64()), seq.cast(pa.int64())
    except pa.ArrowInvalid:  # beyond a signed number: the text alone has the truth
        times = [min(one, _INT64_MAX) for one in flat[0::2]]
        numbers = [one if one <= _INT64_MAX else None for one in flat[1::2]]
        return texts, pa.array(times, pa.int64()), pa.array(numbers, pa.int64())


class NewRows(NamedTuple):
    """What an Arrow body wants to be appended, in order."""

    drafts: list[Draft]
    streams: list[str | None] | None  # of each draft; None: the body does not say


def decode(body: bytes, *, may_name_streams: bool = False) -> NewRows:
    """Return the rows of an Arrow IPC stream.

    Args:
        body: with a column `fields` (a map, or a list of structs of `name` and `value`), and
            perhaps `id` (null is `*`).
        may_name_streams: it may have a column `stream`, too.

    Raises:
        GatewayError: it is no such stream; with the column or the row that is wrong.
    """
    pa = _pyarrow()
    try:
        table = _table(body, may_name_streams)
    except (pa.ArrowException, OSError, struct.error, ValueError, IndexError) as error:
        text = f"not an Arrow stream: {str(error).splitlines()[0] if str(error) else 'no sense'}"
        raise GatewayError("malformed", text, pointer="/body") from None
    drafts: list[Draft] = []
    streams: list[str | None] = []
    for batch in table.to_batches():
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


def _table(body: bytes, may_name_streams: bool) -> Any:
    """Return what a body holds, once it is known to be whole, sound and of the right columns."""
    pa = _pyarrow()
    if not body.endswith(_END):
        raise pa.ArrowInvalid("the end is missing")
    source = pa.BufferReader(body)
    reader = pa.ipc.open_stream(source)
    _check_columns(reader.schema, may_name_streams)
    _check_uncompressed(body)
    table = reader.read_all()
    if source.tell() != len(body):
        raise pa.ArrowInvalid("it goes on behind its end")
    table.validate(full=True)  # offsets that point anywhere would be followed anywhere
    return table


def _check_columns(schema: Any, may_name_streams: bool) -> None:
    types = _pyarrow().types
    known = {"fields": _is_fields, "id": _is_text}
    if may_name_streams:
        known["stream"] = _is_text
    for column in schema:
        pointer = "/body" + pointer_to(column.name)
        if column.name not in known:
            text = f"unknown column: there are {' and '.join(known)}"
            raise GatewayError("invalid_request", text, pointer=pointer)
        if schema.names.count(column.name) > 1:
            raise GatewayError("invalid_request", "given twice", pointer=pointer)
        if not known[column.name](types, column.type):
            wanted = "a map of binary or utf8" if column.name == "fields" else "utf8"
            text = f"should be {wanted}, not {str(column.type)[:64]}"
            raise GatewayError("invalid_request", text, pointer=pointer)
    if "fields" not in schema.names:
        raise GatewayError("invalid_request", "is required", pointer="/body/fields")


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(types: Any, kind: Any) -> bool:
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return is_binary or _is_text(types, kind)


def _is_fields(types: Any, kind: Any) -> bool:
    if types.is_map(kind):
        return _is_bytes(types, kind.key_type) and _is_bytes(types, kind.item_type)
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    pair = kind.value_type
    if not types.is_struct(pair) or [one.name for one in pair] != ["name", "value"]:
        return False
    return all(_is_bytes(types, one.type) for one in pair)


def _check_uncompressed(body: bytes) -> None:
    """Refuse compressed batches: a body within its bound could become as large as it likes."""
    pa = _pyarrow()
    messages = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        if message.type == "record batch" and _has_compression(message.metadata.to_pybytes()):
            text = "send it uncompressed: compressed batches are not taken"
            raise GatewayError("invalid_request", text, pointer="/body")


def _has_compression(metadata: bytes) -> bool:
    """Tell whether a record batch's flatbuffer has its field `compression` (Arrow: Message.fbs)."""

    def place(table: int, slot: int) -> int | None:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        if 4 + 2 * slot >= struct.unpack_from("<H", metadata, vtable)[0]:
            return None
        offset: int = struct.unpack_from("<H", metadata, vtable + 4 + 2 * slot)[0]
        return table + offset if offset else None

    message = struct.unpack_from("<I", metadata)[0]
    header = place(message, 2)
    if header is None:
        return False
    return place(header + struct.unpack_from("<I", metadata, header)[0], 3) is not None


def _fields(column: Any, first: int) -> list[Fields]:
    """Return the fields of each row; `first` is the number of the first row, for errors."""
    pa = _pyarrow()
    if column.null_count:
        _refuse(first + column.is_null().index(True).as_py(), "should not be null")
    if pa.types.is_map(column.type):
        names, values = column.keys, column.items
    else:
        names, values = column.values.flatten()
    flat: list[bytes] = [b""] * (2 * len(names))
    flat[0::2], flat[1::2] = _bytes(names), _bytes(values)
    ends = column.offsets.to_pylist()
    many = [tuple(flat[2 * low : 2 * high]) for low, high in pairwise(ends)]
    if not all(many):
        _refuse(first + many.index(()), "an entry has at least one field")
    if names.null_count or values.null_count:
        for row, fields in enumerate(many, first):
            if None in fields:
                _refuse(row, "a name or a value is null")
    return many


def _bytes(column: Any) -> list[bytes]:
    pa = _pyarrow()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    found: list[bytes] = column.cast(pa.binary()).to_pylist()
    return found


def _refuse(row: int, text: str) -> None:
    raise GatewayError("invalid_request", text, pointer=f"/body/{row}/fields")
