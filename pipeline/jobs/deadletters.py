"""Dead letters: entries that no consumer could settle; show them, or send them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click
import pyarrow as pa
import pyarrow.compute as pc

from headgate.client.blocking import Client
from headgate.pipeline.computing.entries import TEXTS, TIME, chosen_by, texts_of, values_of
from headgate.pipeline.computing.ways import check_out, rows_of, way_of
from headgate.pipeline.rows.casts import decoded
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

_REDRIVEN_AT_ONCE = 1000
_SHOWN_MAX = 10_000
_ORIGIN = ("_stream", "_id", "_group", "_deliveries", "_reason", "_error")
_DEAD_LETTERS = pa.schema(
    [
        *(("stream", pa.string()), ("id", pa.string()), ("timestamp", TIME)),
        *((name, pa.string()) for name in ("origin", "origin_id", "group")),
        *(("deliveries", pa.int64()), ("reason", pa.string()), ("error", pa.string())),
        ("fields", TEXTS),
    ]
)
_ALL = "SELECT * FROM {letters} ORDER BY timestamp NULLS FIRST, id"
_ORIGINS = "SELECT DISTINCT of.origin, of.group FROM {letters} AS of ORDER BY 1, 2"


@click.command(
    help="""Dead letters as a table: what they were, where they came from and why they are here.

    --streams names the streams that dead letters went to (a group's policy says which). With
    --redrive each goes back to the group it came from, which gets it as if it were new.

    \b
    What is there:   headgate-pipeline deadletters --streams orders-dead
    As a table:      headgate-pipeline deadletters --pattern '.*-dead' --out dead.parquet
    Back with them:  headgate-pipeline deadletters --streams orders-dead --redrive
    """
)
@options("streams", "pattern", "master", "verbose", "on_spark", "dry_run")
@click.option("--redrive", is_flag=True, help="Send them back to where they came from.")
@click.option("--out", help="Write Parquet here instead of saying the rows.")
def main(flags: Flags, *, redrive: bool, out: str | None) -> None:
    """Say dead letters, or send them back."""
    if out is not None:
        check_out(out)
    with flags.client() as client:
        _, total, places = chosen_by(flags, client)
        progress = ProgressLine("deadletters", total)
        way = way_of(flags, "deadletters", total, progress)
        letters = way.kept(way.rows(places, _dead_letters_of, _DEAD_LETTERS))
        rows: list[dict[str, object]] = []
        if out is not None:
            way.write(out, _ALL, letters=letters)
            rows = [{"dead_letters": total, "out": out}]
        elif not redrive:
            rows = rows_of(way.table(_ALL, limit=_SHOWN_MAX, letters=letters))
        origins = way.table(_ORIGINS, letters=letters).to_pylist() if redrive else []
        progress.finish()
        if redrive:
            rows = _redriven(client, origins, total, dry_run=flags.dry_run)
    answer(rows, as_json=flags.as_json, nothing="no dead letters")


def _redriven(
    client: Client, origins: Sequence[Mapping[str, str]], total: int, *, dry_run: bool
) -> list[dict[str, object]]:
    progress = ProgressLine("deadletters", total, "redriven")
    rows = [
        {**row, "redriven": 0 if dry_run else _redrive(client, **row, progress=progress)}
        for row in origins
    ]
    progress.finish()
    return rows


def _dead_letters_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield dead letters with their origin in columns, and the fields they came with.

    Entries that are no dead letters are left out.
    """
    for batch in batches:
        fields = batch.column("fields")
        values = [decoded(values_of(fields, name)) for name in _ORIGIN]
        is_number = pc.match_substring_regex(values[3], r"^[+-]?[0-9]{1,18}$")
        values[3] = pc.if_else(is_number, values[3], pa.scalar(None, pa.string())).cast(pa.int64())
        columns = [batch.column(name) for name in ("stream", "id", "timestamp")]
        dead_letters = pa.RecordBatch.from_arrays(
            [*columns, *values, texts_of(fields, _ORIGIN)], schema=_DEAD_LETTERS
        )
        yield dead_letters.filter(pc.and_(values[0].is_valid(), values[2].is_valid()))


def _redrive(client: Client, origin: str, group: str, progress: ProgressLine) -> int:
    count = 0
    while True:
        results = client.group(origin, group).redrive(limit=_REDRIVEN_AT_ONCE)
        count += len(results)
        progress.advance(len(results))
        if len(results) < _REDRIVEN_AT_ONCE:
            return count
