"""Check that an Arrow body is sound and within its bounds before it is decoded.

Arrow trusts its input. It follows offsets, and views may repeat the same bytes, so a few megabytes
can become gigabytes or end the process. The cheap checks come first.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from headgate.app.http.dependencies import check_at_most
from headgate.app.wire.problems import GatewayError, pointer_to
from headgate.engine.entry import Timing

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class ArrowBounds(NamedTuple):
    rows_max: int
    size_bytes_max: int  # names, values, ids and names of streams together
    may_name_streams: bool = False  # it may have a column `stream`


def table_of(pa: Any, body: bytes, bounds: ArrowBounds) -> Any:
    """Return the table of a body, after checking that it is whole, sound and has the right columns.

    Raises:
        GatewayError: it has something that it may not have.
        pa.ArrowException, OSError, struct.error, ValueError, IndexError: it is no Arrow stream.
    """
    if not body.endswith(_END):
        raise pa.ArrowInvalid("the end of the stream is missing")
    source = pa.BufferReader(body)
    reader = pa.ipc.open_stream(source)
    _check_columns(pa.types, reader.schema, bounds.may_name_streams)
    _check_uncompressed(pa, body)
    table = reader.read_all()
    if source.tell() != len(body):
        raise pa.ArrowInvalid("there is more data after the end of the stream")
    check_at_most(table.num_rows, bounds.rows_max, pointer="/body")
    table.validate()  # the buffers are as long as they should be; nothing is followed yet
    _check_size(pa, table, bounds.size_bytes_max)
    table.validate(full=True)  # offsets that point anywhere would be followed anywhere
    return table


def _check_size(pa: Any, table: Any, bytes_max: int) -> None:
    """Refuse a body that is too large when each value has its own bytes.

    Views may all show the same bytes, and so may two columns: 300 views of 8 MB are a body of 8 MB.
    """
    total = 0
    for column in table.columns:
        for chunk in column.chunks:
            for leaf in leaves_of(pa, chunk):
                lengths = _lengths(pa, leaf)
                if (pa.compute.min(lengths).as_py() or 0) < 0:
                    raise pa.ArrowInvalid("a value has a negative length")
                total += pa.compute.sum(lengths).as_py() or 0
    if total > bytes_max:
        text = f"its names and values have {total} bytes; at most {bytes_max} are allowed"
        raise GatewayError("too_large", text, pointer="/body")


def leaves_of(pa: Any, column: Any) -> tuple[Any, ...]:
    """Return the byte arrays below a column: names and values for `fields`."""
    if column.type == pa.int64():
        return ()
    if pa.types.is_map(column.type):
        return column.keys, column.items
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        names, values = column.values.flatten()
        return names, values
    return (column,)


def _lengths(pa: Any, column: Any) -> Any:
    if not (pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type)):
        return pa.compute.binary_length(column)
    # A view is four numbers of 32 bits, the length first.
    numbers = pa.Array.from_buffers(
        pa.int32(), 4 * len(column), [None, column.buffers()[1]], offset=4 * column.offset
    )
    views = pa.FixedSizeListArray.from_arrays(numbers, 4)
    lengths = pa.compute.list_element(views, 0)
    return pa.compute.if_else(column.is_valid(), lengths, 0) if column.null_count else lengths


def _check_columns(types: Any, schema: Any, may_name_streams: bool) -> None:
    known = {"fields": _is_fields, "id": _is_text, **dict.fromkeys(Timing._fields, _is_time)}
    if may_name_streams:
        known["stream"] = _is_text
    for column in schema:
        pointer = "/body" + pointer_to(column.name)
        if column.name not in known:
            text = f"unknown column: the allowed columns are {', '.join(known)}"
            raise GatewayError("invalid_request", text, pointer=pointer)
        if schema.names.count(column.name) > 1:
            raise GatewayError("invalid_request", "given twice", pointer=pointer)
        if not known[column.name](types, column.type):
            text = f"should be {_WANTED[known[column.name]]}, not {str(column.type)[:64]}"
            raise GatewayError("invalid_request", text, pointer=pointer)
    if "fields" not in schema.names:
        raise GatewayError("invalid_request", "is required", pointer="/body/fields")


def _is_time(types: Any, kind: Any) -> bool:
    return bool(types.is_int64(kind))


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
    if not types.is_struct(pair) or [child.name for child in pair] != ["name", "value"]:
        return False
    return all(_is_bytes(types, child.type) for child in pair)


_WANTED = {_is_fields: "a map of binary or utf8", _is_text: "utf8", _is_time: "int64"}


def _check_uncompressed(pa: Any, body: bytes) -> None:
    """Refuse compressed batches: a small body could decompress to any size."""
    messages = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        if message.type == "record batch" and _has_compression(message.metadata.to_pybytes()):
            text = "must not be compressed"
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
