"""The client without asyncio. `clients/generate_blocking.py` writes this file."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import httpx

from headgate.client import tables
from headgate.client.automation import Push, Schedule
from headgate.client.blocking.portal import Portal
from headgate.client.blocking.working import Working
from headgate.client.bulk import Attempt, Batches, Compression, Cursor, Filter, Plan, Split, Writer
from headgate.client.channel import Channel, Message, Messages
from headgate.client.client import AsyncClient
from headgate.client.commits import Step
from headgate.client.credential import TokenSource
from headgate.client.entries import Claimed, Delivery, Draft, Entry, Fields, Gap, Pairs, Value
from headgate.client.group import Consuming, Group
from headgate.client.groups import Groups, IdsOfStreams, MissingGroups, OutcomesOfStreams
from headgate.client.job import Job
from headgate.client.shapes.answers import (
    ClosedStream,
    Committed,
    ConsumerInfo,
    GroupInfo,
    GroupKey,
    KeyOrder,
    Members,
    Missed,
    PendingEntry,
    PendingSummary,
    PushAttempt,
    PushBody,
    PushInfo,
    PushReplay,
    PushSignature,
    PushSummary,
    Readiness,
    Redriven,
    ScheduleInfo,
    StreamDetail,
    StreamInfo,
    Ticket,
    TicketVerb,
)
from headgate.client.shapes.settings import OnDisconnect, Policy, StreamConfig
from headgate.client.steps import Duration
from headgate.client.stream import Following, OnClaimed, OnState, Page, Stream
from headgate.client.subscription import Mode, Outcome
from headgate.client.table import Row, RowChange, Table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class BlockingBatches:
    """The entries of a range as record batches: an iterator, and a context that ends it.

    A batch has the columns `id`, `ms`, `seq` and `fields`, a map of bytes. If the connection is
    lost, the iterator goes on behind the last entry that came. It raises `AnswerLost` if it cannot:
    the stream was begun anew meanwhile, or entries that were to come were trimmed.

    Example:
        with hg.stream("orders").batches() as batches:
            for batch in batches:
                print(batch.num_rows)

    Attributes:
        epoch: the life the stream is in.
        last_id: the last id of the stream.
        gap_to: up to and with this id, entries of the range were trimmed; None: none were.
    """

    def __init__(self, inner: Batches, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def epoch(self) -> str:
        """Return the life that the stream is in."""
        return self._inner.epoch

    @property
    def last_id(self) -> str:
        """Return the last id of the stream."""
        return self._inner.last_id

    @property
    def gap_to(self) -> str | None:
        """Return the last trimmed id of the range; None: none was trimmed."""
        return self._inner.gap_to

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._portal.end(self._inner.__aexit__(*error))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self._portal.step(self._inner)

    def close(self) -> None:
        """Close the response; what has not arrived is not sent."""
        self._portal.end(self._inner.aclose())


class BlockingWriter:
    """A named writer of batches. It stages a batch in chunks and commits it as a whole.

    The gateway remembers the last batch number: committing a batch again changes nothing.

    Example:
        writer = hg.writer("import-2026-01")
        writer.stage(0, partition=0, attempt="a", chunk=0, rows=batch, stream="orders")
        writer.commit(0, [Attempt(partition=0, attempt="a", chunks=1)])
    """

    def __init__(self, inner: Writer, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def name(self) -> str:
        """Return the name."""
        return self._inner.name

    def stage(
        self,
        batch: int,
        *,
        partition: int,
        attempt: str,
        chunk: int,
        rows: pa.RecordBatch,
        stream: str | None = None,
    ) -> None:
        """Leave rows with the gateway until `commit`; the same chunk once more replaces itself.

        Args:
            batch: its number; numbers grow.
            partition: which part of the batch.
            attempt: which try at the part.
            chunk: its number in the attempt, from 0.
            rows: columns `fields`, a map of names and values, and optionally `id` and `stream`.
            stream: where to, if there is no such column.
        """
        self._portal.call(
            self._inner.stage(
                batch, partition=partition, attempt=attempt, chunk=chunk, rows=rows, stream=stream
            )
        )

    def commit(
        self, batch: int, attempts: Sequence[Attempt], *, create_streams: bool = True
    ) -> Committed:
        """Append the chunks of the attempts, all at once; a repeated batch changes nothing.

        Args:
            batch: its number.
            attempts: which of them count, one for each partition.
            create_streams: also streams that do not exist.

        Raises:
            StagedMissing: a chunk has not arrived.
        """
        return self._portal.call(self._inner.commit(batch, attempts, create_streams=create_streams))

    def abort(self, batch: int) -> None:
        """Discard what is staged for a batch."""
        self._portal.call(self._inner.abort(batch))

    def last_batch(self) -> int | None:
        """Return the number of the last committed batch; None if there is none."""
        return self._portal.call(self._inner.last_batch())


class BlockingJob:
    """An entry for this consumer to process.

    As a context it acknowledges the entry when its block ends, and gives it back with the error
    when the block raises. Until it is settled, its idle clock is restarted so that nobody claims
    it.

    Example:
        for job in group.consume():
            with job:
                charge(job.fields["sku"])
    """

    def __init__(self, inner: Job, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def id(self) -> str:
        """Return the id of the entry."""
        return self._inner.id

    @property
    def delivery(self) -> Delivery:
        """Return the entry and what is known about its deliveries."""
        return self._inner.delivery

    @property
    def fields(self) -> dict[str, Value]:
        """Return names and values."""
        return self._inner.fields

    @property
    def stream(self) -> str | None:
        """Return the stream of the entry, if several are read together; or else None."""
        return self._inner.stream

    @property
    def deliveries(self) -> int:
        """Return the number of deliveries of the entry, this one included."""
        return self._inner.deliveries

    @property
    def last_error(self) -> str | None:
        """Return why the entry was given back before, if that is known."""
        return self._inner.last_error

    @property
    def is_lost(self) -> bool:
        """Tell whether the entry is no longer this consumer's: claimed, or the connection ended.

        Settling it then does nothing, unless it is delivered here again.
        """
        return self._inner.is_lost

    def ack(self) -> None:
        """Acknowledge the entry (XACK). Only the first `ack` or `nack` of a job counts.

        A job with steps is acknowledged by `commit`, or by the end of its block.
        """
        self._portal.run(self._inner.ack)

    def nack(
        self,
        error: BaseException | str | None = None,
        *,
        mode: Mode = "fail",
        delay_ms: int | None = None,
    ) -> None:
        """Give the entry back (XNACK).

        Args:
            error: what went wrong. It comes with the next delivery (`last_error`), and stands in
                the dead letter (`_error`).
            mode: `fail` counts towards the group's `max_deliveries`, `fatal` makes it a dead letter
                at once, and `silent` counts nothing.
            delay_ms: nobody gets it before that; None: as the group's policy has it.
        """
        self._portal.run(lambda: self._inner.nack(error, mode=mode, delay_ms=delay_ms))

    def commit(self, *steps: Step) -> list[list[str]]:
        """Carry out steps and acknowledge the entry, together or not at all.

        A crash leaves all of it or nothing. If somebody else has the entry by now, nothing happens:
        of two consumers that did the same work, only one has a result.

        Args:
            steps: as `headgate.client.commits` makes them, such as `append("bills", fields)`.

        Returns:
            The ids that each step has appended.

        Raises:
            NotYours: the entry is no longer this consumer's. The job is lost, not failed.
            Problem: a step failed; nothing has changed.
        """
        return self._portal.call(self._inner.commit(*steps))

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Do something once, whatever becomes of this program, and return its result.

        The result is remembered until the entry is settled. If this program dies, the next one gets
        the result without calling the function again. Only what happens outside may happen twice,
        if the program dies before the result is remembered: pass a key on, such as `job.id`.

        Args:
            name: of the step; a handler has each name once.
            function: a coroutine function, or a plain one, which runs in a thread. Its result is
                kept as JSON.

        Raises:
            NotYours: the entry is no longer this consumer's.
            TypeError: the result is not JSON.
        """
        return self._portal.call(self._inner.step(name, function))

    def sleep(self, duration: Duration) -> None:
        """Go on later: the entry is given back, and its handler begins again after that time.

        It holds nothing meanwhile. What was done by `step` is not done again, and this sleep is
        over then. It raises `Paused`, which ends the handler and passes through `with job`.

        Args:
            duration: such as `2d`, `90m` or `10s`; a number of seconds; or a timedelta.
        """
        self._portal.call(self._inner.sleep(duration))

    def wait_for(self, key: str, within: Duration) -> Any:
        """Go on once somebody has signalled a key (`Group.signal`), and return its value.

        The entry is given back meanwhile, as by `sleep`.

        Args:
            key: what is waited for, such as `approved:42`.
            within: how long, as in `sleep`.

        Raises:
            TimeoutError: nobody has signalled the key in that time.
        """
        return self._portal.call(self._inner.wait_for(key, within))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> bool:
        return bool(self._portal.end(self._inner.__aexit__(*error)))


