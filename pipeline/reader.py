"""Readers of streams: one for present entries, one for entries as they come.

Planning runs on the driver and asks the gateway how far to read; a task reads a range of ids, which
stays the same however often the task is retried.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headgate.client import AnswerLost, Cursor, Gap, Plan
from headgate.client.problems import StreamNotFound
from headgate.pipeline.connection import STREAMS_MAX
from headgate.pipeline.filters import Bounds, bounds_of, condition_of
from headgate.pipeline.lake import Lake
from headgate.pipeline.offsets import (
    BEGINNING,
    EARLIEST,
    LATEST,
    Offset,
    Position,
    Range,
    earlier,
    is_before,
    just_before,
    later,
    literal_prefix,
    offset_of,
    packed,
    parse_id,
    parts_of,
    positions_of,
    resolve,
)
from headgate.pipeline.options import ReadOptions, TableOptions
from headgate.pipeline.rows.ahead import ahead
from headgate.pipeline.rows.latest import Latest, RowFields, row_fields
from headgate.pipeline.rows.schema import Rows

WAIT_MS = 400  # of a query with nothing to do: two or three requests a second
_FIRST = "0-1"  # the smallest id an entry can have
_NEW_STREAMS_S = 1.0  # how often new streams of a pattern are looked for


class StreamMissing(LookupError):
    pass


class DataLoss(RuntimeError):
    """Entries that were to be read are gone; the text says which."""


class TableError(ValueError):
    """There is no such table, or not yet as of this id."""


@dataclass
class Task(InputPartition):
    ranges: tuple[Range, ...]


@dataclass
class TableTask(Task):
    """The ranges are all of one stream, in order."""

    stream: str
    fields: RowFields


class _Reader:
    """What batch and streaming reads share.

    Planning runs on the driver, `read` in a task: the object is pickled in between.
    """

    def __init__(self, options: ReadOptions, rows: Rows) -> None:
        self._options = options
        self._connection = options.connection
        self._rows = rows
        self._condition: list[Any] | None = None  # on fields, for the gateway
        fields = rows.fields
        self._columns = None if fields is None else list(fields)  # likewise

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for span, batch in self._entries(partition):
            yield self._rows.of(span.stream, batch)

    def _entries(self, partition: InputPartition) -> Iterator[tuple[Range, pa.RecordBatch]]:
        with self._connection:  # a worker that goes on to another task keeps nothing of this one
            for span in partition.ranges if isinstance(partition, Task) else ():
                entries = self._from_lake(span) if span.is_cold else self._from_gateway(span)
                for batch in ahead(entries):
                    yield span, batch

    def close(self) -> None:
        self._connection.close()

    def _from_gateway(self, span: Range) -> Generator[pa.RecordBatch]:
        """Yield the entries of a range; after a lost connection go on behind the last one."""
        after = span.after
        deadline = time.monotonic() + self._connection.retry_s
        stream = self._connection.client.stream(span.stream)
        while is_before(after, span.to):
            try:
                batches = stream.batches(
                    start=f"({after}",
                    end=span.to,
                    compression=self._options.compression,
                    columns=self._columns,
                    filter=self._condition,
                )
            except StreamNotFound:
                self._lost(f"the stream {span.stream!r} was deleted while it was read")
                return
            with batches:
                if span.epoch is not None and batches.epoch != span.epoch:
                    self._lost(f"the stream {span.stream!r} was begun anew while it was read")
                    return
                if batches.gap_to is not None:
                    yield from self._instead_of(span, after, earlier(batches.gap_to, span.to))
                try:
                    for batch in batches:
                        yield batch
                        after = batch.column("id")[-1].as_py()
                        deadline = time.monotonic() + self._connection.retry_s
                except AnswerLost:
                    if time.monotonic() > deadline:
                        raise
                    continue
            return

    def _instead_of(self, span: Range, after: str, to: str) -> Iterator[pa.RecordBatch]:
        lost = self._cold(span.stream, span.epoch, after, to)
        for cold in lost:
            yield from self._from_lake(cold)

    def _from_lake(self, span: Range) -> Generator[pa.RecordBatch]:
        assert self._options.cold_tier is not None
        yield from Lake(self._options.cold_tier).arrow(span.stream, after=span.after, to=span.to)

    # Planning, on the driver.

    def _names(self) -> list[str]:
        if self._options.subscribe is not None:
            return list(self._options.subscribe)
        pattern = self._options.pattern or ""
        prefix = literal_prefix(pattern)
        streams = self._connection.client.streams(prefix=prefix, limit=STREAMS_MAX)
        return [each["name"] for each in streams if re.fullmatch(pattern, each["name"])]

    def _present(self, names: Sequence[str]) -> dict[str, Plan]:
        """Return a plan of all present entries; raises StreamMissing for a named stream."""
        # Behind 0-0 is whatever there is; only a later cursor is told what was trimmed.
        current = self._connection.client.plan([Cursor(name, _FIRST) for name in names])
        plans = {
            plan.stream: plan._replace(
                after=BEGINNING, backlog=plan.backlog + (plan.first_id == _FIRST)
            )
            for plan in current
        }
        missing = [name for name, plan in plans.items() if plan.epoch is None]
        if missing and self._options.subscribe is not None:
            raise StreamMissing(
                f"no such stream: {', '.join(missing)} at {self._connection.url}. "
                "subscribePattern also reads streams that come to be later"
            )
        return {name: plan for name, plan in plans.items() if plan.epoch is not None}

    def _start(self, plan: Plan, otherwise: str) -> str:
        """Return the id to begin behind, for a stream that was not read before."""
        bound = self._options.start if self._options.start is not None else otherwise
        after = self._options.start_after or resolve(
            bound, plan.stream, last_id=plan.last_id or BEGINNING, otherwise=otherwise
        )
        if self._options.start_after is None and not isinstance(bound, str):
            word = bound.get(plan.stream, otherwise)
            if word not in {EARLIEST, LATEST}:
                return after  # behind this very id, so what was trimmed there is lost
        if plan.gap is not None and self._options.cold_tier is None:
            return later(after, plan.gap.last_id)
        return after

    def _cold(self, stream: str, epoch: str | None, after: str, to: str) -> list[Range]:
        """Return ranges of the lake for trimmed entries; what it lacks is `_lost`."""
        lost = f"entries of {stream!r} behind {after} up to {to} were trimmed before they were read"
        if self._options.cold_tier is None:
            self._lost(lost)
            return []
        lake = Lake(self._options.cold_tier)
        held = lake.held(stream)
        if held is None or (epoch is not None and held.epoch != epoch):
            self._lost(f"{lost}, and the lake has none of them")
            return []
        if is_before(after, held.after) and after != BEGINNING:
            self._lost(f"{lost}, and the lake begins behind {held.after}")
        if is_before(held.to, to):
            self._lost(f"{lost}, and the lake ends at {held.to}")
        end = earlier(to, held.to)
        files = lake.files_in_order(stream, after=after, to=end)
        share = self._options.partition_entries_max
        ranges: list[Range] = []
        begin, count = after, 0
        for file in files:
            cut = str(just_before(parse_id(file.first_id)))
            if count and count + file.row_count > share and is_before(begin, cut):
                ranges.append(Range(stream, begin, cut, epoch, count, is_cold=True))
                begin, count = cut, 0
            count += file.row_count
        if is_before(begin, end):
            ranges.append(Range(stream, begin, end, epoch, count, is_cold=True))
        return ranges

    def _hot(self, ranges: Sequence[Range]) -> list[Range]:
        parts, _ = parts_of(
            [span.entries for span in ranges],
            entries_max=self._options.partition_entries_max,
            parts_min=self._options.partitions_min,
        )
        cut: list[Range] = []
        for span, count in zip(ranges, parts, strict=True):
            if count <= 1:
                cut.append(span)
                continue
            stream = self._connection.client.stream(span.stream)
            splits = stream.splits(after=span.after, to=span.to, parts=min(count, 10_000))
            cut += [
                replace(span, after=split.after, to=split.to, entries=split.entries)
                for split in splits
            ]
        return cut

    def _tasks(self, hot: Sequence[Range], cold: Sequence[Range]) -> list[Task]:
        counts = [span.entries for span in (*cold, *hot)]
        _, share = parts_of(
            counts,
            entries_max=self._options.partition_entries_max,
            parts_min=self._options.partitions_min,
        )
        return [Task(ranges) for ranges in packed([*cold, *self._hot(hot)], share)]

    def _counted(self, span: Range) -> Range:
        """Return the range with its number of entries, which the gateway is asked for."""
        stream = self._connection.client.stream(span.stream)
        splits = stream.splits(after=span.after, to=span.to, parts=1)
        return replace(span, entries=sum(split.entries for split in splits))

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"{what}. failOnDataLoss=false (--allow-gap) goes on without them, and coldTier"
                " reads from a lake what a stream no longer has"
            )


class BatchReader(_Reader, DataSourceReader):
    """Reads the entries that are there when the query is planned."""

    _bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        names = [name for name in self._names() if self._bounds.has_stream(name)]
        plans = self._present(names) if names else {}
        hot: list[Range] = []
        cold: list[Range] = []
        for name, plan in plans.items():
            last_id = plan.last_id or BEGINNING
            to = self._options.end_at or resolve(
                self._options.end, name, last_id=last_id, otherwise=LATEST
            )
            to = earlier(last_id, last_id if to == LATEST else to)
            after = self._start(plan, EARLIEST)
            after, to = self._bounds.narrowed(after, to, plan.first_id, last_id)
            if not is_before(after, to):
                continue
            if plan.gap is not None and is_before(after, plan.gap.last_id):
                end = earlier(plan.gap.last_id, to)
                cold += self._cold(name, plan.epoch, after, end)
                after = end
            if is_before(after, to):
                span = Range(name, after, to, plan.epoch, plan.backlog)
                is_whole = to == last_id and not is_before(plan.after, after)
                hot.append(span if is_whole else self._counted(span))
        return self._tasks([span for span in hot if span.entries], cold)


class FilteringReader(BatchReader):
    """Asks the gateway only for what filters on stream, ms, id, timestamp and fields let through.

    Spark refuses such a reader unless `spark.sql.python.filterPushdown.enabled` is true. It also
    keeps what the first filter narrowed with the DataFrame, for whatever is read from it later: so
    this is only for users who say that they filter once.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take filters that narrow the ranges; Spark checks every row again all the same."""
        self._bounds = bounds_of(filters, is_entries=self._rows.is_entries)
        self._condition = condition_of(filters, self._rows.fields or {})
        return filters


class TableReader(_Reader, DataSourceReader):
    """Reads the latest entry of each key; a task for each stream.

    No task can take rows from another one. So one task reads all entries of a stream, which come in
    the order of their ids, and drops those that have newer ones.
    """

    def __init__(self, options: ReadOptions, table: TableOptions, rows: Rows) -> None:
        super().__init__(options, rows)
        self._table = table

    def partitions(self) -> Sequence[InputPartition]:
        return [self._task(plan) for plan in self._present(self._names()).values()]

    def _task(self, plan: Plan) -> TableTask:
        info = self._connection.client.stream(plan.stream).info()
        fields = row_fields(info["config"], self._table.key_field, self._table.tombstone_field)
        if fields is None:
            raise TableError(
                f"the stream {plan.stream!r} is no table, as it has no key_field: set it, or give"
                " the option keyField"
            )
        last_id = plan.last_id or BEGINNING
        to = self._table.as_of or last_id
        if is_before(last_id, to):
            raise TableError(
                f"asOf: {to} is behind the last id of the stream {plan.stream!r}, {last_id}: its"
                " rows may change until then"
            )
        has_all = info["length"] == info["entries_added"] or self._options.cold_tier is not None
        if is_before(to, last_id) and not has_all:
            self._lost(
                f"entries of {plan.stream!r} were trimmed or deleted, so its rows as of {to} may"
                " have been others"
            )
        after = self._held_to(plan, to)
        cold = self._cold(plan.stream, plan.epoch, BEGINNING, after) if after != BEGINNING else []
        hot = [Range(plan.stream, after, to, plan.epoch)] if is_before(after, to) else []
        return TableTask((*cold, *hot), plan.stream, fields)

    def _held_to(self, plan: Plan, to: str) -> str:
        """Return the id up to which the lake is read.

        It is read as far as it goes, as a stream may have lost entries in its middle.
        """
        if self._options.cold_tier is None:
            return BEGINNING
        held = Lake(self._options.cold_tier).held(plan.stream)
        end = held.to if held is not None and held.epoch == plan.epoch else BEGINNING
        if plan.gap is not None:
            end = later(end, plan.gap.last_id)
        return earlier(end, to)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TableTask)
        if self._columns is not None:
            self._columns = [*dict.fromkeys([*self._columns, *partition.fields])]
        latest = Latest(*partition.fields)
        for _, batch in self._entries(partition):
            latest.add(batch)
        for batch in latest.rows():
            yield self._rows.of(partition.stream, batch)


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, rows: Rows) -> None:
        super().__init__(options, rows)
        self._target: dict[str, Position] | None = None  # of AvailableNow
        self._planned: dict[tuple[str, str, str], tuple[int, Gap | None]] = {}
        self._latest: dict[str, Position] = {}
        self._seen: list[str] = []
        self._seen_at_s = -_NEW_STREAMS_S

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the first offset of a query without a checkpoint."""
        plans = self._present(self._names())
        return offset_of(
            {name: Position(self._start(plan, LATEST), plan.epoch) for name, plan in plans.items()}
        )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.trigger_entries_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note the current ends of the streams: the query reads no further."""
        plans = self._present(self._names())
        self._target = {
            name: Position(plan.last_id or BEGINNING, plan.epoch) for name, plan in plans.items()
        }

    def latestOffset(self, start: dict, limit: ReadLimit) -> Offset:  # type: ignore[type-arg]  # noqa: N802
        """Return the end of the next micro-batch; wait up to WAIT_MS for an entry."""
        positions = positions_of(start)
        names = self._current_names(positions)
        positions = {name: positions.get(name, Position(BEGINNING)) for name in names}
        asked = [
            Cursor(name, position.id, position.epoch)
            for name, position in positions.items()
            if self._target is None
            or (name in self._target and is_before(position.id, self._target[name].id))
        ]
        limit_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        wait_ms = WAIT_MS if self._target is None else 0
        plans = self._plans(asked, max_entries=limit_rows, wait_ms=wait_ms) if asked else []
        self._planned.clear()
        moved = dict(positions)
        for plan in plans:
            position = self._moved(plan, positions[plan.stream])
            moved[plan.stream] = position
            if plan.last_id is not None:
                self._latest[plan.stream] = Position(plan.last_id, plan.epoch)
        known = positions_of(start)
        return offset_of(
            {
                name: position
                for name, position in moved.items()
                if name in known or position.id != BEGINNING
            }
        )

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the ends of the streams, as far as they are known."""
        return offset_of(self._latest) or None

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:  # type: ignore[type-arg]
        begin = positions_of(start)
        ranges = []
        for name, position in positions_of(end).items():
            old = begin.get(name, Position(BEGINNING))
            is_anew = None not in {old.epoch, position.epoch} and old.epoch != position.epoch
            after = BEGINNING if is_anew else old.id
            if is_before(after, position.id):
                ranges.append(Range(name, after, position.id, position.epoch))
        self._plan_again([span for span in ranges if _key(span) not in self._planned])
        hot: list[Range] = []
        cold: list[Range] = []
        for span in ranges:
            entries, gap = self._planned[_key(span)]
            after = span.after
            if gap is not None and is_before(after, gap.last_id):
                after = earlier(gap.last_id, span.to)
                cold += self._cold(span.stream, span.epoch, span.after, after)
            if entries:
                hot.append(replace(span, after=after, entries=entries))
        return self._tasks(hot, cold)

    def stop(self) -> None:
        self.close()

    def _current_names(self, positions: Mapping[str, Position]) -> list[str]:
        """Return the streams to read: known ones, and new ones that match."""
        pattern = self._options.pattern
        if pattern is None:
            return self._names()
        if self._target is not None:
            self._seen = list(self._target)
        elif time.monotonic() - self._seen_at_s >= _NEW_STREAMS_S:
            self._seen = self._names()
            self._seen_at_s = time.monotonic()
        known = [name for name in positions if re.fullmatch(pattern, name)]
        return sorted({*self._seen, *known})

    def _plans(
        self, cursors: Sequence[Cursor], *, max_entries: int | None = None, wait_ms: int = 0
    ) -> list[Plan]:
        """Return the next plans; with a lake, trimmed entries are to be read, too."""
        client = self._connection.client
        plans = client.plan(cursors, max_entries=max_entries, wait_ms=wait_ms)
        if self._options.cold_tier is None:
            return plans
        # Behind 0-0 is whatever there is; only a later cursor is told what was trimmed.
        begun = [
            Cursor(plan.stream, _FIRST, plan.epoch)
            for plan in plans
            if plan.after == BEGINNING and plan.epoch is not None
        ]
        gaps = {plan.stream: plan.gap for plan in client.plan(begun)} if begun else {}
        known = [plan._replace(gap=gaps.get(plan.stream, plan.gap)) for plan in plans]
        return [
            plan if plan.gap is None else plan._replace(end=later(plan.end, plan.gap.last_id))
            for plan in known
        ]

    def _moved(self, plan: Plan, old: Position) -> Position:
        """Return the new position in a stream, and note the number of entries before it."""
        if plan.epoch is None:
            if old.epoch is not None:
                self._lost(f"the stream {plan.stream!r}, read up to {old.id}, was deleted")
            return old
        after = old.id
        end, entries = plan.end, plan.entries
        if old.epoch is not None and plan.epoch != old.epoch:
            self._lost(
                f"the stream {plan.stream!r}, read up to {old.id}, was deleted and begun anew"
            )
            after = BEGINNING
        elif end == after:
            return old
        target = None if self._target is None else self._target.get(plan.stream)
        new = Position(end, plan.epoch)
        if target is not None and target.epoch == plan.epoch and is_before(target.id, end):
            return Position(target.id, plan.epoch)  # how much that is, is asked when it is cut
        self._planned[plan.stream, after, new.id] = (entries, plan.gap)
        return new

    def _plan_again(self, ranges: Sequence[Range]) -> None:
        """Note entry counts of ranges planned before a restart, or by their end."""
        if not ranges:
            return
        plans = self._plans([Cursor(span.stream, span.after, span.epoch) for span in ranges])
        for span, plan in zip(ranges, plans, strict=True):
            if plan.epoch is None or (span.epoch is not None and plan.epoch != span.epoch):
                self._lost(
                    f"the stream {span.stream!r} was deleted before its entries behind "
                    f"{span.after} up to {span.to} were read"
                )
                self._planned[_key(span)] = (0, None)
            else:
                self._planned[_key(span)] = (self._counted(span).entries, plan.gap)


def _key(span: Range) -> tuple[str, str, str]:
    return (span.stream, span.after, span.to)
