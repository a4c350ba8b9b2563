"""The latest state by key, from a stream of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import NamedTuple

import click
import pyarrow as pa
import pyarrow.compute as pc

from headgate.client.blocking import Client
from headgate.pipeline.computing.entries import (
    TEXTS,
    TIME,
    chosen_by,
    places_of,
    texts_of,
    values_of,
)
from headgate.pipeline.computing.ways import check_out, rows_of, way_of
from headgate.pipeline.offsets import BEGINNING, OffsetError, is_before, parse_id
from headgate.pipeline.rows.casts import decoded
from headgate.pipeline.rows.latest import KEY, is_key, key_text, row_fields
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

_SHOWN_MAX = 10_000
_OWN = ("stream", "id", "timestamp", "fields")
_ENTRY = pa.struct(
    [*zip(_OWN, (pa.string(), pa.string(), TIME, TEXTS), strict=True), ("is_end", pa.bool_())]
)
_LATEST = """
    SELECT {key}, entry.stream, entry.id, entry.timestamp,
           CASE WHEN entry.is_end THEN NULL ELSE entry.fields END AS fields
    FROM (SELECT {key}, max_by(entry, place) AS entry FROM {rows} GROUP BY {key}, whose)
    WHERE {wanted} ORDER BY {key}, entry.stream
"""


class _Id(click.ParamType[str]):
    name = "id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(parse_id(value))
        except OffsetError as error:
            raise click.BadParameter(str(error), ctx, param) from None


class _Rule(NamedTuple):
    """What entries are of one key, and which one ends it.

    Attributes:
        fields: their values are the key.
        ending: a field, and its value; None is any value.
        is_of_table: keys are those of the gateway.
    """

    fields: Sequence[str]
    ending: tuple[str, str | None] | None
    is_of_table: bool


@click.command(
    help="""The latest entry of each key: the state that a stream of changes leads to.

    A stream that is a table says what its key is, and what ends a key: the answer has the rows that
    the gateway has. With --after it has only what changed behind an id; keys that ended meanwhile
    have no fields.

    \b
    A table:         headgate-pipeline changes --streams stock
    As it was:       headgate-pipeline changes --streams stock --as-of 1795972347165-0
    What changed:    headgate-pipeline changes --streams stock --after 1795972347165-0
    The price now:   headgate-pipeline changes --streams stocks --key symbol
    As Parquet:      headgate-pipeline changes --streams users --key id --deleted op=delete \\
                       --lake lake --out users.parquet
    """
)
@options("streams", "pattern", "lake?", "master", "verbose", "on_spark")
@click.option("--key", help="Fields that say whose state it is, by comma.  [those of tables]")
@click.option("--deleted", metavar="FIELD=VALUE", help="An entry with this value ends its key.")
@click.option("--after", type=_Id(), default=BEGINNING, help="Only what changed behind this id.")
@click.option("--as-of", type=_Id(), help="Only entries up to this id.  [the last one there is]")
@click.option("--out", help="Write Parquet here instead of saying the rows.")
def main(
    flags: Flags,
    *,
    key: str | None,
    deleted: str | None,
    after: str,
    as_of: str | None,
    out: str | None,
) -> None:
    """Say the latest state."""
    chosen = _rule(key, deleted)
    if out is not None:
        check_out(out)
    with flags.client() as client:
        streams, total, places = chosen_by(flags, client, after, as_of)
        rules = _rules(client, streams, chosen)
        if as_of is not None:
            _check_past(flags, client, streams, as_of)
    progress = ProgressLine("changes", total)
    way = way_of(flags, "changes", total, progress)
    names = chosen.fields or [KEY]
    keys = [f"key_{number}" for number in range(len(names))]
    columns = [*((name, pa.string()) for name in (*keys, "whose", "place")), ("entry", _ENTRY)]
    task = partial(_keyed, rules=rules, schema=pa.schema(columns))
    rows = way.rows(places, task, pa.schema(columns))
    named = [*names, *(f"_{name}" if name in names else name for name in _OWN)]
    wanted = "NOT entry.is_end" if after == BEGINNING else "true"
    given = {"names": named, "key": ", ".join(keys), "rows": rows, "wanted": wanted}
    if out is not None:
        written = way.write(out, _LATEST, **given)
        shown: list[dict[str, object]] = [{"keys": written, "out": out}]
    else:
        shown = rows_of(way.table(_LATEST, limit=_SHOWN_MAX, **given))
    progress.finish()
    answer(shown, as_json=flags.as_json, nothing="no entry has this key")


def _rule(key: str | None, deleted: str | None) -> _Rule:
    """Return what a person chose; without fields it is what each stream says."""
    names = [] if key is None else [name.strip() for name in key.split(",")]
    if not all(names):
        raise click.BadParameter("names of fields, separated by commas", param_hint="--key")
    if deleted is None:
        return _Rule(names, None, is_of_table=key is None)
    field, _, value = deleted.partition("=")
    if not field or not value:
        raise click.BadParameter("a field and its value, as op=delete", param_hint="--deleted")
    return _Rule(names, (field, value), is_of_table=key is None)


def _check_past(flags: Flags, client: Client, streams: Sequence[str], as_of: str) -> None:
    """Check that nothing up to `as_of` is still to come, and that nothing is gone."""
    for stream in streams:
        info = client.stream(stream).info()
        last_id = info["last_id"]
        if is_before(last_id, as_of):
            raise click.ClickException(f"{as_of} is behind the last id of {stream!r}, {last_id}")
        if info["length"] < info["entries_added"] and as_of != last_id and not flags.lake:
            raise click.ClickException(
                f"entries of {stream!r} were trimmed or deleted, so its rows as of {as_of} may"
                " have been others: --lake reads what the stream has no longer"
            )


def _rules(client: Client, streams: Sequence[str], chosen: _Rule) -> dict[str, _Rule]:
    """Return the rule of each stream."""
    if not chosen.is_of_table:
        return dict.fromkeys(streams, chosen)
    rules = {}
    for stream in streams:
        fields = row_fields(client.stream(stream).info()["config"])
        if fields is None:
            raise click.UsageError(f"{stream!r} is no table, as it has no key_field: give --key")
        ending = chosen.ending or (fields.tombstone, None)
        rules[stream] = chosen._replace(fields=[fields.key], ending=ending)
    return rules


def _keyed(
    batches: Iterable[pa.RecordBatch], rules: Mapping[str, _Rule], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield entries with their key in columns; those without the key are left out.

    Args:
        batches: of entries, in any order.
        rules: by stream.
        schema: of the rows.
    """
    for batch in batches:
        streams = batch.column("stream")
        for stream in pc.unique(streams).to_pylist():
            if stream in rules:  # others came later
                yield _keyed_by(rules[stream], batch.filter(pc.equal(streams, stream)), schema)


