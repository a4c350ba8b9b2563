"""Append a range of the lake or of a stream to a stream again."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import click
import pyarrow as pa
import pyarrow.compute as pc

from headgate.client import Cursor
from headgate.client.blocking import Client
from headgate.pipeline.checkpoint import Checkpoint
from headgate.pipeline.computing.entries import (
    PAIRS,
    TEXTS,
    TIME,
    Archived,
    Place,
    flattened,
    places_of,
    range_of,
    texts_of,
)
from headgate.pipeline.computing.ways import way_of
from headgate.pipeline.lake import Lake
from headgate.pipeline.offsets import (
    BEGINNING,
    SEQ_MAX,
    before_ms,
    earlier,
    is_before,
    just_before,
    parse_id,
    parse_time,
)
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

_SLICE_ENTRIES_MAX = 50_000
_SLICES_MAX = 10_000
_WRITE_S = 1.0  # of a limited rate, so much is written at once
_ROWS = pa.schema(
    [
        *(("stream", pa.string()), ("id", pa.string()), ("timestamp", TIME)),
        *(("ms", pa.int64()), ("seq", pa.int64()), ("fields", TEXTS)),
        *(("place", pa.string()), ("pairs", PAIRS)),
    ]
)

_IN_ORDER = "SELECT {columns} FROM {rows} ORDER BY place"


class Slice(NamedTuple):
    """A slice of a replay: the entries in (after, to]."""

    stream: str
    after: str
    to: str
    entries: int


class ReplayPlan(NamedTuple):
    """The slices of a replay in order, and the id by which the gateway knows which are done."""

    job_id: str
    slices: list[Slice]

    @classmethod
    def begin(
        cls, flags: Flags, purpose: Mapping[str, str], after: str, to: str, size: int
    ) -> ReplayPlan:
        """Return the plan kept in the checkpoint, or make one and keep it (not in a dry run)."""
        checkpoint = None if flags.checkpoint is None else Checkpoint(flags.checkpoint)
        if checkpoint is not None and not flags.dry_run:
            checkpoint.claim(purpose)
        noted = None if checkpoint is None else checkpoint.note("plan.json")
        if noted is not None:
            return cls(noted["job_id"], [Slice(*values) for values in noted["slices"]])
        lake = Lake(flags.lake) if flags.lake else None
        with flags.client() as client:
            streams = flags.chosen(client) if lake is None else flags.names()
            slices = [
                part
                for stream in streams
                for part in slices_of(client, lake, stream, after, to, size)
            ]
        plan = cls(f"replay-{uuid.uuid4().hex}", slices)
        if checkpoint is not None and not flags.dry_run:
            checkpoint.keep_note("plan.json", plan._asdict())
        return plan


@click.command(
    help="""Append a range of the lake, or of streams, to a stream.

    \b
    From the lake:   headgate-pipeline replay --lake lake --streams orders --to orders-again
    From a stream:   headgate-pipeline replay --streams orders --to orders-eu \\
                       --where "fields['region'] = 'eu'" --rename sku=article --rate 1000
    To be sure:      … --checkpoint replay-1   and, if it was killed, the same line again

    With --checkpoint each entry is appended exactly once, however often the job is run again. A
    condition (--where) is SQL, and needs Spark.
    """
)
@options("streams", "lake?", "checkpoint", "master", "verbose", "on_spark", "dry_run")
@click.option("--to", "target", required=True, help="Stream to append to; {stream} is its origin.")
@click.option(
    "--ids",
    type=click.Choice(["new", "same"]),
    default="new",
    show_default=True,
    help="Let the stream give new ids, or keep those of the origin.",
)
@click.option("--start", help="First id, or time such as 2026-01-31T12:00:00Z.")
@click.option("--end", help="Last id, or time that all are before.")
@click.option("--where", help="Condition in SQL: columns id, ms, timestamp, stream, fields['…'].")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Give a field another name.")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), help="Entries a second at most."
)  # fmt: skip
def main(
    flags: Flags,
    *,
    target: str,
    ids: str,
    start: str | None,
    end: str | None,
    where: str | None,
    rename: Sequence[str],
    rate: float | None,
) -> None:
    """Replay entries."""
    names = dict(_pair(text) for text in rename)
    after = BEGINNING if start is None else _after(start)
    to = f"{SEQ_MAX}-{SEQ_MAX}" if end is None else _to(end)
    if flags.streams is None:
        raise click.UsageError("which streams? Give --streams")
    size = _SLICE_ENTRIES_MAX
    if rate is not None:
        size = max(1, min(size, int(rate * _WRITE_S)))
    purpose = {
        "job": "replay", "streams": flags.streams, "lake": flags.lake, "to": target, "ids": ids,
        "start": start or "", "end": end or "", "where": where or "", "rename": " ".join(rename),
    }  # fmt: skip
    plan = ReplayPlan.begin(flags, purpose, after, to, size)
    slices = plan.slices
    total = sum(part.entries for part in slices)
    row = {"to": target, "slices": len(slices), "entries_read_max": total}
    if flags.dry_run:
        answer([row], as_json=flags.as_json)
        return
    progress = ProgressLine("replay", total)
    # A condition is SQL of Spark.
    way = way_of(flags if where is None else replace(flags, on_spark=True), "replay", total)
    columns = "id, pairs AS fields" if ids == "same" else "pairs AS fields"
    task = partial(_renamed, names=names, has_texts=where is not None)
    due_s = time.monotonic()
    for number, part in enumerate(slices):
        if rate is not None:  # what a slow write left undone is not made up for
            time.sleep(max(0.0, due_s - time.monotonic()))
            due_s = time.monotonic() + part.entries / rate
        to_stream = target.replace("{stream}", part.stream)
        writing = {"stream": to_stream, "jobId": plan.job_id, "jobBatch": str(number)}
        span: Place = range_of(flags, part.stream, part.after, part.to)
        if flags.lake:
            span = Archived(Lake(flags.lake), {part.stream: (part.after, part.to)})
        rows = way.rows([span], task, _ROWS)
        if where is not None:
            rows = rows.where(where)
        way.append(flags.connection() | writing, _IN_ORDER, columns=columns, rows=rows)
        progress.advance(part.entries)
    progress.finish()
    answer([row], as_json=flags.as_json)


def _renamed(
    batches: Iterable[pa.RecordBatch], names: Mapping[str, str], *, has_texts: bool
) -> Iterator[pa.RecordBatch]:
    """Yield entries as they are to be appended.

    Args:
        batches: of entries.
        names: new name by old name of a field; order and repeats stay.
        has_texts: for a condition, fields are a map of text besides, under their old names.
    """
    for batch in batches:
        fields = batch.column("fields")
        _, old, values = flattened(fields)
        coded = old.dictionary_encode()
        new = [names.get(name, name) for name in coded.dictionary.to_pylist()]
        renamed = [pa.array(new, pa.string()).take(coded.indices), values]
        pairs = pa.ListArray.from_arrays(
            pc.subtract(fields.offsets, fields.offsets[0]),
            pa.StructArray.from_arrays(renamed, fields=list(PAIRS.value_type)),
        )
        texts = texts_of(fields) if has_texts else pa.nulls(len(batch), TEXTS)
        columns = [batch.column(name) for name in ("stream", "id", "timestamp", "ms", "seq")]
        places = places_of(batch.column("id"))
        yield pa.RecordBatch.from_arrays([*columns, texts, places, pairs], schema=_ROWS)


def slices_of(
    client: Client, lake: Lake | None, stream: str, after: str, to: str, size: int
) -> list[Slice]:
    if lake is not None:
        return _lake_slices(lake, stream, after, to, size)
    plan = client.plan([Cursor(stream, after)])[0]
    if plan.last_id is None or plan.backlog == 0:
        return []
    parts = min(_SLICES_MAX, -(-plan.backlog // size))
    end = earlier(to, plan.last_id)
    splits = client.stream(stream).splits(after=after, to=end, parts=parts)
    return [Slice(stream, split.after, split.to, split.entries) for split in splits]


def _lake_slices(lake: Lake, stream: str, after: str, to: str, size: int) -> list[Slice]:
    """Cut between files, by their names and sizes alone."""
    slices: list[Slice] = []
    begin, entries = after, 0
    for file in lake.files_in_order(stream, after=after, to=to):
        edge = str(just_before(parse_id(file.first_id)))
        if entries + file.row_count > size and entries and is_before(begin, edge):
            slices.append(Slice(stream, begin, edge, entries))
            begin, entries = edge, 0
        entries += file.row_count
    return [*slices, Slice(stream, begin, to, entries)] if entries else slices


def _pair(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    if not old or not new:
        raise click.BadParameter(f"{text!r} is not OLD=NEW", param_hint="--rename")
    return old, new


def _after(text: str) -> str:
    """Return the id behind which a range begins that starts with an id or at a time."""
    if re.fullmatch(r"[0-9]+-[0-9]+", text):
        return str(just_before(parse_id(text)))
    return before_ms(parse_time(text, "--start"))


def _to(text: str) -> str:
    """Return the last id of a range: an id is inclusive, a time exclusive."""
    if re.fullmatch(r"[0-9]+-[0-9]+", text):
        return text
    return before_ms(parse_time(text, "--end"))
