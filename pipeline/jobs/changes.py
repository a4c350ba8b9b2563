"""The latest state by key, from a stream of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce

import click
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.computing.entries import (
    TEXTS,
    TIME,
    chosen_by,
    places_of,
    texts_of,
    values_of,
)
from headgate.pipeline.computing.ways import check_out, rows_of, way_of
from headgate.pipeline.rows.casts import decoded
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

_SHOWN_MAX = 10_000
_OWN = ("stream", "id", "timestamp", "fields")
_ENTRY = pa.struct(
    [*zip(_OWN, (pa.string(), pa.string(), TIME, TEXTS), strict=True), ("is_end", pa.bool_())]
)
_LATEST = """
    SELECT {key}, entry.stream, entry.id, entry.timestamp, entry.fields
    FROM (SELECT {key}, max_by(entry, place) AS entry FROM {rows} GROUP BY {key})
    WHERE NOT entry.is_end ORDER BY {key}
"""


@click.command(
    help="""The latest entry of each key: the state that a stream of changes leads to.

    \b
    The price now:   headgate-pipeline changes --streams stocks --key symbol
    As a table:      headgate-pipeline changes --streams users --key id --deleted op=delete \\
                       --lake lake --out users.parquet
    """
)
@options("streams", "pattern", "lake?", "master", "verbose", "on_spark")
@click.option("--key", required=True, help="Fields that say whose state it is, by comma.")
@click.option("--deleted", metavar="FIELD=VALUE", help="An entry with this value ends its key.")
@click.option("--out", help="Write Parquet here instead of saying the rows.")
def main(flags: Flags, *, key: str, deleted: str | None, out: str | None) -> None:
    """Say the latest state."""
    names = [name.strip() for name in key.split(",")]
    if not all(names):
        raise click.BadParameter("names of fields, separated by commas", param_hint="--key")
    ending = None if deleted is None else tuple(deleted.partition("=")[::2])
    if ending is not None and not all(ending):
        raise click.BadParameter("a field and its value, as op=delete", param_hint="--deleted")
    if out is not None:
        check_out(out)
    with flags.client() as client:
        _, total, places = chosen_by(flags, client)
    progress = ProgressLine("changes", total)
    way = way_of(flags, "changes", total, progress)
    keys = [f"key_{number}" for number in range(len(names))]
    columns = [*((name, pa.string()) for name in (*keys, "place")), ("entry", _ENTRY)]
    task = partial(_keyed, key=names, deleted=ending, schema=pa.schema(columns))
    rows = way.rows(places, task, pa.schema(columns))
    named = [*names, *(f"_{name}" if name in names else name for name in _OWN)]
    given = {"names": named, "key": ", ".join(keys), "rows": rows}
    if out is not None:
        written = way.write(out, _LATEST, **given)
        shown: list[dict[str, object]] = [{"keys": written, "out": out}]
    else:
        shown = rows_of(way.table(_LATEST, limit=_SHOWN_MAX, **given))
    progress.finish()
    answer(shown, as_json=flags.as_json, nothing="no entry has this key")


def _keyed(
    batches: Iterable[pa.RecordBatch],
    key: Sequence[str],
    deleted: tuple[str, ...] | None,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield entries with their key in columns; those without the key are left out.

    Args:
        batches: of entries, in any order.
        key: names of fields.
        deleted: field and value that end a key.
        schema: of the rows.
    """
    for batch in batches:
        fields = batch.column("fields")
        keys = [decoded(values_of(fields, name)) for name in key]
        ids, streams = batch.column("id"), batch.column("stream")
        places = pc.binary_join_element_wise(places_of(ids), streams, " ")
        is_end = pa.repeat(False, len(batch))
        if deleted is not None:
            name, text = deleted
            is_end = pc.equal(decoded(values_of(fields, name)), text).fill_null(False)
        own = [streams, ids, batch.column("timestamp"), texts_of(fields), is_end]
        entries = pa.StructArray.from_arrays(own, fields=list(_ENTRY))
        rows = pa.RecordBatch.from_arrays([*keys, places, entries], schema=schema)
        yield rows.filter(reduce(pc.and_, [column.is_valid() for column in keys]))
