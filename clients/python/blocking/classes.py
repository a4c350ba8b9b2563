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
    """The entries of a range as record batches: an iterator, and a context manager that ends it.

    A batch has the columns `id`, `ms`, `seq` and `fields`, a map of bytes. After a loss of the
    connection, the iterator resumes after the last entry that it received. It raises `AnswerLost`
    if it cannot: the stream was created again, or entries of the range were trimmed before they
    were read.

    Example:
        with hg.stream("orders").batches() as batches:
            for batch in batches:
                print(batch.num_rows)

    Attributes:
        epoch: Epoch of the stream.
        last_id: Last id of the stream.
        gap_to: Entries of the range up to and including this id were trimmed. None: none were.
    """

    def __init__(self, inner: Batches, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def epoch(self) -> str:
        """Return the epoch of the stream."""
        return self._inner.epoch

    @property
    def last_id(self) -> str:
        """Return the last id of the stream."""
        return self._inner.last_id

    @property
    def gap_to(self) -> str | None:
        """Return the last trimmed id of the range. None: nothing was trimmed."""
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
        """Close the response. Batches that have not arrived are not sent."""
        self._portal.end(self._inner.aclose())


class BlockingWriter:
    """A named writer of batches. It stages a batch in chunks and commits it as a whole.

    The gateway stores the number of the last batch, so committing a batch again changes nothing.

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
        """Stage rows in the gateway until `commit`. Staging the same chunk again replaces it.

        Args:
            batch: Number of the batch. Numbers increase.
            partition: Number of the partition of the batch.
            attempt: Name of the attempt at the partition.
            chunk: Number of the chunk in the attempt, from 0.
            rows: Column `fields`, a map of names and values; optionally `id` and `stream`.
            stream: Stream for the rows, if there is no column `stream`.
        """
        self._portal.call(
            self._inner.stage(
                batch, partition=partition, attempt=attempt, chunk=chunk, rows=rows, stream=stream
            )
        )

    def commit(
        self, batch: int, attempts: Sequence[Attempt], *, create_streams: bool = True
    ) -> Committed:
        """Append the chunks of the attempts, all at once. Repeating a batch changes nothing.

        Args:
            batch: Number of the batch.
            attempts: The attempts to commit, one per partition.
            create_streams: Also create streams that do not exist.

        Raises:
            StagedMissing: A chunk has not arrived.
        """
        return self._portal.call(self._inner.commit(batch, attempts, create_streams=create_streams))

    def abort(self, batch: int) -> None:
        """Discard the staged chunks of a batch."""
        self._portal.call(self._inner.abort(batch))

    def last_batch(self) -> int | None:
        """Return the number of the last committed batch. None: no batch was committed."""
        return self._portal.call(self._inner.last_batch())


class BlockingJob:
    """An entry for this consumer to process.

    As a context manager, it acknowledges the entry when its block ends, and gives it back with the
    error when the block raises. Until the entry is settled, the client restarts its idle time so
    that no other consumer claims it.

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
        """Return the delivery: the entry, and the details of its deliveries."""
        return self._inner.delivery

    @property
    def fields(self) -> dict[str, Value]:
        """Return the names and values of the entry."""
        return self._inner.fields

    @property
    def stream(self) -> str | None:
        """Return the stream of the entry if several are read together, otherwise None."""
        return self._inner.stream

    @property
    def deliveries(self) -> int:
        """Return the number of deliveries of the entry, including this one."""
        return self._inner.deliveries

    @property
    def last_error(self) -> str | None:
        """Return the error of the previous delivery, if known."""
        return self._inner.last_error

    @property
    def is_lost(self) -> bool:
        """Return whether this consumer has lost the entry: it was claimed, or the connection ended.

        Settling it then does nothing, unless it is delivered to this consumer again.
        """
        return self._inner.is_lost

    def ack(self) -> None:
        """Acknowledge the entry (XACK). Only the first `ack` or `nack` of a job counts.

        A job with steps is acknowledged by `commit`, or at the end of its block.
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
            error: What went wrong. The next delivery has it in `last_error`, and the dead letter in
                `_error`.
            mode: `fail` counts towards `max_deliveries` of the group, `fatal` makes the entry a
                dead letter at once, and `silent` does not count.
            delay_ms: Delay before the next delivery. Default: the policy of the group.
        """
        self._portal.run(lambda: self._inner.nack(error, mode=mode, delay_ms=delay_ms))

    def commit(self, *steps: Step) -> list[list[str]]:
        """Execute all steps and acknowledge the entry, or do nothing.

        After a crash, either everything was committed or nothing. If another consumer has claimed
        the entry, nothing is committed: of two consumers that did the same work, only one commits a
        result.

        Args:
            steps: Steps created with `headgate.client.commits`, such as `append("bills", fields)`.

        Returns:
            The ids of the entries that each step appended.

        Raises:
            NotYours: The entry no longer belongs to this consumer. The job is lost, not failed.
            Problem: A step failed. Nothing has changed.
        """
        return self._portal.call(self._inner.commit(*steps))

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Run a function once, even if this program crashes, and return its result.

        The result is stored until the entry is settled. If this program crashes, the next one gets
        the result without calling the function again. If it crashes before the result is stored,
        the function runs again: pass an idempotency key, such as `job.id`, to external services.

        Args:
            name: Name of the step, unique within the handler.
            function: A coroutine function, or a function that runs in a thread. Its result is
                stored as JSON.

        Raises:
            NotYours: The entry no longer belongs to this consumer.
            TypeError: The result is not JSON.
        """
        return self._portal.call(self._inner.step(name, function))

    def sleep(self, duration: Duration) -> None:
        """Give the entry back, and run its handler again after this time.

        Meanwhile no consumer holds the entry. In the next run, steps that were done with `step` are
        not repeated, and this sleep returns at once. Raises `Paused`, which ends the handler and
        passes through `with job`.

        Args:
            duration: Text such as `2d`, `90m` or `10s`, a number of seconds, or a timedelta.
        """
        self._portal.call(self._inner.sleep(duration))

    def wait_for(self, key: str, within: Duration) -> Any:
        """Wait until a key is signalled (`Group.signal`), and return the value of the signal.

        Meanwhile the entry is given back, as with `sleep`.

        Args:
            key: The key to wait for, such as `approved:42`.
            within: Maximum time to wait, as in `sleep`.

        Raises:
            TimeoutError: The key was not signalled within this time.
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
        """Return the row of a key. None: there is no row."""
        return self._portal.call(self._inner.get(key))

    def wait(self, key: str, *, after: str, wait_ms: int = 20000) -> Row | None:
        """Return the row of a key when it changes after an id, or when `wait_ms` have passed."""
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
        """Append an entry that becomes the row of a key, and return its id.

        Args:
            key: Key of the row. The gateway adds the key field.
            fields: Names and values, text or bytes. Use pairs if a name repeats.
            if_match: Write only if this is the id of the row; otherwise raise `RowChanged`.
            if_absent: Write only if there is no row; otherwise raise `RowChanged`.
            idempotency_key: A repeat with the same key appends nothing. Default: a new key for each
                put, so the client repeats the request if the answer is lost.
        """
        return self._portal.call(
            self._inner.put(
                key, fields, if_match=if_match, if_absent=if_absent, idempotency_key=idempotency_key
            )
        )

    def delete(
        self, key: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> bool:
        """Append an entry that removes the row of a key. Return False if there is no row.

        Args:
            key: Key of the row.
            if_match: Remove only if this is the id of the row; otherwise raise `RowChanged`.
            idempotency_key: See `put`.
        """
        return self._portal.call(
            self._inner.delete(key, if_match=if_match, idempotency_key=idempotency_key)
        )

    def rows(
        self, *, prefix: str = "", filter: Filter | None = None, limit: int = 1000
    ) -> Iterator[Row]:
        """Yield all rows in the order of their keys, as of one id, in pages of `limit`.

        Args:
            prefix: Only keys that start with this prefix.
            filter: Only rows that match, such as `{"exact": {"kind": "sale"}}`.
            limit: Number of rows per page.

        Raises:
            Gone: Too much has changed meanwhile. Start again.
        """
        return self._portal.iterate(self._inner.rows(prefix=prefix, filter=filter, limit=limit))

    def to_pandas(
        self, *, as_of: str | None = None, schema: tables.Schema | None = None
    ) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame: `_id`, `_time` and the fields, indexed by `_key`.

        `attrs["as_of"]` of the frame is the id that the rows are as of.

        Args:
            as_of: The `as_of` of an earlier read, while the gateway still has that state of the
                table.
            schema: Fields to return as columns, and their types. See `Stream.read_arrow`.

        Raises:
            Gone: The gateway no longer has the state of the table at `as_of`.
            PackageMissing: The extra `tables` is not installed.
            ValueError: A value does not match the schema.
        """
        return self._portal.call(self._inner.to_pandas(as_of=as_of, schema=schema))

    def changes(self, *, prefix: str = "", credit: int = 256) -> Iterator[RowChange]:
        """Yield all rows, and then each change as it arrives, until the stream is closed.

        The iterator resumes after each loss of the connection. If entries were trimmed before this
        program received them, it reads the rows again and yields the differences.

        Args:
            prefix: Only rows whose keys start with this prefix.
            credit: Maximum number of rows in flight to this program.
        """
        return self._portal.iterate(self._inner.changes(prefix=prefix, credit=credit))


class BlockingFollowing:
    """The entries of a stream as they arrive: an iterator, and a context manager that ends it.

    Attributes:
        gap: Ids that were trimmed before the latest entry. None: nothing was trimmed.
    """

    def __init__(self, inner: Following, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def gap(self) -> Gap | None:
        """Return the ids that were trimmed before the latest entry. None: nothing was trimmed."""
        return self._inner.gap

    @property
    def ready_count(self) -> int:
        """Return the number of entries that have arrived and can be read without waiting."""
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
        """End the subscription."""
        self._portal.end(self._inner.aclose())


class BlockingStream:
    """A stream by name. Creating this object sends nothing.

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
        """Append an entry and return its id (XADD).

        Args:
            fields: Names and values, text or bytes. Use pairs if a name repeats.
            id: Id of the entry. None: the gateway generates it.
            delay_ms: How long groups wait before they deliver the entry: at most 90 days.
            deliver_at_ms: Alternative to `delay_ms`: a unix time in ms.
            ttl_ms: How long groups may deliver the entry.
            expires_at_ms: Alternative to `ttl_ms`: a unix time in ms.
            create_stream: Whether to create the stream if it does not exist.
            idempotency_key: A repeat with the same key appends nothing and returns the first id.
                Default: a new key for each append if the client has a `producer`, otherwise none.
            if_last_id: Append only if this is the last id of the stream; otherwise raise
                `LastIdMismatch`.

        Raises:
            AnswerLost: The entry may have been appended. With an idempotency key, the client
                repeats the append.
            Problem: The gateway refused the entry.
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
        """Append all entries or none, and return their ids. See `append`.

        An `Entry` is appended with its own id and times. A `Draft` has options, as in
        `Draft({"sku": "42"}, delay_ms=60_000)`.
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
            after: Only entries after this id. `$`: only new entries.
            start: First id of a range, inclusive.
            end: Last id of a range, inclusive.
            limit: Maximum number of entries.
            reverse: Return the range in descending order.
            wait_ms: How long to wait for an entry after `after`. At the end of a closed stream, the
                read does not wait.
            filter: Only entries that match, such as `{"exact": {"sku": "42"}}`. A page can be empty
                even if more entries follow: for a range, continue until `next_after` (or
                `next_before`) is None; after an id, until `next_after` is `last_id`.
            columns: Names of the fields to return. None: all fields.
            archived: Also read archived entries if the stream has an archive.
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
        """Yield the entries that exist now, in pages of `limit`.

        Args:
            after: An id, or `0` for all entries.
            limit: Number of entries per page.
            filter: Only entries that match. A page can be empty.
        """
        return self._portal.iterate(self._inner.pages(after=after, limit=limit, filter=filter))

    def scan(
        self, *, after: str = "0", limit: int = 1000, filter: Filter | None = None
    ) -> Iterator[Entry]:
        """Yield the entries that exist now, one by one.

        Args:
            after: An id, or `0` for all entries.
            limit: Number of entries per request.
            filter: Only entries that match.
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
        """Follow the stream: iterate over its entries and wait for new ones (XREAD BLOCK).

        The iterator resumes after each loss of the connection, without lost or repeated entries. It
        ends after the last entry of a closed stream.

        Args:
            after: An id, `0` for all entries, or `$` for new entries only.
            credit: Maximum number of entries in flight to this program.
            on_state: Called when entries arrive, when all entries have been read (`caught_up`),
                when the stream has ended (`closed`), and when the connection is `lost`, with the
                reason.
            filter: Only entries that match, such as `{"exact": {"sku": "42"}}`.
        """
        return BlockingFollowing(
            self._inner.follow(after=after, credit=credit, on_state=on_state, filter=filter),
            self._portal,
        )

    def table(self) -> BlockingTable:
        """Return the table of a stream with a `key_field`: the latest entry of each key."""
        return BlockingTable(self._inner.table(), self._portal)

    def read_arrow(
        self,
        *,
        start: str = "-",
        end: str = "+",
        schema: tables.Schema | None = None,
        filter: Filter | None = None,
    ) -> pa.Table:
        """Return entries as an Arrow table with `_id`, `_time`, and a column for each field.

        Args:
            start: First id, inclusive. `(1718000000000-0`: exclusive.
            end: Last id, inclusive.
            schema: Fields to return as columns, and their types, such as
                `{"sku": "string", "price": "float64"}`. The gateway sends only these fields. None:
                all fields, with inferred types.
            filter: See `batches`.

        Raises:
            PackageMissing: The extra `tables` is not installed.
            ValueError: A value does not match the schema.
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
        """Return entries as a pandas DataFrame with the index `_id`. See `read_arrow`."""
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
        """Return entries as a polars DataFrame. See `read_arrow`."""
        return self._portal.call(
            self._inner.read_polars(start=start, end=end, schema=schema, filter=filter)
        )

    def write_arrow(self, table: pa.Table | pa.RecordBatch, *, chunk: int = 10000) -> int:
        """Append the rows of an Arrow table, and return their number.

        Each column is a field, as text. Null values are left out. `_id` is the id of the entry.
        Each chunk is appended completely or not at all.

        Args:
            table: The rows.
            chunk: Number of rows per request.
        """
        return self._portal.call(self._inner.write_arrow(table, chunk=chunk))

    def write_pandas(self, frame: pd.DataFrame, *, chunk: int = 10000) -> int:
        """Append the rows of a pandas DataFrame, and return their number. See `write_arrow`."""
        return self._portal.call(self._inner.write_pandas(frame, chunk=chunk))

    def splits(self, *, after: str = "0-0", to: str | None = None, parts: int) -> list[Split]:
        """Split a range into at most `parts` parts with about the same number of entries.

        Args:
            after: Id after which the range starts.
            to: Last id of the range. None: the last id of the stream.
            parts: Maximum number of parts.
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
        """Return the entries that exist now as Arrow record batches, which arrive one by one.

        Args:
            start: First id, inclusive. `(1718000000000-0`: exclusive.
            end: Last id, inclusive.
            compression: `none` or `zstd`. Default: `none` for a gateway on this machine, `zstd`
                otherwise.
            columns: Names of the fields to return. None: all fields.
            filter: Only entries that match, such as `{"exact": {"sku": "42"}}`. For the syntax, see
                `readEntries` in the API.

        Raises:
            StreamNotFound: The stream does not exist.
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
        """Append all rows of a record batch or none, and return their ids.

        Args:
            rows: Column `fields`, a map of names and values; optionally `id`, and the times of
                `append` (int64).
            idempotency_key: See `append`.
        """
        return self._portal.call(self._inner.append_batch(rows, idempotency_key=idempotency_key))

    def get(self, entry_id: str) -> Entry:
        """Return an entry. Raises `EntryNotFound` if it does not exist."""
        return self._portal.call(self._inner.get(entry_id))

    def delete_entries(self, ids: Iterable[str]) -> dict[str, str]:
        """Delete entries, and return the outcome for each id (XDEL)."""
        return self._portal.call(self._inner.delete_entries(ids))

    def create(self, config: StreamConfig | None = None) -> StreamInfo:
        """Create the stream. Raises `StreamExists` if it exists with another configuration."""
        return self._portal.call(self._inner.create(config))

    def update(self, config: StreamConfig) -> StreamInfo:
        """Change the given settings and keep the others (XCFGSET)."""
        return self._portal.call(self._inner.update(config))

    def info(self) -> StreamInfo:
        """Return the length, ids and configuration of the stream (XINFO STREAM)."""
        return self._portal.call(self._inner.info())

    def detail(self, *, count: int = 10) -> StreamDetail:
        """Return the stream with its groups and their consumers (XINFO STREAM FULL).

        Args:
            count: Maximum number of entries, and of pending entries per group, to return.
        """
        return self._portal.call(self._inner.detail(count=count))

    def schema(self) -> dict[str, Any] | None:
        """Return the schema that new entries must match. None: there is no schema."""
        return self._portal.call(self._inner.schema())

    def set_schema(self, schema: Mapping[str, Any], *, force: bool = False) -> None:
        """Set the schema that new entries must match: a JSON Schema for the object of fields.

        Creates the stream if it does not exist.

        Args:
            schema: JSON Schema 2020-12. A value is parsed as JSON unless its field may be a string.
            force: Replace a schema even if the new one may refuse entries that the old one allowed.
        """
        self._portal.call(self._inner.set_schema(schema, force=force))

    def delete_schema(self) -> None:
        """Delete the schema. The stream then accepts any entries."""
        self._portal.call(self._inner.delete_schema())

    def groups(self, *, limit: int = 100) -> Iterator[GroupInfo]:
        """Yield the groups, in pages of `limit` (XINFO GROUPS)."""
        return self._portal.iterate(self._inner.groups(limit=limit))

    def trim(
        self, *, max_length: int | None = None, min_id: str | None = None, approximate: bool = False
    ) -> int:
        """Remove the oldest entries, and return their number (XTRIM).

        If the answer is lost, the client repeats the request. The result is then the number that
        the repeat removed.

        Args:
            max_length: Number of entries to keep.
            min_id: Keep entries from this id on.
            approximate: Faster, but may keep a few more entries.
        """
        return self._portal.call(
            self._inner.trim(max_length=max_length, min_id=min_id, approximate=approximate)
        )

    def trim_archive(self, *, before: str | None = None) -> int:
        """Delete archived entries permanently, and return their number.

        Args:
            before: Keep entries from this id on. None: delete all.
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
        """Close the stream permanently, optionally with a last entry, in one step.

        Followers receive the remaining entries, and then their iterators end. Iterators of
        consumers end when the group has settled everything. Closing a closed stream without an
        entry changes nothing.

        Args:
            fields: Fields of the last entry. None: no entry.
            create_stream: Whether to create the stream for the last entry if it does not exist.
            idempotency_key: Key for the last entry. See `append`.
            if_last_id: Close only if this is the last id of the stream; otherwise raise
                `LastIdMismatch`.

        Raises:
            StreamClosed: The stream is closed already, and there is an entry to append.
            AnswerLost: The stream may be closed. With an idempotency key, the client repeats the
                request.
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
        """Delete the stream and its groups (DEL)."""
        self._portal.call(self._inner.delete())


class BlockingMessages:
    """The messages of a channel as they arrive: an iterator, and a context manager that ends it."""

    def __init__(self, inner: Messages, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    def __enter__(self) -> Self:
        """Wait until the gateway confirms the subscription. Raise the problem if it refuses."""
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._portal.end(self._inner.__aexit__(*error))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        return self._portal.step(self._inner)

    def close(self) -> None:
        """End the subscription."""
        self._portal.end(self._inner.aclose())


class BlockingChannel:
    """A channel by name. You do not need to create it. Creating this object sends nothing.

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
        """Publish a message, any JSON, and return the number of subscribers.

        It is delivered at most once and not stored: subscribers that are disconnected or too slow
        miss it. If the answer is lost, the client does not publish it again.
        """
        return self._portal.call(self._inner.publish(data))

    def subscribe(
        self,
        *,
        presence: Mapping[str, Any] | None = None,
        key: str | None = None,
        on_state: OnState | None = None,
    ) -> BlockingMessages:
        """Receive the messages that are published from now on.

        As a context manager, it enters when the gateway has confirmed the subscription. It resumes
        after each loss of the connection, but misses messages that are published meanwhile.

        Args:
            presence: Data that others see about this program, at most 1,024 bytes of JSON. None: it
                is not present.
            key: Name of this connection. Another connection with the same name replaces it.
            on_state: Called when messages arrive (`live`), and when the connection is `lost`.
        """
        return BlockingMessages(
            self._inner.subscribe(presence=presence, key=key, on_state=on_state), self._portal
        )

    def members(self, *, limit: int = 100) -> Members:
        """Return the present members: the first `limit`, and the total number."""
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
        """Create the push or replace it. None means the default of the gateway.

        The answer has the `secret` only when it is new. An existing push keeps its secret if the
        gateway can still read it.

        Args:
            url: URL of the receiver.
            concurrency: Maximum number of concurrent requests.
            timeout_ms: Timeout for a request, including its answer.
            body: Format of the body: one entry, several entries, or CloudEvents.
            batch_max: Maximum number of entries in a request that has several.
            signature: `v1`: signed with the secret. `v1a`: signed with a key of the gateway.
            disable_after_ms: Disable the push after only failures for this long.
            attempts_days: How many days attempts are kept. 0: not at all.
            headers: Headers of each request. The gateway does not return their values.

        Raises:
            InvalidRequest: The gateway does not send requests to this URL.
            GroupNotFound: The group does not exist.
            AnswerLost: The push may have been set. Call `rotate` to get a secret that you know.
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
        """Return the state of the push and the latest answers of the receiver."""
        return self._portal.call(self._inner.info())

    def pause(self) -> PushInfo:
        """Send nothing until `resume`. Requests in progress finish."""
        return self._portal.call(self._inner.pause())

    def resume(self) -> PushInfo:
        """Resume after a pause, or after the push was disabled."""
        return self._portal.call(self._inner.resume())

    def retry(self) -> int:
        """Retry failed entries now instead of waiting, and return their number."""
        return self._portal.call(self._inner.retry())

    def test(self) -> PushAttempt:
        """Send a test event now, and return the result. No entry is sent or acknowledged."""
        return self._portal.call(self._inner.test())

    def rotate(self, *, overlap_ms: int | None = None) -> str:
        """Replace the secret, and return the new one.

        Args:
            overlap_ms: How long requests are also signed with the old secret. Default: one day.
        """
        return self._portal.call(self._inner.rotate(overlap_ms=overlap_ms))

    def attempts(self, entry_id: str | None = None, *, limit: int = 100) -> Iterator[PushAttempt]:
        """Yield the stored attempts, newest first, in pages of `limit`.

        Args:
            entry_id: Only attempts for this entry. None: all attempts.
            limit: Number of attempts per page.
        """
        return self._portal.iterate(self._inner.attempts(entry_id, limit=limit))

    def replay(
        self, start: str, end: str = "+", *, filter: Filter | None = None, dry_run: bool = False
    ) -> PushReplay:
        """Send the entries of a range again, without moving the group. `info` shows the progress.

        Args:
            start: An id, or a unix time in ms. `-`: the first entry.
            end: An id, or a unix time in ms. `+`: the last entry that the group has read.
            filter: Only entries that match.
            dry_run: Only count the entries.
        """
        return self._portal.call(self._inner.replay(start, end, filter=filter, dry_run=dry_run))

    def cancel_replay(self) -> PushReplay:
        """Cancel the current replay."""
        return self._portal.call(self._inner.cancel_replay())

    def delete(self) -> None:
        """Delete the push. The group and its pending entries remain."""
        self._portal.call(self._inner.delete())


class BlockingSchedule:
    """A schedule by name. Creating this object sends nothing.

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
        """Create the schedule or replace it.

        Args:
            stream: Stream to append the entries to.
            fields: Fields of each entry. The gateway adds `_schedule` and `_due_ms` after them.
            cron: Minute, hour, day of month, month, day of week.
            time_zone: IANA time zone name.
            missed: What to do with due times that were missed: `run_once` runs the latest of them
                late, `skip` runs none.
            paused: Whether the schedule is paused until `resume`.

        Raises:
            InvalidRequest: The expression or the time zone is not valid, or the time never occurs.
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
        """Change parts of the schedule. Arguments that are None keep their value."""
        return self._portal.call(
            self._inner.update(
                stream=stream, fields=fields, cron=cron, time_zone=time_zone, missed=missed
            )
        )

    def pause(self) -> ScheduleInfo:
        """Append nothing until `resume`."""
        return self._portal.call(self._inner.pause())

    def resume(self) -> ScheduleInfo:
        """End the pause. Due times missed during the pause are skipped."""
        return self._portal.call(self._inner.resume())

    def info(self) -> ScheduleInfo:
        """Return the next due time, the last entry and the last problem."""
        return self._portal.call(self._inner.info())

    def run(self) -> str:
        """Append the entry now and return its id. Due times do not change."""
        return self._portal.call(self._inner.run())

    def delete(self) -> None:
        """Delete the schedule. Its stream remains."""
        self._portal.call(self._inner.delete())


class BlockingConsuming:
    """The jobs of one consumer as they arrive: an iterator, and a context manager that ends it.

    At the end, pending acknowledgements are sent and confirmed, and unsettled entries go back to
    the group.
    """

    def __init__(self, inner: Consuming, portal: Portal) -> None:
        """Run the calls of `inner` on the loop of a portal."""
        self._inner = inner
        self._portal = portal

    @property
    def consumer(self) -> str | None:
        """Return the name of the consumer. None: the gateway has not generated it yet."""
        return self._inner.consumer

    @property
    def lag(self) -> int | None:
        """Return the number of entries that the group had not read when the last ones arrived."""
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
        """Take no more entries. Waiting readers get `StopIteration`."""
        self._portal.run(self._inner.stop)

    def close(self) -> None:
        """End the subscription after everything that was settled has been answered."""
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
        """Return its push, which sends its entries to a URL. The push need not exist."""
        return BlockingPush(self._inner.push, self._portal)

    def create(
        self, *, start: str = "$", create_stream: bool = True, policy: Policy | None = None
    ) -> GroupInfo:
        """Create the group. Does nothing if it exists with this policy (XGROUP CREATE).

        Args:
            start: Id after which the group reads. `0`: all entries, `$`: only new entries.
            create_stream: Also create the stream if it does not exist.
            policy: The policy of the group.

        Raises:
            GroupExists: The group exists with another policy.
        """
        return self._portal.call(
            self._inner.create(start=start, create_stream=create_stream, policy=policy)
        )

    def update(self, *, start: str | None = None, policy: Policy | None = None) -> GroupInfo:
        """Change the position or the policy. None keeps the value (XGROUP SETID)."""
        return self._portal.call(self._inner.update(start=start, policy=policy))

    def info(self) -> GroupInfo:
        """Return the position, lag, number of pending entries and policy (XINFO GROUPS)."""
        return self._portal.call(self._inner.info())

    def delete(self) -> None:
        """Delete the group and its pending entries (XGROUP DESTROY)."""
        self._portal.call(self._inner.delete())

    def signal(self, key: str, value: object = None) -> None:
        """Resume handlers that wait for a key, now or later. See `Job.wait_for`.

        Args:
            key: The key that they wait for. The last signal of a key counts, for 90 days.
            value: The value that they receive. It is stored as JSON.
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
        """Consume entries: iterate over jobs and wait for new ones (XREADGROUP BLOCK).

        It ends when the stream is closed and the group has settled all of its entries.

        Args:
            consumer: Name of the consumer. None: the gateway generates one, and removes it at the
                end.
            credit: Maximum number of entries in flight to this program or in work.
            claim_idle_ms: Claim entries of other consumers that have been idle for this long.
                Default: the group's policy.
            on_disconnect: What to do with unsettled entries when the connection ends.
            on_claimed: Called with the id of an entry that was claimed, and the consumer that
                claimed it.
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
        """Read entries with one request (XREADGROUP). `consume` is faster and settles them for you.

        It does not wait if the stream is closed and the group has settled all of its entries;
        `consume` ends then.

        Args:
            consumer: Name of the consumer.
            limit: Maximum number of entries.
            wait_ms: How long to wait if there are no entries.
            claim_idle_ms: First claim entries of any consumer that have been idle for this long.
            after: Return this consumer's own pending entries after this id. `0`: all of them.
            ack: Ids of entries to acknowledge first.
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
        """Acknowledge entries, and return the outcome of each (XACK).

        Args:
            ids: Ids of the entries.
            consumer: Name of the consumer. If set, entries that another consumer has claimed stay
                with it (`claimed`).
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
        """Give entries back, and return the outcome of each (XNACK). See `Job.nack`."""
        return self._portal.call(
            self._inner.nack(ids, consumer=consumer, mode=mode, delay_ms=delay_ms, error=error)
        )

    def extend(self, ids: Iterable[str], *, consumer: str) -> dict[str, Outcome]:
        """Restart the idle time of entries so that no consumer claims them (XCLAIM JUSTID)."""
        return self._portal.call(self._inner.extend(ids, consumer=consumer))

    def claim(self, ids: Iterable[str], *, consumer: str, min_idle_ms: int = 0) -> list[Delivery]:
        """Claim pending entries that have been idle for this long (XCLAIM).

        Entries that do not fit into one answer are not claimed. Claim them with another call.
        """
        return self._portal.call(self._inner.claim(ids, consumer=consumer, min_idle_ms=min_idle_ms))

    def autoclaim(
        self, *, consumer: str, min_idle_ms: int, start: str = "0-0", limit: int = 100
    ) -> Claimed:
        """Claim any pending entries that have been idle for this long, in batches (XAUTOCLAIM).

        Args:
            consumer: Consumer that receives the entries.
            min_idle_ms: Minimum idle time.
            start: Id at which to start.
            limit: Maximum number of entries to claim.
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
        """Return the entries that were delivered but not acknowledged (XPENDING).

        Args:
            start: First id, inclusive. To continue after the last id of a page, put `(` before it.
            end: Last id, inclusive.
            limit: Maximum number of entries.
            consumer: Only entries of this consumer.
            min_idle_ms: Only entries that have been idle for at least this long.
        """
        return self._portal.call(
            self._inner.pending(
                start=start, end=end, limit=limit, consumer=consumer, min_idle_ms=min_idle_ms
            )
        )

    def pending_summary(self) -> PendingSummary:
        """Return the number of pending entries, in total and per consumer (XPENDING)."""
        return self._portal.call(self._inner.pending_summary())

    def consumers(self, *, limit: int = 100) -> Iterator[ConsumerInfo]:
        """Yield the consumers, in pages of `limit` (XINFO CONSUMERS)."""
        return self._portal.iterate(self._inner.consumers(limit=limit))

    def keys(self, *, order: KeyOrder = "waiting", limit: int = 100) -> list[GroupKey]:
        """Return the keys of a fair group, each with its waiting entries, their age, and its share.

        Args:
            order: `waiting`: keys with the most waiting entries first. `age`: oldest entries first.
            limit: Maximum number of keys.
        """
        return self._portal.call(self._inner.keys(order=order, limit=limit))

    def delete_consumer(self, consumer: str, *, drop: bool = False) -> int:
        """Delete a consumer, and return the number of entries that it held (XGROUP DELCONSUMER).

        Args:
            consumer: Name of the consumer.
            drop: Remove its entries from the group. Default: release them to other consumers.
        """
        return self._portal.call(self._inner.delete_consumer(consumer, drop=drop))

    def redrive(
        self, ids: Iterable[str] | None = None, *, limit: int | None = None
    ) -> list[Redriven]:
        """Deliver dead letters of this group again, oldest first.

        Args:
            ids: Ids of entries in the dead letter stream. None: the oldest.
            limit: Maximum number of entries. None: 100.
        """
        return self._portal.call(self._inner.redrive(ids, limit=limit))


class BlockingGroups(Working[Groups, BlockingJob]):
    """The group of one name in all streams that match. Creating this object sends nothing.

    Streams take turns, and each entry has its `stream`. Streams that are created later are
    included.

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

        The push need not exist. `set` uses `create` and `weights` of this object.
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
        """Consume entries: iterate over jobs and wait for new ones. See `Group.consume`.

        Args:
            consumer: Name of the consumer. None: the gateway generates one, and removes it at the
                end.
            credit: Maximum number of entries in flight to this program or in work.
            claim_idle_ms: Claim entries of other consumers that have been idle for this long.
                Default: the policy of the group in each stream.
            on_disconnect: What to do with unsettled entries when the connection ends.
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
        """Read entries with one request. `consume` is faster and settles entries for you.

        Args:
            consumer: Name of the consumer.
            limit: Maximum number of entries.
            wait_ms: How long to wait if there are no entries.
            claim_idle_ms: First claim entries of any consumer that have been idle for this long.
            max_pending: Maximum number of entries that the consumer may hold in all of the streams.
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
        """Acknowledge entries, and return the outcome of each (XACK). See `Group.ack`."""
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
        """Give entries back, and return the outcome of each (XNACK). See `Job.nack`."""
        return self._portal.call(
            self._inner.nack(ids, consumer=consumer, mode=mode, delay_ms=delay_ms, error=error)
        )

    def extend(self, ids: IdsOfStreams, *, consumer: str) -> OutcomesOfStreams:
        """Restart the idle time of entries so that no consumer claims them (XCLAIM JUSTID)."""
        return self._portal.call(self._inner.extend(ids, consumer=consumer))


class Client:
    """A client for a gateway. Use it as a context manager, or call `close` when done.

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
        """Create a client. Sends nothing yet.

        Args:
            url: URL of the gateway. For several gateways that share a bucket, a list of URLs, or
                URLs separated by commas. Requests go to the one that leads, and to no other
                addresses than these. Default: `HEADGATE_URL`, or port 8080 on this machine.
            token: A key or a token, or a function that returns one and is called again when the
                previous one has ended, such as a `TokenFile`. An empty string means no token.
                Default: the file that `HEADGATE_TOKEN_FILE` names, or `HEADGATE_TOKEN`, or no
                token.
            producer: Name of this program as a producer. If set, each append has an idempotency
                key, and is repeated if its answer is lost.
            retry_s: How long requests are retried while the gateway cannot be reached. Each URL is
                tried at least once.
            rate_limit_s: How long requests are retried while the gateway refuses them with
                `RateLimited`. Default: `retry_s`.
            answer_s: Timeout for an answer, in addition to the time that the request itself waits.
            tls: TLS context with the certificates to trust. Default: those of public authorities.
            insecure: Send the token over plain HTTP to other machines, too. Default: whether
                `HEADGATE_INSECURE` is set.
            transport: Transport for HTTP requests. Default: that of httpx.

        Raises:
            ValueError: The URL is not valid.
            CredentialError: Others could read the token, or the token is not valid.
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
        """Return the URL that requests currently go to."""
        return self._inner.url

    def close(self) -> None:
        """Close all connections. Iterators of followers and consumers raise an error."""
        self._portal.end(self._inner.aclose())
        self._portal.close()

    def readiness(self) -> Readiness:
        """Return the state of the gateway.

        Raises:
            Draining: The gateway is about to stop.
            NotLeader: No gateway can change streams now.
        """
        return self._portal.call(self._inner.readiness())

    def ready(self) -> str:
        """Return `ok` if the gateway is ready for requests. See `readiness`."""
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
        """Send a request to an operation that has no method here, and return the JSON answer.

        Args:
            method: HTTP method, such as `GET`.
            path: Percent-encoded path, such as `/v1/limits`.
            query: Query parameters. Those that are None are left out.
            body: Value to send as JSON. None: no body.
            headers: Additional headers.
            wait_ms: How long the operation itself may wait, in addition to `answer_s`.
            is_repeatable: Whether the request may be sent twice. Default: true unless it is a POST.

        Raises:
            Problem: The gateway refused the request.
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
        """Create a ticket: a token that a server gives to the page of a signed-in user.

        Args:
            stream: The only stream that the ticket gives access to. None: no stream.
            do: What the ticket allows on the stream and the channel. The caller must have these
                rights, too.
            group: With `consume`, the group.
            consumer: With `consume`, the only consumer that the page may be. None: any consumer.
            channel: With `publish` and `subscribe`, the only channel that the ticket gives access
                to.
            user: Name of the user, as shown in presence. Default: the caller.
            ttl_s: Lifetime in seconds: at most one hour, and no longer than the credential of the
                caller.
        """
        return self._portal.call(
            self._inner.ticket(
                stream, do, group=group, consumer=consumer, channel=channel, user=user, ttl_s=ttl_s
            )
        )

    def stream(self, name: str) -> BlockingStream:
        """Return a stream by name. The stream need not exist."""
        return BlockingStream(self._inner.stream(name), self._portal)

    def group(self, stream: str, name: str) -> BlockingGroup:
        """Return a group of a stream. The group need not exist."""
        return BlockingGroup(self._inner.group(stream, name), self._portal)

    def groups(
        self,
        name: str,
        *,
        match: str,
        create: MissingGroups | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> BlockingGroups:
        """Return the group of this name in all streams that match. None of them need exist.

        Args:
            name: Name of the group.
            match: A Redis pattern, such as `orders.*`.
            create: Create the group in streams that lack it, with this start and policy. None: skip
                those streams.
            weights: Number of entries that each stream delivers per turn. Default: 1.
        """
        return BlockingGroups(
            self._inner.groups(name, match=match, create=create, weights=weights), self._portal
        )

    def channel(self, name: str) -> BlockingChannel:
        """Return a channel by name. You do not need to create it."""
        return BlockingChannel(self._inner.channel(name), self._portal)

    def commit(
        self, *steps: Step, consumer: str | None = None, idempotency_key: str | None = None
    ) -> list[list[str]]:
        """Execute all steps or none, and return the ids of the entries that each step appended.

        `Job.commit` also acknowledges a job.

        Args:
            steps: Steps created with `headgate.client.commits`, such as `append("bills", fields)`.
            consumer: The consumer that settles entries, if a step does that.
            idempotency_key: A repeat with the same key changes nothing. Default: a new key for each
                commit, so the client repeats the commit if the answer is lost.

        Raises:
            NotYours: An entry is not pending with the consumer.
            Problem: Another step failed. Nothing has changed.
        """
        return self._portal.call(
            self._inner.commit(*steps, consumer=consumer, idempotency_key=idempotency_key)
        )

    def schedule(self, name: str) -> BlockingSchedule:
        """Return a schedule by name. The schedule need not exist."""
        return BlockingSchedule(self._inner.schedule(name), self._portal)

    def schedules(self, *, limit: int = 100) -> Iterator[ScheduleInfo]:
        """Yield the schedules of the streams that the caller can see, in pages of `limit`."""
        return self._portal.iterate(self._inner.schedules(limit=limit))

    def pushes(self, *, limit: int = 100) -> Iterator[PushSummary]:
        """Yield the pushes of the groups that the caller may manage, in pages of `limit`."""
        return self._portal.iterate(self._inner.pushes(limit=limit))

    def streams(
        self, *, prefix: str = "", limit: int = 100, internal: bool = False
    ) -> Iterator[StreamInfo]:
        """Yield streams whose names start with `prefix`, in pages of `limit` (SCAN TYPE stream).

        Args:
            prefix: Prefix of the names.
            limit: Number of streams per page.
            internal: Also yield the internal streams of the gateway, whose names start with `__`.
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
        """Follow all streams whose names match, including streams that are created later.

        Each entry has its `stream`. Entries of one stream arrive in order. Following resumes after
        each loss of the connection. An entry can then arrive twice.

        Args:
            match: A Redis pattern, such as `orders.*`.
            after: An id that applies to every stream, `0` for all entries, or `$` for new entries
                only.
            credit: Maximum number of entries in flight to this program.
            on_state: Called when entries arrive, when all entries have been read (`caught_up`), and
                when the connection is `lost`, with the reason.
            filter: Only entries that match, such as `{"exact": {"sku": "42"}}`.
        """
        return BlockingFollowing(
            self._inner.follow(match, after=after, credit=credit, on_state=on_state, filter=filter),
            self._portal,
        )

    def plan(
        self, cursors: Sequence[Cursor], *, max_entries: int | None = None, wait_ms: int = 0
    ) -> list[Plan]:
        """Return a plan of the next read for each cursor, in the same order.

        Args:
            cursors: At most one cursor per stream.
            max_entries: Maximum number of entries of all streams together, shared in proportion to
                the backlog of each stream. None: all entries.
            wait_ms: How long to wait if no stream has new entries.
        """
        return self._portal.call(
            self._inner.plan(cursors, max_entries=max_entries, wait_ms=wait_ms)
        )

    def writer(self, name: str) -> BlockingWriter:
        """Return a writer by name. It appends each of its batches exactly once."""
        return BlockingWriter(self._inner.writer(name), self._portal)