def _keyed_by(rule: _Rule, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    fields = batch.column("fields")
    raw = [values_of(fields, name) for name in rule.fields]
    ids, streams = batch.column("id"), batch.column("stream")
    if rule.is_of_table:
        is_kept = is_key(raw[0])
        texts = [None if key is None else key_text(key) for key in raw[0].to_pylist()]
        keys = [pa.array(texts, pa.string())]
        whose = streams
    else:
        is_kept = reduce(pc.and_, [column.is_valid() for column in raw])
        keys = [decoded(values) for values in raw]
        whose = pa.repeat("", len(batch))  # the key is that of all streams
    places = pc.binary_join_element_wise(places_of(ids), streams, " ")
    own = [streams, ids, batch.column("timestamp"), texts_of(fields), _ends(rule, fields)]
    entries = pa.StructArray.from_arrays(own, fields=list(_ENTRY))
    columns = [*keys, whose, places, entries]
    return pa.RecordBatch.from_arrays(columns, schema=schema).filter(is_kept)


def _ends(rule: _Rule, fields: pa.ListArray) -> pa.Array:
    """Tell which entries end their key."""
    if rule.ending is None:
        return pa.repeat(False, len(fields))
    name, text = rule.ending
    values = values_of(fields, name)
    if text is None:
        return values.is_valid()
    return pc.equal(decoded(values), text).fill_null(False)