class BlockingTable:
    """The table of a stream that has a `key_field`. Creating this object sends nothing.

    Example:
        stock = hg.stream("stock").table()
        row = stock.get("42")
        stock.put("42", {"count": "4"}, if_match=row.id)
    """

    def __init__(self, inner: Table, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    def get(self, key: str) -> Row | None:
        """Return the row of a key; None: there is none."""
        return self._portal.call(self._inner.get(key))

    def wait(self, key: str, *, after: str, wait_ms: int = 20000) -> Row | None:
        """Return the row of a key once it has changed after an id, or when the time is over."""
        return self._portal.call(self._inner.wait(key, after=after, wait_ms=wait_ms))

    def put(
        self,
        key: str,
        fields: Fields | Pairs,
        *,
        if_match: str | None = None,
        if_absent: bool = False,
        idempotency_key: str | None = None,
    ) -> str:
        """Append the entry that is the row of a key from now on, and return its id.

        Args:
            key: of the row. Its field is added.
            fields: names and values, text or bytes; pairs where a name repeats.
            if_match: only if this is the id of the row (`RowChanged` otherwise).
            if_absent: only if there is no row (likewise).
            idempotency_key: a repeat with the same key appends nothing. The client makes one for
                each put unless it is given, so an answer that is lost is asked for again.
        """
        return self._portal.call(
            self._inner.put(
                key, fields, if_match=if_match, if_absent=if_absent, idempotency_key=idempotency_key
            )
        )

    def delete(
        self, key: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> bool:
        """Append an entry that removes the row of a key; false: there is none.

        Args:
            key: of the row.
            if_match: only if this is the id of the row (`RowChanged` otherwise).
            idempotency_key: see `put`.
        """
        return self._portal.call(
            self._inner.delete(key, if_match=if_match, idempotency_key=idempotency_key)
        )

    def rows(
        self, *, prefix: str = "", filter: Filter | None = None, limit: int = 1000
    ) -> Iterator[Row]:
        """Yield all rows in order of their keys, as of one id, by pages of `limit`.

        Args:
            prefix: only keys that begin with it.
            filter: only rows that match, such as `{"exact": {"kind": "sale"}}`.
            limit: rows in one page.

        Raises:
            Gone: too much has changed meanwhile: begin again.
        """
        return self._portal.iterate(self._inner.rows(prefix=prefix, filter=filter, limit=limit))

    def to_pandas(
        self, *, as_of: str | None = None, schema: tables.Schema | None = None
    ) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame: `_id`, `_time`, and the fields, by `_key`.

        Its `attrs["as_of"]` is the id that the rows are as of.

        Args:
            as_of: such an id of an earlier read, as long as the gateway knows how the table was.
            schema: which fields become columns, and their types; see `Stream.read_arrow`.

        Raises:
            Gone: the gateway does not know how the table was at `as_of`.
            PackageMissing: the extra `tables` is not installed.
            ValueError: a value does not fit the schema.
        """
        return self._portal.call(self._inner.to_pandas(as_of=as_of, schema=schema))

    def changes(self, *, prefix: str = "", credit: int = 256) -> Iterator[RowChange]:
        """Yield all rows, and then each change as it comes, until the stream is closed.

        It survives every loss of the connection. Where entries were trimmed before this program
        has seen them, the rows are read again, and what differs is yielded.

        Args:
            prefix: only rows whose keys begin with it.
            credit: rows that may be on the way to this program.
        """
        return self._portal.iterate(self._inner.changes(prefix=prefix, credit=credit))


class BlockingFollowing:
    """The entries of a stream as they arrive: an iterator, and a context that ends it.

    Attributes:
        gap: the trimmed ids before the latest entry; None: there are none.
    """

    def __init__(self, inner: Following, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def gap(self) -> Gap | None:
        """Return the trimmed ids before the entry that came last; None: there are none."""
        return self._inner.gap

    @property
    def ready_count(self) -> int:
        """Return the number of entries that have arrived: so many steps do not wait."""
        return self._inner.ready_count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._portal.end(self._inner.__aexit__(*error))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Entry:
        return self._portal.step(self._inner)

    def close(self) -> None:
        """End it."""
        self._portal.end(self._inner.aclose())


class BlockingStream:
    """A stream by its name. Creating this object sends nothing.

    Example:
        orders = hg.stream("orders")
        entry_id = orders.append({"sku": "42"})
        for entry in orders.follow(after="$"):
            print(entry.id, entry.fields["sku"])
    """

    def __init__(self, inner: Stream, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def name(self) -> str:
        """Return the name."""
        return self._inner.name

    def append(
        self,
        fields: Fields | Pairs,
        *,
        id: str | None = None,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        ttl_ms: int | None = None,
        expires_at_ms: int | None = None,
        create_stream: bool = True,
        idempotency_key: str | None = None,
        if_last_id: str | None = None,
    ) -> str:
        """Append an entry, and return its id (XADD).

        Args:
            fields: names and values, text or bytes; pairs where a name repeats.
            id: of the entry; None: the gateway makes it.
            delay_ms: groups deliver it so much later, by 90 days at most.
            deliver_at_ms: instead: no sooner than this unix time.
            ttl_ms: groups deliver it for so long, and then no more.
            expires_at_ms: instead: until this unix time.
            create_stream: append also if the stream does not exist.
            idempotency_key: a repeat with the same key appends nothing, and returns the first id.
                A client with a `producer` makes one for each append.
            if_last_id: append only if this is the last id (`LastIdMismatch` otherwise).

        Raises:
            AnswerLost: the entry may be there. With an idempotency key the append is repeated.
            Problem: the gateway refused it.
        """
        return self._portal.call(
            self._inner.append(
                fields,
                id=id,
                delay_ms=delay_ms,
                deliver_at_ms=deliver_at_ms,
                ttl_ms=ttl_ms,
                expires_at_ms=expires_at_ms,
                create_stream=create_stream,
                idempotency_key=idempotency_key,
                if_last_id=if_last_id,
            )
        )

    def append_many(
        self,
        entries: Iterable[Fields | Pairs | Entry | Draft],
        *,
        create_stream: bool = True,
        idempotency_key: str | None = None,
        if_last_id: str | None = None,
    ) -> list[str]:
        """Append entries, all or none, and return their ids; see `append`.

        An `Entry` is appended under its own id, with its times. A `Draft` says more than fields,
        such as `Draft({"sku": "42"}, delay_ms=60_000)`.
        """
        return self._portal.call(
            self._inner.append_many(
                entries,
                create_stream=create_stream,
                idempotency_key=idempotency_key,
                if_last_id=if_last_id,
            )
        )

    def read(
        self,
        *,
        after: str | None = None,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
        wait_ms: int = 0,
        filter: Filter | None = None,
        columns: Sequence[str] | None = None,
        archived: bool = True,
    ) -> Page:
        """Return entries after an id, or of a range (XREAD, XRANGE, XREVRANGE).

        Args:
            after: only what is above this id; `$`: only what comes from now on.
            start: the lowest id of a range, inclusive.
            end: the highest id of a range, inclusive.
            limit: entries at most.
            reverse: the highest id of the range first.
            wait_ms: how long to wait for an entry after `after`. Where the stream is closed and
                read to its end, it does not wait.
            filter: only entries for which it holds, such as `{"exact": {"sku": "42"}}`. A page may
                have none of them, and more come behind it: of a range until `next_after` (or
                `next_before`) is None, after an id until `next_after` is `last_id`.
            columns: the fields that are sent, by name; None: all of them.
            archived: read what is archived as well, where the stream keeps an archive.
        """
        return self._portal.call(
            self._inner.read(
                after=after,
                start=start,
                end=end,
                limit=limit,
                reverse=reverse,
                wait_ms=wait_ms,
                filter=filter,
                columns=columns,
                archived=archived,
            )
        )

    def pages(
        self, *, after: str = "0", limit: int = 1000, filter: Filter | None = None
    ) -> Iterator[Page]:
        """Yield the entries that are there now, a page of `limit` at a time.

        Args:
            after: an id; `0` for all entries.
            limit: entries in one page.
            filter: only entries that match; a page may have none.
        """
        return self._portal.iterate(self._inner.pages(after=after, limit=limit, filter=filter))

    def scan(
        self, *, after: str = "0", limit: int = 1000, filter: Filter | None = None
    ) -> Iterator[Entry]:
        """Yield the entries that are there now, fetched in pages of `limit`.

        Args:
            after: an id; `0` for all entries.
            limit: entries in one page.
            filter: only entries that match.
        """
        return self._portal.iterate(self._inner.scan(after=after, limit=limit, filter=filter))

    def follow(
        self,
        *,
        after: str = "$",
        credit: int = 256,
        on_state: OnState | None = None,
        filter: Filter | None = None,
    ) -> BlockingFollowing:
        """Follow the stream: an iterator of entries that waits for the next one (XREAD BLOCK).

        It survives every loss of the connection, without a lost or repeated entry. It ends after
        the last entry of a stream that is closed.

        Args:
            after: an id, `0` for all entries, or `$` for only new ones.
            credit: entries that may be on the way to this program.
            on_state: called when entries come, when all were read (`caught_up`), when there will be
                no others (`closed`), and when the connection is `lost`, with the reason.
            filter: only entries that match, such as `{"exact": {"sku": "42"}}`.
        """
        return BlockingFollowing(
            self._inner.follow(after=after, credit=credit, on_state=on_state, filter=filter),
            self._portal,
        )

    def table(self) -> BlockingTable:
        """Return the table that the stream is, if it has a `key_field`: its latest entry by key."""
        return BlockingTable(self._inner.table(), self._portal)

    def read_arrow(
        self,
        *,
        start: str = "-",
        end: str = "+",
        schema: tables.Schema | None = None,
        filter: Filter | None = None,
    ) -> pa.Table:
        """Return entries as an Arrow table, without Spark: `_id`, `_time`, and the fields.

        Args:
            start: the lowest id, inclusive; `(1718000000000-0`: exclusive.
            end: the highest id, inclusive.
            schema: which fields become columns, and their types, such as
                `{"sku": "string", "price": "float64"}`; None: all, with types that are inferred.
                The gateway sends no others.
            filter: see `batches`.

        Raises:
            PackageMissing: the extra `tables` is not installed.
            ValueError: a value does not fit the schema.
        """
        return self._portal.call(
            self._inner.read_arrow(start=start, end=end, schema=schema, filter=filter)
        )

    def read_pandas(
        self,
        *,
        start: str = "-",
        end: str = "+",
        schema: tables.Schema | None = None,
        filter: Filter | None = None,
    ) -> pd.DataFrame:
        """Return entries as a pandas DataFrame whose index is `_id`; see `read_arrow`."""
        return self._portal.call(
            self._inner.read_pandas(start=start, end=end, schema=schema, filter=filter)
        )

    def read_polars(
        self,
        *,
        start: str = "-",
        end: str = "+",
        schema: tables.Schema | None = None,
        filter: Filter | None = None,
    ) -> pl.DataFrame:
        """Return entries as a polars DataFrame; see `read_arrow`."""
        return self._portal.call(
            self._inner.read_polars(start=start, end=end, schema=schema, filter=filter)
        )

    def write_arrow(self, table: pa.Table | pa.RecordBatch, *, chunk: int = 10000) -> int:
        """Append the rows of an Arrow table, and return how many.

        Each column is a field, as text, and left out where it is null. `_id` is the entry's id.
        Each chunk is appended as a whole, or not at all.

        Args:
            table: the rows.
            chunk: rows of one request.
        """
        return self._portal.call(self._inner.write_arrow(table, chunk=chunk))

    def write_pandas(self, frame: pd.DataFrame, *, chunk: int = 10000) -> int:
        """Append the rows of a pandas DataFrame, and return how many; see `write_arrow`."""
        return self._portal.call(self._inner.write_pandas(frame, chunk=chunk))

    def splits(self, *, after: str = "0-0", to: str | None = None, parts: int) -> list[Split]:
        """Split a range into at most `parts` parts of about the same number of entries.

        Args:
            after: the range begins behind this id.
            to: the last id of the range; None: that of the stream.
            parts: maximum number of parts.
        """
        return self._portal.call(self._inner.splits(after=after, to=to, parts=parts))

    def batches(
        self,
        *,
        start: str = "-",
        end: str = "+",
        compression: Compression | None = None,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
    ) -> BlockingBatches:
        """Return entries that are there now as Arrow record batches, which come one by one.

        Args:
            start: the lowest id, inclusive; `(1718000000000-0`: exclusive.
            end: the highest id, inclusive.
            compression: None: zstd over a network, none on this machine.
            columns: the fields that are sent; None: all.
            filter: only entries for which it holds are sent, such as `{"exact": {"sku": "42"}}`;
                see `readEntries` in the API for what may be written.

        Raises:
            StreamNotFound: there is no such stream.
        """
        return BlockingBatches(
            self._portal.call(
                self._inner.batches(
                    start=start, end=end, compression=compression, columns=columns, filter=filter
                )
            ),
            self._portal,
        )

    def append_batch(
        self, rows: pa.RecordBatch, *, idempotency_key: str | None = None
    ) -> list[str]:
        """Append the rows of a record batch, all or none, and return their ids.

        Args:
            rows: columns `fields`, a map of names and values, and optionally `id`, and times as
                `append` has them (int64).
            idempotency_key: see `append`.
        """
        return self._portal.call(self._inner.append_batch(rows, idempotency_key=idempotency_key))

    def get(self, entry_id: str) -> Entry:
        """Return one entry; raises `EntryNotFound` if there is none."""
        return self._portal.call(self._inner.get(entry_id))

    def delete_entries(self, ids: Iterable[str]) -> dict[str, str]:
        """Delete entries, and return what became of each id (XDEL)."""
        return self._portal.call(self._inner.delete_entries(ids))

    def create(self, config: StreamConfig | None = None) -> StreamInfo:
        """Create the stream; raises `StreamExists` if it has another configuration."""
        return self._portal.call(self._inner.create(config))

    def update(self, config: StreamConfig) -> StreamInfo:
        """Change the configuration; what is not named stays (XCFGSET)."""
        return self._portal.call(self._inner.update(config))

    def info(self) -> StreamInfo:
        """Return the stream's length, ids and configuration (XINFO STREAM)."""
        return self._portal.call(self._inner.info())

    def detail(self, *, count: int = 10) -> StreamDetail:
        """Return the stream with its groups and their consumers (XINFO STREAM FULL).

        Args:
            count: how many of its entries, and of the pending entries of each group, are shown.
        """
        return self._portal.call(self._inner.detail(count=count))

    def schema(self) -> dict[str, Any] | None:
        """Return the schema that new entries have to match; None if there is none."""
        return self._portal.call(self._inner.schema())

    def set_schema(self, schema: Mapping[str, Any], *, force: bool = False) -> None:
        """Set the schema that new entries have to match: a JSON Schema of the object of fields.

        The stream is created if it is not there.

        Args:
            schema: JSON Schema 2020-12. A value is read as JSON unless its field may be a text.
            force: replace a schema even if entries may be refused that were allowed before.
        """
        self._portal.call(self._inner.set_schema(schema, force=force))

    def delete_schema(self) -> None:
        """Delete the schema, so that the stream takes any entries again."""
        self._portal.call(self._inner.delete_schema())

    def groups(self, *, limit: int = 100) -> Iterator[GroupInfo]:
        """Yield the groups, by pages of `limit` (XINFO GROUPS)."""
        return self._portal.iterate(self._inner.groups(limit=limit))

    def trim(
        self, *, max_length: int | None = None, min_id: str | None = None, approximate: bool = False
    ) -> int:
        """Remove the oldest entries, and return how many (XTRIM).

        If an answer is lost, the request is repeated, and the number is that of the repeat.

        Args:
            max_length: number of entries to keep.
            min_id: entries from this id on are kept.
            approximate: a few more may be kept, which is faster.
        """
        return self._portal.call(
            self._inner.trim(max_length=max_length, min_id=min_id, approximate=approximate)
        )

    def trim_archive(self, *, before: str | None = None) -> int:
        """Remove archived entries for good, and return how many.

        Args:
            before: entries from this id on are kept; None: none is.
        """
        return self._portal.call(self._inner.trim_archive(before=before))

    def close(
        self,
        fields: Fields | Pairs | None = None,
        *,
        create_stream: bool = True,
        idempotency_key: str | None = None,
        if_last_id: str | None = None,
    ) -> ClosedStream:
        """Close the stream for good, behind a last entry if there is one, in one step.

        Whoever follows it gets what there is, and then the iteration ends; of a group once it has
        settled everything. To close it again without an entry changes nothing.

        Args:
            fields: of the last entry; None: there is none.
            create_stream: append it also if the stream does not exist.
            idempotency_key: of the last entry; see `append`.
            if_last_id: close only if this is the last id (`LastIdMismatch` otherwise).

        Raises:
            StreamClosed: it is closed, and there is an entry.
            AnswerLost: it may be closed. With an idempotency key the append is repeated.
        """
        return self._portal.call(
            self._inner.close(
                fields,
                create_stream=create_stream,
                idempotency_key=idempotency_key,
                if_last_id=if_last_id,
            )
        )

    def delete(self) -> None:
        """Delete the stream with its groups (DEL)."""
        self._portal.call(self._inner.delete())


class BlockingMessages:
    """The messages of a channel as they arrive: an iterator, and a context that ends it."""

    def __init__(self, inner: Messages, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    def __enter__(self) -> Self:
        """Return once what is published comes here; raise the problem if it is refused."""
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._portal.end(self._inner.__aexit__(*error))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        return self._portal.step(self._inner)

    def close(self) -> None:
        """End it."""
        self._portal.end(self._inner.aclose())


class BlockingChannel:
    """A channel by its name: it need not be created. Creating this object sends nothing.

    Example:
        room = hg.channel("room-1")
        room.publish({"text": "hello"})
        with room.subscribe() as messages:
            for message in messages:
                print(message.data)
    """

    def __init__(self, inner: Channel, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def name(self) -> str:
        """Return the name."""
        return self._inner.name

    def publish(self, data: Any) -> int:
        """Publish a message, any JSON, and return how many are subscribed.

        It is delivered at most once and not kept: whoever is away or too slow misses it. If the
        answer is lost, it is not published again.
        """
        return self._portal.call(self._inner.publish(data))

    def subscribe(
        self,
        *,
        presence: Mapping[str, Any] | None = None,
        key: str | None = None,
        on_state: OnState | None = None,
    ) -> BlockingMessages:
        """Get the messages that are published from now on.

        As a context it begins once the gateway has confirmed it. It goes on through every loss of
        the connection; what is published meanwhile is missed.

        Args:
            presence: what others are told of this program, at most 1,024 bytes of JSON; None: it is
                not present.
            key: a name for this connection: another one with the same takes its place.
            on_state: is called when messages come (`live`), and when the connection is `lost`.
        """
        return BlockingMessages(
            self._inner.subscribe(presence=presence, key=key, on_state=on_state), self._portal
        )

    def members(self, *, limit: int = 100) -> Members:
        """Return who is present: the first `limit` members, and how many there are."""
        return self._portal.call(self._inner.members(limit=limit))


class BlockingPush:
    """The push of a group, or of a group over a pattern. Creating this object sends nothing.

    Example:
        push = hg.group("orders", "billing").push
        made = push.set("https://hooks.example/orders")
        print(made.get("secret"))
    """

    def __init__(self, inner: Push, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    def set(
        self,
        url: str,
        *,
        concurrency: int | None = None,
        timeout_ms: int | None = None,
        body: PushBody | None = None,
        batch_max: int | None = None,
        signature: PushSignature | None = None,
        disable_after_ms: int | None = None,
        attempts_days: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PushInfo:
        """Create the push, or replace it; what is None is as the gateway has it.

        The answer has the `secret` when that is new, and then only. A push that was there keeps its
        own, if the gateway can still read it.

        Args:
            url: where requests go.
            concurrency: requests at a time, at most.
            timeout_ms: time for a request with its answer.
            body: the form of what is sent: an entry, several, or events of CloudEvents.
            batch_max: entries of a request that has several.
            signature: `v1`, by the secret; `v1a`, by a key of the gateway.
            disable_after_ms: behind nothing but failures for so long, the push is disabled.
            attempts_days: attempts are kept for so many days; 0: not at all.
            headers: of each request. Nobody is told their values again.

        Raises:
            InvalidRequest: the gateway does not send anything there.
            GroupNotFound: there is no such group.
            AnswerLost: it may be set; `rotate` makes a secret that you know.
        """
        return self._portal.call(
            self._inner.set(
                url,
                concurrency=concurrency,
                timeout_ms=timeout_ms,
                body=body,
                batch_max=batch_max,
                signature=signature,
                disable_after_ms=disable_after_ms,
                attempts_days=attempts_days,
                headers=headers,
            )
        )

    def info(self) -> PushInfo:
        """Return its state and the latest answers of its receiver."""
        return self._portal.call(self._inner.info())

    def pause(self) -> PushInfo:
        """Send nothing until `resume`. Requests on their way end."""
        return self._portal.call(self._inner.pause())

    def resume(self) -> PushInfo:
        """Go on after a pause, or after the push was disabled."""
        return self._portal.call(self._inner.resume())

    def retry(self) -> int:
        """Send failed entries that wait for a retry now; return their number."""
        return self._portal.call(self._inner.retry())

    def test(self) -> PushAttempt:
        """Send a test event now, and return its result. No entry is sent or acknowledged."""
        return self._portal.call(self._inner.test())

    def rotate(self, *, overlap_ms: int | None = None) -> str:
        """Replace the secret, and return the new one.

        Args:
            overlap_ms: requests are signed with the old one as well for so long; None: a day.
        """
        return self._portal.call(self._inner.rotate(overlap_ms=overlap_ms))

    def attempts(self, entry_id: str | None = None, *, limit: int = 100) -> Iterator[PushAttempt]:
        """Yield the attempts that are kept, newest first, by pages of `limit`.

        Args:
            entry_id: of the entry whose attempts are wanted; None: all.
            limit: attempts in one page.
        """
        return self._portal.iterate(self._inner.attempts(entry_id, limit=limit))

    def replay(
        self, start: str, end: str = "+", *, filter: Filter | None = None, dry_run: bool = False
    ) -> PushReplay:
        """Send entries of a range again, without moving the group. `info` has the progress.

        Args:
            start: an id, or a unix time in milliseconds; `-` is the first entry.
            end: likewise; `+` is the last entry that the group has read.
            filter: only entries that match.
            dry_run: only count the entries.
        """
        return self._portal.call(self._inner.replay(start, end, filter=filter, dry_run=dry_run))

    def cancel_replay(self) -> PushReplay:
        """Cancel the replay that runs."""
        return self._portal.call(self._inner.cancel_replay())

    def delete(self) -> None:
        """Delete it. The group stays, with what is pending."""
        self._portal.call(self._inner.delete())


class BlockingSchedule:
    """A schedule by its name. Creating this object sends nothing.

    Example:
        nightly = hg.schedule("nightly")
        nightly.set("jobs", {"kind": "report"}, "0 2 * * *", time_zone="Europe/Berlin")
    """

    def __init__(self, inner: Schedule, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def name(self) -> str:
        """Return the name."""
        return self._inner.name

    def set(
        self,
        stream: str,
        fields: Fields | Pairs,
        cron: str,
        *,
        time_zone: str = "UTC",
        missed: Missed = "run_once",
        paused: bool = False,
    ) -> ScheduleInfo:
        """Create the schedule, or replace it.

        Args:
            stream: which gets the entries.
            fields: of each entry; `_schedule` and `_due_ms` stand behind them.
            cron: minute, hour, day of month, month, day of week.
            time_zone: an IANA name.
            missed: what becomes of due times that nobody could run: the latest of them is run
                late, or none is.
            paused: nothing is due until `resume`.

        Raises:
            InvalidRequest: the expression or the time zone makes no sense, or the time never comes.
        """
        return self._portal.call(
            self._inner.set(stream, fields, cron, time_zone=time_zone, missed=missed, paused=paused)
        )

    def update(
        self,
        *,
        stream: str | None = None,
        fields: Fields | Pairs | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
        missed: Missed | None = None,
    ) -> ScheduleInfo:
        """Change parts of the schedule; arguments that are None keep their value."""
        return self._portal.call(
            self._inner.update(
                stream=stream, fields=fields, cron=cron, time_zone=time_zone, missed=missed
            )
        )

    def pause(self) -> ScheduleInfo:
        """Run nothing until `resume`."""
        return self._portal.call(self._inner.pause())

    def resume(self) -> ScheduleInfo:
        """End the pause. Due times missed during the pause are not made up for."""
        return self._portal.call(self._inner.resume())

    def info(self) -> ScheduleInfo:
        """Return its next due time, its last entry and its last problem."""
        return self._portal.call(self._inner.info())

    def run(self) -> str:
        """Append its entry now and return the id. Its due times do not change."""
        return self._portal.call(self._inner.run())

    def delete(self) -> None:
        """Delete it. Its stream stays."""
        self._portal.call(self._inner.delete())


class BlockingConsuming:
    """The jobs of one consumer as they arrive: an iterator, and a context that ends it.

    At the end what was settled is sent and confirmed, and what was not goes back to the group.
    """

    def __init__(self, inner: Consuming, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def consumer(self) -> str | None:
        """Return the name of the consumer; None: the gateway has not given it one yet."""
        return self._inner.consumer

    @property
    def lag(self) -> int | None:
        """Return how many entries the group had not read when the last ones came."""
        return self._inner.lag

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._portal.end(self._inner.__aexit__(*error))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingJob:
        return BlockingJob(self._portal.step(self._inner), self._portal)

    def stop(self) -> None:
        """Take no more entries: waiting readers get `StopIteration`."""
        self._portal.run(self._inner.stop)

    def close(self) -> None:
        """End it once everything that was settled is answered."""
        self._portal.end(self._inner.aclose())


class BlockingGroup(Working[Group, BlockingJob]):
    """A group of consumers of a stream. Creating this object sends nothing.

    Example:
        billing = hg.group("orders", "billing")
        billing.create(start="0", policy={"max_deliveries": 5})
        billing.work(charge, concurrency=16)
    """

    _blocking_job = BlockingJob

    def __init__(self, inner: Group, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def stream(self) -> str:
        """Return the name of the stream."""
        return self._inner.stream

    @property
    def name(self) -> str:
        """Return the name."""
        return self._inner.name

    @property
    def push(self) -> BlockingPush:
        """Return its push, which sends its entries to a URL; the push need not exist."""
        return BlockingPush(self._inner.push, self._portal)

    def create(
        self, *, start: str = "$", create_stream: bool = True, policy: Policy | None = None
    ) -> GroupInfo:
        """Create the group; do nothing if it exists with this policy (XGROUP CREATE).

        Args:
            start: it reads entries after this id; `0`: all, `$`: only new ones.
            create_stream: also create the stream if it does not exist.
            policy: its rules.

        Raises:
            GroupExists: it exists with another policy.
        """
        return self._portal.call(
            self._inner.create(start=start, create_stream=create_stream, policy=policy)
        )

    def update(self, *, start: str | None = None, policy: Policy | None = None) -> GroupInfo:
        """Change its position or its policy; what is None stays (XGROUP SETID)."""
        return self._portal.call(self._inner.update(start=start, policy=policy))

    def info(self) -> GroupInfo:
        """Return its position, lag, pending count and policy (XINFO GROUPS)."""
        return self._portal.call(self._inner.info())

    def delete(self) -> None:
        """Delete the group with what is pending in it (XGROUP DESTROY)."""
        self._portal.call(self._inner.delete())

    def signal(self, key: str, value: object = None) -> None:
        """Let handlers go on that wait for a key, or will wait for it; see `Job.wait_for`.

        Args:
            key: what they wait for. The last signal of a key counts, for 90 days.
            value: what they get; it is kept as JSON.
        """
        self._portal.call(self._inner.signal(key, value))

    def consume(
        self,
        *,
        consumer: str | None = None,
        credit: int = 64,
        claim_idle_ms: int | None = None,
        on_disconnect: OnDisconnect | None = None,
        on_claimed: OnClaimed | None = None,
    ) -> BlockingConsuming:
        """Consume entries: an iterator of jobs that waits for the next one (XREADGROUP BLOCK).

        It ends when the stream is closed and the group has settled all of it.

        Args:
            consumer: who reads; None: the gateway makes a name, and removes it in the end.
            credit: entries that may be on the way to this program, or in work.
            claim_idle_ms: take entries of others that are idle for so long; None: as the group's
                policy has it.
            on_disconnect: what becomes of unsettled entries when the connection ends.
            on_claimed: is called with the id of an entry that somebody else has taken over.
        """
        return BlockingConsuming(
            self._inner.consume(
                consumer=consumer,
                credit=credit,
                claim_idle_ms=claim_idle_ms,
                on_disconnect=on_disconnect,
                on_claimed=on_claimed,
            ),
            self._portal,
        )

    def read(
        self,
        consumer: str,
        *,
        limit: int = 10,
        wait_ms: int = 0,
        claim_idle_ms: int | None = None,
        after: str | None = None,
        ack: Sequence[str] = (),
    ) -> list[Delivery]:
        """Return entries by one request (XREADGROUP); `consume` is faster and settles by itself.

        It does not wait when the stream is closed and the group has settled all of it: that is the
        end of `consume`.

        Args:
            consumer: who reads.
            limit: entries at most.
            wait_ms: how long to wait if there is nothing.
            claim_idle_ms: first take entries of anybody that are idle for so long.
            after: read this consumer's own pending entries after this id; `0`: all of them.
            ack: acknowledge these first.
        """
        return self._portal.call(
            self._inner.read(
                consumer,
                limit=limit,
                wait_ms=wait_ms,
                claim_idle_ms=claim_idle_ms,
                after=after,
                ack=ack,
            )
        )

    def ack(self, ids: Iterable[str], *, consumer: str | None = None) -> dict[str, Outcome]:
        """Acknowledge entries, and return what became of each (XACK).

        Args:
            ids: of entries.
            consumer: who does it: what belongs to another consumer by now stays there (`claimed`).
        """
        return self._portal.call(self._inner.ack(ids, consumer=consumer))

    def nack(
        self,
        ids: Iterable[str],
        *,
        consumer: str | None = None,
        mode: Mode = "fail",
        delay_ms: int | None = None,
        error: BaseException | str | None = None,
    ) -> dict[str, Outcome]:
        """Give entries back, and return what became of each (XNACK); see `Job.nack`."""
        return self._portal.call(
            self._inner.nack(ids, consumer=consumer, mode=mode, delay_ms=delay_ms, error=error)
        )

    def extend(self, ids: Iterable[str], *, consumer: str) -> dict[str, Outcome]:
        """Restart the idle clock of entries, so that nobody claims them (XCLAIM JUSTID)."""
        return self._portal.call(self._inner.extend(ids, consumer=consumer))

    def claim(self, ids: Iterable[str], *, consumer: str, min_idle_ms: int = 0) -> list[Delivery]:
        """Take over pending entries that have been idle that long (XCLAIM).

        Entries that do not fit into one answer stay as they are, and can be claimed again.
        """
        return self._portal.call(self._inner.claim(ids, consumer=consumer, min_idle_ms=min_idle_ms))

    def autoclaim(
        self, *, consumer: str, min_idle_ms: int, start: str = "0-0", limit: int = 100
    ) -> Claimed:
        """Take over whatever is pending and idle for so long, by portions (XAUTOCLAIM).

        Args:
            consumer: gets the entries.
            min_idle_ms: how long they must have been idle.
            start: the lowest id that is looked at.
            limit: entries that are taken at most.
        """
        return self._portal.call(
            self._inner.autoclaim(
                consumer=consumer, min_idle_ms=min_idle_ms, start=start, limit=limit
            )
        )

    def pending(
        self,
        *,
        start: str = "-",
        end: str = "+",
        limit: int = 100,
        consumer: str | None = None,
        min_idle_ms: int | None = None,
    ) -> list[PendingEntry]:
        """Return entries that were delivered and are not acknowledged (XPENDING).

        Args:
            start: the lowest id; `(` before an id leaves it out, as behind the last one of before.
            end: the highest id.
            limit: so many at most.
            consumer: only what this one has.
            min_idle_ms: only what was idle for so long.
        """
        return self._portal.call(
            self._inner.pending(
                start=start, end=end, limit=limit, consumer=consumer, min_idle_ms=min_idle_ms
            )
        )

    def pending_summary(self) -> PendingSummary:
        """Return the number of pending entries, and of those of each consumer (XPENDING)."""
        return self._portal.call(self._inner.pending_summary())

    def consumers(self, *, limit: int = 100) -> Iterator[ConsumerInfo]:
        """Yield the consumers, by pages of `limit` (XINFO CONSUMERS)."""
        return self._portal.iterate(self._inner.consumers(limit=limit))

    def keys(self, *, order: KeyOrder = "waiting", limit: int = 100) -> list[GroupKey]:
        """Return the keys of a fair group: what waits of each, for how long, and its share.

        Args:
            order: `waiting`: those with the most entries first; `age`: the oldest first.
            limit: so many at most.
        """
        return self._portal.call(self._inner.keys(order=order, limit=limit))

    def delete_consumer(self, consumer: str, *, drop: bool = False) -> int:
        """Delete a consumer, and return how many entries it held (XGROUP DELCONSUMER).

        Args:
            consumer: its name.
            drop: forget its entries; otherwise others get them.
        """
        return self._portal.call(self._inner.delete_consumer(consumer, drop=drop))

    def redrive(
        self, ids: Iterable[str] | None = None, *, limit: int | None = None
    ) -> list[Redriven]:
        """Let dead letters of this group be delivered again, the oldest first.

        Args:
            ids: of entries in the dead letter stream; None: the oldest.
            limit: so many at most; None: a hundred.
        """
        return self._portal.call(self._inner.redrive(ids, limit=limit))


class BlockingGroups(Working[Groups, BlockingJob]):
    """The group of one name in all streams that match. Creating this object sends nothing.

    Streams take turns, and each entry says its `stream`. Streams that are made later are among
    them.

    Example:
        billing = hg.groups("billing", match="orders.*", create={"start": "0"})
        billing.work(charge, concurrency=16)
    """

    _blocking_job = BlockingJob

    def __init__(self, inner: Groups, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def name(self) -> str:
        """Return the name."""
        return self._inner.name

    @property
    def match(self) -> str:
        """Return the pattern."""
        return self._inner.match

    @property
    def push(self) -> BlockingPush:
        """Return its push, which sends the entries of all the streams to a URL.

        The push need not exist. `set` sets it with `create` and `weights` as they are here.
        """
        return BlockingPush(self._inner.push, self._portal)

    def consume(
        self,
        *,
        consumer: str | None = None,
        credit: int = 64,
        claim_idle_ms: int | None = None,
        on_disconnect: OnDisconnect | None = None,
    ) -> BlockingConsuming:
        """Consume entries: an iterator of jobs that waits for the next one; see `Group.consume`.

        Args:
            consumer: who reads; None: the gateway makes a name, and removes it in the end.
            credit: entries that may be on the way to this program, or in work.
            claim_idle_ms: take entries of others that are idle for so long; None: as the group's
                policy in each stream has it.
            on_disconnect: what becomes of unsettled entries when the connection ends.
        """
        return BlockingConsuming(
            self._inner.consume(
                consumer=consumer,
                credit=credit,
                claim_idle_ms=claim_idle_ms,
                on_disconnect=on_disconnect,
            ),
            self._portal,
        )

    def read(
        self,
        consumer: str,
        *,
        limit: int = 10,
        wait_ms: int = 0,
        claim_idle_ms: int | None = None,
        max_pending: int | None = None,
    ) -> list[Delivery]:
        """Return entries by one request; `consume` is faster and settles by itself.

        Args:
            consumer: who reads.
            limit: entries at most.
            wait_ms: how long to wait if there is nothing.
            claim_idle_ms: first take entries of anybody that are idle for so long.
            max_pending: how many entries the consumer may hold in all of the streams.
        """
        return self._portal.call(
            self._inner.read(
                consumer,
                limit=limit,
                wait_ms=wait_ms,
                claim_idle_ms=claim_idle_ms,
                max_pending=max_pending,
            )
        )

    def ack(self, ids: IdsOfStreams, *, consumer: str | None = None) -> OutcomesOfStreams:
        """Acknowledge entries, and return what became of each (XACK); see `Group.ack`."""
        return self._portal.call(self._inner.ack(ids, consumer=consumer))

    def nack(
        self,
        ids: IdsOfStreams,
        *,
        consumer: str | None = None,
        mode: Mode = "fail",
        delay_ms: int | None = None,
        error: BaseException | str | None = None,
    ) -> OutcomesOfStreams:
        """Give entries back, and return what became of each (XNACK); see `Job.nack`."""
        return self._portal.call(
            self._inner.nack(ids, consumer=consumer, mode=mode, delay_ms=delay_ms, error=error)
        )

    def extend(self, ids: IdsOfStreams, *, consumer: str) -> OutcomesOfStreams:
        """Restart the idle clock of entries, so that nobody claims them (XCLAIM JUSTID)."""
        return self._portal.call(self._inner.extend(ids, consumer=consumer))


class Client:
    """An asyncio client of a gateway. Use it as a context manager, or call `close` at the end.

    Example:
        with headgate.Client("http://localhost:8080") as hg:
            hg.stream("orders").append({"sku": "42"})
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        token: TokenSource | None = None,
        producer: str | None = None,
        retry_s: float = 30.0,
        rate_limit_s: float | None = None,
        answer_s: float = 30.0,
        tls: ssl.SSLContext | None = None,
        insecure: bool | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Talk to a gateway; nothing is sent yet.

        Args:
            url: where it is; several gateways on one bucket have a URL each, in a list or with
                commas between them: requests go to the one that leads, and to no other place than
                these. None: `HEADGATE_URL`, or port 8080 of this machine.
            token: a key or a token, or a function that returns one whenever the one before has
                ended, as a `TokenFile` does; None: the file that `HEADGATE_TOKEN_FILE` names, or
                `HEADGATE_TOKEN`, or none; an empty text: none.
            producer: the name of this program among those that append. With it each append carries
                an idempotency key, and is repeated if its answer is lost.
            retry_s: how long requests are tried again while the gateway cannot be reached; each URL
                is tried once in any case.
            rate_limit_s: how long they are tried again while they are too many (`RateLimited`);
                None: as long as `retry_s`.
            answer_s: how long an answer may take, beside what the request itself waits for.
            tls: which certificates are trusted; None: those of a public authority.
            insecure: send the token over plain http to another machine, too; None: if
                `HEADGATE_INSECURE` is set.
            transport: how requests over HTTP travel; None: as usual.

        Raises:
            ValueError: the URL is none.
            CredentialError: the token could be read by others, or is none.
        """
        self._inner = AsyncClient(
            url,
            token=token,
            producer=producer,
            retry_s=retry_s,
            rate_limit_s=rate_limit_s,
            answer_s=answer_s,
            tls=tls,
            insecure=insecure,
            transport=transport,
        )
        self._portal = Portal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._portal.end(self._inner.__aexit__(*error))
        self._portal.close()

    @property
    def url(self) -> str:
        """Return the URL that requests go to now."""
        return self._inner.url

    def close(self) -> None:
        """Close all connections; whoever follows or consumes gets an error."""
        self._portal.end(self._inner.aclose())
        self._portal.close()

    def readiness(self) -> Readiness:
        """Return the state of the gateway.

        Raises:
            Draining: it is about to stop.
            NotLeader: none of the gateways can change streams now.
        """
        return self._portal.call(self._inner.readiness())

    def ready(self) -> str:
        """Return `ok` if the gateway is ready for requests; see `readiness`."""
        return self._portal.call(self._inner.ready())

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        wait_ms: int = 0,
        is_repeatable: bool | None = None,
    ) -> Any:
        """Return the JSON of an answer: for operations of the HTTP API that have no method here.

        Args:
            method: such as `GET`.
            path: such as `/v1/limits`, percent-encoded.
            query: parameters; those that are None are left out.
            body: is sent as JSON; None: there is none.
            headers: are sent as well.
            wait_ms: how long the operation itself may wait, on top of `answer_s`.
            is_repeatable: the request may be sent twice; None: unless it is a POST.

        Raises:
            Problem: the gateway refused the request.
        """
        return self._portal.call(
            self._inner.request(
                method,
                path,
                query=query,
                body=body,
                headers=headers,
                wait_ms=wait_ms,
                is_repeatable=is_repeatable,
            )
        )

    def ticket(
        self,
        stream: str | None,
        do: Sequence[TicketVerb],
        *,
        group: str | None = None,
        consumer: str | None = None,
        channel: str | None = None,
        user: str | None = None,
        ttl_s: float = 300.0,
    ) -> Ticket:
        """Return a ticket: a token that a server gives to a page of somebody who is signed in.

        Args:
            stream: the one stream that it allows; None: none.
            do: what it allows there and on the channel; the caller must be allowed it as well.
            group: with `consume`: the group.
            consumer: with `consume`: only as this consumer; None: as any.
            channel: with `publish` and `subscribe`: the one channel that it allows.
            user: who is at the page, as presence shows it; None: the caller.
            ttl_s: how long it is good, in seconds: up to an hour, and no longer than the
                credential of the caller.
        """
        return self._portal.call(
            self._inner.ticket(
                stream, do, group=group, consumer=consumer, channel=channel, user=user, ttl_s=ttl_s
            )
        )

    def stream(self, name: str) -> BlockingStream:
        """Return a stream by its name; it need not exist."""
        return BlockingStream(self._inner.stream(name), self._portal)

    def group(self, stream: str, name: str) -> BlockingGroup:
        """Return a group of a stream; it need not exist."""
        return BlockingGroup(self._inner.group(stream, name), self._portal)

    def groups(
        self,
        name: str,
        *,
        match: str,
        create: MissingGroups | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> BlockingGroups:
        """Return the group of this name in all streams that match; none of them need exist.

        Args:
            name: of the group.
            match: a pattern of Redis, such as `orders.*`.
            create: create the group where there is none, with this start and these rules; None:
                streams without it are left out.
            weights: how many entries a stream gives in each of its turns; 1 unless given.
        """
        return BlockingGroups(
            self._inner.groups(name, match=match, create=create, weights=weights), self._portal
        )

    def channel(self, name: str) -> BlockingChannel:
        """Return a channel by its name; it need not be created."""
        return BlockingChannel(self._inner.channel(name), self._portal)

    def commit(
        self, *steps: Step, consumer: str | None = None, idempotency_key: str | None = None
    ) -> list[list[str]]:
        """Carry out steps together or not at all, and return the ids that each has appended.

        `Job.commit` is the same with the acknowledgement of a job.

        Args:
            steps: as `headgate.client.commits` makes them, such as `append("bills", fields)`.
            consumer: who settles entries, if a step does.
            idempotency_key: a repeat with the same key changes nothing. The client makes one for
                each commit unless it is given, so an answer that is lost is asked for again.

        Raises:
            NotYours: an entry is not pending with the consumer.
            Problem: another step failed; nothing has changed.
        """
        return self._portal.call(
            self._inner.commit(*steps, consumer=consumer, idempotency_key=idempotency_key)
        )

    def schedule(self, name: str) -> BlockingSchedule:
        """Return a schedule by its name; it need not exist."""
        return BlockingSchedule(self._inner.schedule(name), self._portal)

    def schedules(self, *, limit: int = 100) -> Iterator[ScheduleInfo]:
        """Yield the schedules of the streams that the caller may see, by pages of `limit`."""
        return self._portal.iterate(self._inner.schedules(limit=limit))

    def pushes(self, *, limit: int = 100) -> Iterator[PushSummary]:
        """Yield the pushes of the groups that the caller may manage, by pages of `limit`."""
        return self._portal.iterate(self._inner.pushes(limit=limit))

    def streams(
        self, *, prefix: str = "", limit: int = 100, internal: bool = False
    ) -> Iterator[StreamInfo]:
        """Yield streams whose names start with `prefix`, by pages of `limit` (SCAN TYPE stream).

        Args:
            prefix: the beginning of the names.
            limit: streams in one page.
            internal: also yield the internal streams of the gateway, whose names begin with `__`.
                This requires the right `admin`.
        """
        return self._portal.iterate(
            self._inner.streams(prefix=prefix, limit=limit, internal=internal)
        )

    def follow(
        self,
        match: str,
        *,
        after: str = "$",
        credit: int = 256,
        on_state: OnState | None = None,
        filter: Filter | None = None,
    ) -> BlockingFollowing:
        """Follow all streams whose names match, those that are made later included.

        Each entry says its `stream`. The order of entries holds within each stream. It goes on
        through every loss of the connection; then an entry may come once more.

        Args:
            match: a pattern of Redis, such as `orders.*`.
            after: an id of every stream, `0` for all entries, or `$` for those from now on.
            credit: entries that may be on the way to this program.
            on_state: is called when entries come, when all were read (`caught_up`), and when the
                connection is `lost`, with the reason.
            filter: only entries for which it holds, such as `{"exact": {"sku": "42"}}`.
        """
        return BlockingFollowing(
            self._inner.follow(match, after=after, credit=credit, on_state=on_state, filter=filter),
            self._portal,
        )

    def plan(
        self, cursors: Sequence[Cursor], *, max_entries: int | None = None, wait_ms: int = 0
    ) -> list[Plan]:
        """Return a plan of the next read for each cursor, in their order.

        Args:
            cursors: at most one for a stream.
            max_entries: of all streams together, in shares that follow what each has; None: all.
            wait_ms: how long to wait if no stream has anything.
        """
        return self._portal.call(
            self._inner.plan(cursors, max_entries=max_entries, wait_ms=wait_ms)
        )

    def writer(self, name: str) -> BlockingWriter:
        """Return a writer of batches by its name; with it each batch is appended exactly once."""
        return BlockingWriter(self._inner.writer(name), self._portal)
