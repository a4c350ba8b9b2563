"""Archive streams into the lake, each entry exactly once."""

from __future__ import annotations

import json
import signal
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Self

import click

from headgate.client import Cursor, HeadgateError, Plan
from headgate.client.blocking import Client
from headgate.pipeline.checkpoint import Checkpoint
from headgate.pipeline.computing.entries import Live
from headgate.pipeline.lake import Held, Lake, LakeConflict, is_lake
from headgate.pipeline.lakefile import WRITTEN, LakeFile, files_of, write_rows
from headgate.pipeline.offsets import BEGINNING, Position, earlier, is_before
from headgate.pipeline.terminal.flags import Flags, options, text_of
from headgate.pipeline.terminal.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


_OUTAGE_LOOK_S = 5.0
_ANSWER_S = 1.0  # somebody may ask the job to end meanwhile


class OutageWatch:
    """Check the gateway at most every `look_s` seconds; write a line for each change."""

    def __init__(self, job: str, flags: Flags, *, look_s: float = _OUTAGE_LOOK_S) -> None:
        self._job = job
        self._outage_ms = flags.outage_ms
        self._url = flags.url
        self._client = flags.client(retry_s=0, answer_s=_ANSWER_S)
        self._look_s = look_s
        self._looked_s = time.monotonic()
        self._gone_s: float | None = None  # since when it is away

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def look(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s < self._look_s:
            return
        self._looked_s = now_s
        try:
            self._client.ready()
        except HeadgateError as error:
            if self._gone_s is None:
                self._gone_s = now_s
                waits = text_of(self._outage_ms)
                self._say(f"the gateway at {self._url} is away, waiting up to {waits}: {error}")
        else:
            if self._gone_s is not None:
                away_s = round(now_s - self._gone_s)
                self._gone_s = None
                self._say(f"the gateway is back after {away_s} s")

    def _say(self, text: str) -> None:
        click.echo(f"{self._job}: {' '.join(text.splitlines())}", err=True)


_LOOK_S = 1
_QUERY = "headgate/archive"  # writer in the lake's commits of all runs without Spark


@click.command(
    help="""Write streams into the lake, each entry exactly once.

    The lake is begun if it is not there. A run that was killed goes on where it was; a second run
    with another checkpoint writes only what the lake does not have.

    \b
    Once, from cron:   headgate-pipeline archive --streams orders --lake lake
    As a service:      headgate-pipeline archive --pattern 'orders-.*' --lake lake --trigger 5s
    """
)
@options(
    *("streams", "pattern", "lake", "checkpoint", "trigger", "max_offsets", "outage"),
    "master",
    *("on_spark", "verbose", "dry_run"),
)
@click.option("--allow-gap", is_flag=True, help="Go on if entries are gone that were to be read.")
def main(flags: Flags, *, allow_gap: bool) -> None:
    """Archive streams."""
    with flags.client() as client:
        streams = flags.chosen(client)
        lake = None
        if not flags.dry_run or is_lake(flags.lake):
            lake = Lake.open_or_create(flags.lake)
        start = {}
        for stream, plan in flags.plans(client, streams).items():
            held = None if lake is None else lake.held(stream)
            if held is not None and held.epoch == plan.epoch:
                start[stream] = held.to
        cursors = [Cursor(stream, start.get(stream, BEGINNING)) for stream in streams]
        todo_plans = client.plan(cursors)
        todo = {plan.stream: plan.backlog for plan in todo_plans}
    if flags.dry_run or lake is None:
        rows = [
            {"stream": stream, "after": start.get(stream, BEGINNING), "entries": todo[stream]}
            for stream in streams
        ]
        answer(rows, as_json=flags.as_json)
        return
    total = sum(todo.values()) if flags.trigger == "once" else None
    progress = ProgressLine("archive", total)
    if _may_do_without_spark(flags, lake) and flags.fits_into_memory("archive", total or 0):
        run_here(flags, lake, todo_plans, allow_gap=allow_gap, progress=progress)
    else:
        run(flags, lake, start, allow_gap=allow_gap, progress=progress)
    progress.finish()
    rows = []
    for stream in streams:
        range_held = lake.held(stream)
        rows.append(
            {
                "stream": stream,
                "after": range_held and range_held.after,
                "to": range_held and range_held.to,
            }
        )
    answer(rows, as_json=flags.as_json)


def _may_do_without_spark(flags: Flags, lake: Lake) -> bool:
    """Tell whether no Spark query has a position here, or is to note one."""
    if flags.checkpoint is not None or flags.max_offsets is not None:
        return False
    return not Checkpoint(lake.checkpoint(_query_name(flags))).has_begun


def _query_name(flags: Flags) -> str:
    subscription = flags.streams or flags.pattern or ""
    return f"archive-{zlib.crc32(f'{flags.url} {subscription}'.encode()):08x}"


def run(
    flags: Flags, lake: Lake, start: Mapping[str, str], *, allow_gap: bool, progress: ProgressLine
) -> None:
    """Run the query to its end; `start` ids count only if it has no checkpoint yet."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    subscription = flags.streams or flags.pattern or ""
    checkpoint = Checkpoint(flags.checkpoint or lake.checkpoint(_query_name(flags)))
    checkpoint.claim({"job": "archive", "lake": lake.path, "streams": subscription})
    checkpoint.check()
    spark = flags.spark("archive")
    reader = flags.source(spark.readStream)
    reader = reader.option("startingOffsets", json.dumps(start) if start else "earliest")
    reader = reader.option("failOnDataLoss", str(not allow_gap).lower())
    if flags.max_offsets is not None:
        reader = reader.option("maxOffsetsPerTrigger", flags.max_offsets)

    def write(rows: DataFrame, batch: int) -> None:
        query = checkpoint.query()
        if lake.has_batch(query, batch):
            return
        ranges = ranges_of(
            _positions(start) if batch == 0 else checkpoint.end(batch - 1) or {},
            checkpoint.end(batch) or {},
        )
        held_to = lake.admit(ranges, allow_gap=allow_gap)
        task = partial(write_rows, lake=lake.path, held_to=held_to)
        files = files_of(rows.mapInArrow(task, from_arrow_schema(WRITTEN)).toArrow().to_batches())
        if allow_gap:
            with flags.client(flags.outage_ms / 1000) as client:
                ranges = behind_gaps(client, ranges)
        lake.commit(files, query=query, batch=batch, ranges=ranges)
        progress.advance(sum(file.row_count for file in files))

    writer = reader.load().writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", checkpoint.path).queryName("headgate archive")
    is_one_batch = flags.trigger == "once" and flags.max_offsets is None
    with progress.watching(spark) if is_one_batch else nullcontext():
        until_end("archive", flags, flags.triggered(writer).start())


def run_here(
    flags: Flags, lake: Lake, plans: Sequence[Plan], *, allow_gap: bool, progress: ProgressLine
) -> None:
    """Archive what streams have now behind what is held, in one pass without Spark.

    1. Files are written, which belong to no table yet.
    2. What the lake holds has to be what it held before, or another one archives meanwhile.
    3. One commit makes the files part of the table, and notes what the lake holds. If it fails,
       or the process dies before it, nothing has changed.

    Args:
        flags: say where the gateway is.
        lake: where to.
        plans: how far to read each stream, and behind which id.
        allow_gap: go on where entries are gone.
        progress: counts the entries that are read.

    Raises:
        LakeConflict: another one archives the same streams at this moment.
        DataLoss: entries that were to be archived are gone.
    """
    ranges = {
        plan.stream: Held(plan.epoch, plan.after, plan.end)
        for plan in plans
        if plan.epoch is not None and plan.end != plan.after
    }
    if not ranges:
        return
    batch = lake.next_batch(_QUERY)
    before = {stream: lake.held(stream) for stream in ranges}
    held_to = lake.admit(ranges, allow_gap=allow_gap)
    files: list[LakeFile] = []
    for stream, span in ranges.items():
        options = flags.source_options(stream) | {
            "endingOffsets": json.dumps({stream: span.to}),
            "failOnDataLoss": str(not allow_gap).lower(),
        }
        if span.after != BEGINNING:
            options["startingOffsets"] = json.dumps({stream: span.after})
        files += files_of(write_rows(progress.counted(Live(options).batches()), lake.path, held_to))
    if allow_gap:
        with flags.client() as client:
            ranges = behind_gaps(client, ranges)
    is_alone = before == {stream: lake.held(stream) for stream in before}
    if not is_alone or not lake.commit(files, query=_QUERY, batch=batch, ranges=ranges):
        raise LakeConflict(f"another one archives the same streams into {lake.path}: try again")


def ranges_of(begins: Mapping[str, Position], ends: Mapping[str, Position]) -> dict[str, Held]:
    ranges = {}
    for stream, end in ends.items():
        begin = begins.get(stream, Position(BEGINNING))
        is_same = begin.epoch in {None, end.epoch}
        after = begin.id if is_same else BEGINNING
        if end.epoch is not None and end.id != after:
            ranges[stream] = Held(end.epoch, after, end.id)
    return ranges


def behind_gaps(client: Client, ranges: Mapping[str, Held]) -> dict[str, Held]:
    """Return ranges without their trimmed parts, which may not have been read."""
    kept = dict(ranges)
    for plan in client.plan([Cursor(stream, held.after) for stream, held in ranges.items()]):
        held = kept[plan.stream]
        if plan.gap is not None and is_before(held.after, plan.gap.last_id):
            kept[plan.stream] = held._replace(after=earlier(plan.gap.last_id, held.to))
    return kept


def until_end(job: str, flags: Flags, query: StreamingQuery) -> None:
    """Return once the query has ended; on SIGINT or SIGTERM stop it between two batches."""
    with _asked_to_stop() as asked, OutageWatch(job, flags) as watch:
        while not query.awaitTermination(_LOOK_S):
            watch.look()
            if asked.is_set():
                query.stop()
                return


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    asked = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _positions(start: Mapping[str, str]) -> dict[str, Position]:
    return {stream: Position(after) for stream, after in start.items()}
