"""A range of the lake or of a stream, appended to a stream once more."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from headgate.client import Cursor
from headgate.client.blocking import Client
from headgate.pipeline.checkpoint import Checkpoint
from headgate.pipeline.jobs.entries import pairs, read_range, texts
from headgate.pipeline.lake import Lake
from headgate.pipeline.memory import replay as in_memory
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

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SLICE_ENTRIES_MAX = 50_000
_SLICES_MAX = 10_000
_WRITE_S = 1.0  # of a limited rate, so much is written at once


class Slice(NamedTuple):
    """A slice of a replay: entries behind `after`, up to and with `to`."""

    stream: str
    after: str
    to: str
    entries: int


class ReplayPlan(NamedTuple):
    """The slices of a replay, and its name; the same however often it is run.

    Attributes:
        job_id: the gateway knows by it which slices are done.
        slices: in order.
    """

    job_id: str
    slices: list[Slice]

    @classmethod
    def begin(
        cls, flags: Flags, purpose: Mapping[str, str], after: str, to: str, size: int
    ) -> ReplayPlan:
        """Return the plan of the checkpoint; make it, and keep it there, if there is none yet."""
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
    if where is None and flags.fits_into_memory("replay", total):
        way = partial(in_memory.replay, rename=names, keep_ids=ids == "same")
    else:
        spark = flags.spark("replay")
        way = partial(_replay, spark, where=where, rename=names, keep_ids=ids == "same")
    due_s = time.monotonic()
    for number, part in enumerate(slices):
        if rate is not None:  # what a slow write left undone is not made up for
            time.sleep(max(0.0, due_s - time.monotonic()))
            due_s = time.monotonic() + part.entries / rate
        to_stream = target.replace("{stream}", part.stream)
        writing = {"stream": to_stream, "jobId": plan.job_id, "jobBatch": str(number)}
        way(flags, part.stream, part.after, part.to, writing)
        progress.advance(part.entries)
    progress.finish()
    answer([row], as_json=flags.as_json)


def _replay(
    spark: SparkSession,
    flags: Flags,
    stream: str,
    after: str,
    to: str,
    target: Mapping[str, str],
    *,
    where: str | None,
    rename: Mapping[str, str],
    keep_ids: bool,
) -> None:
    """Append a slice with Spark; see `memory/replay.py`."""
    if flags.lake:
        entries = Lake(flags.lake).read(spark, [stream], after=after, to=to)
    else:
        entries = read_range(spark, flags, stream, after, to)
    rows = transform(entries, where=where, rename=rename, keep_ids=keep_ids)
    writer = rows.write.format("headgate").mode("append")
    writer.options(**flags.connection(), **target).save()


def transform(
    entries: DataFrame,
    *,
    where: str | None = None,
    rename: Mapping[str, str] | None = None,
    keep_ids: bool = False,
) -> DataFrame:
    """Return entries as they are to be appended, in order.

    Args:
        entries: rows of the lake or of a stream.
        where: condition in SQL; `fields` is a map of text there.
        rename: new name by old name of a field; order and repeats stay.
        keep_ids: with their ids.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    every = pairs(entries)
    if where is not None:
        entries = (
            entries.withColumn("_pairs", every).withColumn("fields", texts(every)).where(where)
        )
        every = F.col("_pairs")
    names = dict(rename or {})

    def renamed(pair: Column) -> Column:
        name = pair["name"]
        for old, new in names.items():
            name = F.when(pair["name"] == old, F.lit(new)).otherwise(name)
        return F.struct(name.alias("name"), pair["value"].alias("value"))

    if names:
        every = F.transform(every, renamed)
    ordered = entries.orderBy("ms", F.col("seq").asc_nulls_last())
    return ordered.select(*(["id"] if keep_ids else []), every.alias("fields"))


def slices_of(
    client: Client, lake: Lake | None, stream: str, after: str, to: str, size: int
) -> list[Slice]:
    """Return a range of a stream in pieces of about so many entries."""
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
    """Cut between files: what their names and sizes say is enough."""
    slices: list[Slice] = []
    begin, entries = after, 0
    files = lake.files([stream], after=after, to=to)
    for file in sorted(files, key=lambda file: parse_id(file.first_id)):
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
    """Return the id behind which a range begins that is to begin here."""
    if re.fullmatch(r"[0-9]+-[0-9]+", text):
        return str(just_before(parse_id(text)))
    return before_ms(parse_time(text, "--start"))


def _to(text: str) -> str:
    """Return the last id of a range that is to end here."""
    if re.fullmatch(r"[0-9]+-[0-9]+", text):
        return text
    return before_ms(parse_time(text, "--end"))
