"""Arrow bodies that are nearly right, decoded one after the other: a crash ends the process.

It is run as `python -m tests.fuzz.arrow_child SEED COUNT`.
"""

from __future__ import annotations

import random
import resource
import struct
import sys
from typing import Any

import pyarrow as pa

from headgate.app.bulk import arrow
from headgate.app.bulk.arrow_body import ArrowBounds
from headgate.app.wire.problems import GatewayError
from tests.arrow_bodies import shown_over_and_over

MEMORY_BYTES_MAX = 6 * 2**30
BOUNDS = ArrowBounds(rows_max=200, size_bytes_max=2**20, may_name_streams=True)
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [*TEXTS, pa.binary(), pa.large_binary(), pa.binary_view()]
EXTREMES = [0, 1, -1, 7, 2**7, 2**15, 2**31 - 1, -(2**31), 2**20]


def body_of(pick: random.Random) -> bytes:
    """Return an Arrow stream: some columns in some of their types, or in others."""
    count = pick.choice([0, 1, 2, 5, 40])
    columns = {"fields": _fields(pick, count)}
    if pick.random() < 0.4:
        ids = [pick.choice([None, "*", "5-*", f"{n + 1}-1"]) for n in range(count)]
        columns["id"] = pa.array(ids, pick.choice(TEXTS))
    if pick.random() < 0.3:
        names = [pick.choice([None, "s", "t", ""]) for _ in range(count)]
        columns["stream"] = pa.array(names, pick.choice(TEXTS))
    if pick.random() < 0.2:
        columns[pick.choice(["fields", "id", "stream", "x"])] = _other(pick, count)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    packing = pick.choice([None, None, None, "lz4", "zstd"])
    options = pa.ipc.IpcWriteOptions(compression=packing)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(pick.choice([0, 1, 1, 1, 3])):
            writer.write_batch(
                batch.slice(pick.randint(0, count)) if pick.random() < 0.3 else batch
            )
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _fields(pick: random.Random, count: int) -> pa.Array:
    names, values = pick.choice(BYTES), pick.choice(BYTES)
    if pick.random() < 0.2:
        shown = shown_over_and_over(b"x" * pick.choice([13, 1000, 2**18]), count, pa.binary_view())
        keys = pa.array(["v"] * count, pa.string())
        return pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), keys, shown)
    rows = [
        [(_text(pick), _text(pick).encode()) for _ in range(pick.randint(0, 4))]
        for _ in range(count)
    ]
    if pick.random() < 0.5:
        return pa.array(rows, pa.map_(names, values))
    pairs = pa.struct([("name", names), ("value", values)])
    kind = pick.choice([pa.list_, pa.large_list])(pairs)
    return pa.array([[{"name": n, "value": v} for n, v in row] for row in rows], kind)


def _text(pick: random.Random) -> str:
    return pick.choice(["", "a", "é", "twelve bytes", "more than twelve bytes", "x" * 300])


def _other(pick: random.Random, count: int) -> pa.Array:
    """Return a column of a type that nobody sends."""
    texts = pa.array([_text(pick) for _ in range(count)])
    ends = pa.array([count], pa.int32()) if count else pa.array([], pa.int32())
    single = pa.array(["v"] if count else [])
    return pick.choice(
        [
            texts.dictionary_encode(),
            pa.RunEndEncodedArray.from_arrays(ends, single),
            pa.nulls(count),
            pa.array([1] * count, pa.int64()),
            pa.array([b"ab"] * count, pa.binary(2)),
            pa.array([["v"]] * count, pa.list_view(pa.string())),
            pa.array([[["v"]]] * count, pa.list_(pa.list_(pa.string()))),
            texts,
        ]
    )


def damaged(body: bytes, pick: random.Random) -> bytes:
    """Return a body with some of its bytes and numbers changed."""
    changed = bytearray(body)
    for _ in range(pick.choice([0, 1, 1, 2, 4, 8])):
        if len(changed) < 32:
            break
        at = pick.randrange(len(changed) // 8) * 8
        kind = pick.randrange(6)
        if kind == 0:
            changed[pick.randrange(len(changed))] = pick.randrange(256)
        elif kind in (1, 2):
            at += pick.choice([0, 4])
            changed[at : at + 4] = struct.pack("<i", pick.choice(EXTREMES))
        elif kind == 3:
            changed[at : at + 8] = struct.pack("<q", pick.choice([*EXTREMES, 2**63 - 1, -(2**63)]))
        elif kind == 4:
            changed[at : at + 16] = changed[at + 16 : at + 32]
        else:
            del changed[pick.randrange(len(changed)) :]
    return bytes(changed)


def main(seed: int, count: int) -> None:
    """Decode so many bodies; what is refused is fine."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    pick = random.Random(seed)
    for _ in range(count):
        body = damaged(body_of(pick), pick)
        try:
            decoded: Any = arrow.decode(body, BOUNDS)
        except GatewayError:
            continue
        assert len(decoded.drafts) <= BOUNDS.rows_max
        assert all(draft.fields for draft in decoded.drafts)
        sizes = (len(part) for draft in decoded.drafts for part in draft.fields)
        assert sum(sizes) <= BOUNDS.size_bytes_max


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
