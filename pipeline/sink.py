"""Writers of streams: tasks stage what they write with the gateway, the driver commits it whole.

Exactly once: the gateway appends what the counting attempts staged in one record, together with the
number of the batch, and a batch it has seen changes nothing. So a retried task, a repeated commit
and a query that is killed and restarted leave each row in its stream once.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headgate.client import Attempt, HeadgateError
from headgate.client.problems import TooLarge
from headgate.pipeline.options import OptionError, WriteOptions
from headgate.pipeline.rows.ahead import ahead
from headgate.pipeline.rows.schema import Drafts, chunks_of

CHUNK_ENTRIES_MAX = 10_000
CHUNK_BYTES_MAX = 8 * 2**20
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of a task's write; `chunks` is 0 if it appended them itself."""

    writer: str
    batch: int
    partition: int
    attempt: str
    chunks: int
    entries: int


class _Writer:
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._drafts = Drafts(
            schema,
            options.stream,
            nested_as_json=options.nested_as_json,
            skip_empty=options.skip_empty,
        )

    def _write(self, rows: Iterator[pa.RecordBatch], writer: str, batch: int) -> Written:
        """Write the rows of a task, or all rows where there is no Spark."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        task = _Task(self._options, self._drafts, writer, batch, partition, uuid.uuid4().hex)
        with self._options.connection:
            for chunk in ahead(self._chunks(rows)):
                task.send(chunk)
        return task.written()

    def _chunks(self, rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        for records in rows:
            yield from chunks_of(
                self._drafts.of(records),
                entries_max=CHUNK_ENTRIES_MAX,
                size_bytes_max=CHUNK_BYTES_MAX,
            )

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        staged = [part for part in written if part.chunks]
        if not written or not self._options.is_exactly_once:
            return
        with self._options.connection as client:
            client.writer(written[0].writer).commit(
                written[0].batch,
                [Attempt(part.partition, part.attempt, part.chunks) for part in staged],
            )

    def _abort(self, writer: str, batch: int) -> None:
        """Discard the staged chunks. The gateway does so in time anyway, so this may fail."""
        if self._options.is_exactly_once:
            with suppress(HeadgateError), self._options.connection as client:
                client.writer(writer).abort(batch)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame: all of it or nothing, and only once under a jobId."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a stream only grows: write with mode append")
        super().__init__(options, schema)
        # Made on the driver and sent along, so that all tasks and the commit agree.
        self._job_id = options.job_id or f"spark-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write(iterator, self._job_id, self._options.job_batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        self._abort(self._job_id, self._options.job_batch)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        assert query is not None
        assert batch is not None
        return self._write(iterator, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Discard the staged chunks, if a task got far enough to name the writer."""
        for message in messages:
            if isinstance(message, Written):
                self._abort(message.writer, batchId)
                return


class _Task:
    def __init__(
        self,
        options: WriteOptions,
        drafts: Drafts,
        writer: str,
        batch: int,
        partition: int,
        attempt: str,
    ) -> None:
        self._options = options
        self._drafts = drafts
        self._writer = writer
        self._batch = batch
        self._partition = partition
        self._attempt = attempt
        self._chunks = 0
        self._entries = 0

    def written(self) -> Written:
        chunks = self._chunks if self._options.is_exactly_once else 0
        return Written(
            self._writer, self._batch, self._partition, self._attempt, chunks, self._entries
        )

    def send(self, chunk: pa.RecordBatch) -> None:
        """Send a chunk; if it is too large for the gateway, in halves."""
        try:
            if self._options.is_exactly_once:
                self._stage(chunk)
            else:
                self._append(chunk)
        except TooLarge:
            if len(chunk) == 1:
                raise
            half = len(chunk) // 2
            self.send(chunk.slice(0, half))
            self.send(chunk.slice(half))
            return
        self._entries += len(chunk)

    def _stage(self, chunk: pa.RecordBatch) -> None:
        self._options.connection.client.writer(self._writer).stage(
            self._batch,
            partition=self._partition,
            attempt=self._attempt,
            chunk=self._chunks,
            rows=chunk,
            stream=self._options.stream,
        )
        self._chunks += 1

    def _append(self, chunk: pa.RecordBatch) -> None:
        """Append a chunk, stream by stream, each under a key that makes a repeat safe."""
        streams = [self._options.stream]
        if self._options.stream is None:
            streams = chunk.column("stream").unique().to_pylist()
        client = self._options.connection.client
        for stream in streams:
            assert stream is not None
            rows = chunk
            if self._options.stream is None:
                is_of = pc.equal(chunk.column("stream"), stream)
                rows = chunk.filter(is_of).drop_columns(["stream"])
            key = None if self._drafts.has_id else f"{self._attempt}/{self._chunks}"
            client.stream(stream).append_batch(rows, idempotency_key=key)
            self._chunks += 1
