"""The lake: entries that `headgate-pipeline archive` wrote, as a table.

Requires the extra `lake`, but neither a gateway nor Spark.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from headgate.client import tables
from headgate.client.problems import HeadgateError

if TYPE_CHECKING:
    import pyarrow as pa

_LOWEST = (0, 0)
_HIGHEST = (2**63 - 1, 2**64 - 1)  # a lake counts milliseconds in 63 bits


class NotInLake(HeadgateError):
    """There is no lake at the path, or it has no entries of the stream."""


def read_lake(
    lake: str | os.PathLike[str],
    stream: str,
    *,
    start: str = "-",
    end: str = "+",
    schema: tables.Schema | None = None,
) -> pa.Table:
    """Return archived entries of a stream as an Arrow table: `_id`, `_time`, and the fields.

    Example:
        prices = headgate.read_lake("lake", "prices", schema={"price": "float64"})
        frame = prices.to_pandas()

    Args:
        lake: Path of the lake, or a URL of an object store.
        stream: Name of the stream.
        start: First id, inclusive: `1718000000000-0`, or `1718000000000` for a millisecond.
        end: Last id, inclusive.
        schema: Fields to return as columns, and their types. None: all fields, with inferred types.
            See `Stream.read_arrow`.

    Raises:
        NotInLake: There is no lake, or it has no entries of the stream.
        PackageMissing: The extra `lake` is not installed.
        ValueError: A value does not match the schema, or a bound is not an id.
    """
    low, high = _bound(start, _LOWEST), _bound(end, _HIGHEST)
    pa = tables.arrow()
    pc, field = pa.compute, pa.compute.field
    dataset = _dataset(os.fspath(lake))
    is_of_stream = field("stream") == stream
    is_near = (field("ms") >= low[0]) & (field("ms") <= high[0])
    rows = dataset.to_table(columns=["id", "ms", "fields"], filter=is_of_stream & is_near)
    if not len(rows) and not dataset.count_rows(filter=is_of_stream):
        raise NotInLake(f"the lake {os.fspath(lake)} holds nothing of the stream {stream!r}")

    seq = pc.replace_substring_regex(rows["id"], "^.*-", "").cast(pa.uint64())
    is_in_range = pc.and_(
        pc.or_(pc.greater(rows["ms"], low[0]), pc.greater_equal(seq, pa.scalar(low[1], seq.type))),
        pc.or_(pc.less(rows["ms"], high[0]), pc.less_equal(seq, pa.scalar(high[1], seq.type))),
    )
    fields = rows["fields"].cast(pa.map_(pa.binary(), pa.binary()))
    rows = rows.set_column(2, "fields", fields).append_column("seq", seq).filter(is_in_range)
    rows = rows.sort_by([("ms", "ascending"), ("seq", "ascending")])
    return tables.columns_of(rows.to_batches(), schema)


def _bound(text: str, otherwise: tuple[int, int]) -> tuple[int, int]:
    if text in {"-", "+"}:
        return otherwise
    match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", text)
    if match is None:
        raise ValueError(f"{text!r} is not an id such as 1718000000000-0")
    seq = otherwise[1] if match[2] is None else int(match[2])
    return min((int(match[1]), seq), _HIGHEST)


def _dataset(lake: str) -> Any:
    try:
        from deltalake import DeltaTable  # noqa: PLC0415 - optional for clients
    except ImportError:
        raise tables.PackageMissing(
            "a lake needs deltalake: install the extra headgate[lake]"
        ) from None
    if not DeltaTable.is_deltatable(lake):
        raise NotInLake(f"{lake} is not a lake: there is no Delta table in it")
    return DeltaTable(lake).to_pyarrow_dataset()
