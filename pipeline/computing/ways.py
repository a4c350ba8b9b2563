"""The two ways that a job is computed: in this process, and on Spark.

A job says once what it computes, in two steps. A task makes columns of entries, batch by batch,
with Arrow. A query makes the answer from these columns, in SQL that both DuckDB and Spark run: what
Spark calls otherwise is a macro of `_AS_SPARK`.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector

from headgate.pipeline.computing.entries import Place, Task
from headgate.pipeline.lakefile import open_filesystem
from headgate.pipeline.options import write_options
from headgate.pipeline.sink import BatchWriter
from headgate.pipeline.terminal.flags import Flags
from headgate.pipeline.terminal.report import ProgressLine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_AS_SPARK = """
SET TimeZone = 'UTC';
CREATE MACRO approx_count_distinct(x) AS count(DISTINCT x);
CREATE MACRO percentile_approx(x, share) AS quantile_disc(x, share);
CREATE MACRO timestamp_millis(ms) AS make_timestamptz(ms * 1000);
CREATE MACRO xxhash64(x) AS x;
"""
"""There is room here to compare the values themselves, where Spark compares their hashes."""

_OF_A_JOB = re.compile(r"\.?(part-|_SUCCESS|_committed_|_started_).*")


class Way(Protocol):
    """A way that a job is computed."""

    def rows(self, places: Sequence[Place], task: Task, schema: pa.Schema) -> Any:
        """Return what a task makes of entries; it can be queried once."""

    def kept(self, rows: Any) -> Any:
        """Return rows that can be queried more than once."""

    def table(
        self, query: str, *, limit: int | None = None, names: Sequence[str] = (), **given: Any
    ) -> pa.Table:
        """Return the answer to a query.

        Args:
            query: SQL, with what is given by its name in braces.
            limit: rows at most.
            names: of the columns, instead of those in the query.
            given: rows, and SQL or numbers that stand for themselves.
        """

    def write(self, out: str, query: str, *, names: Sequence[str] = (), **given: Any) -> int:
        """Write the answer to a query as Parquet into a folder; returns how many rows it has."""

    def append(self, options: Mapping[str, str], query: str, **given: Any) -> None:
        """Append the answer to a query to a stream, in its order, with the connector."""


def way_of(flags: Flags, job: str, total: int, progress: ProgressLine | None = None) -> Way:
    """Return the way for so many entries, and say which on standard error.

    Args:
        flags: what the person wants.
        job: its name.
        total: entries that are read.
        progress: counts them; None: the job does.
    """
    if flags.fits_into_memory(job, total):
        return _InMemory(progress)
    return _OnSpark(flags.spark(job), total, progress)


class _InMemory:
    def __init__(self, progress: ProgressLine | None) -> None:
        self._progress = progress
        self._error: BaseException | None = None

    def rows(self, places: Sequence[Place], task: Task, schema: pa.Schema) -> pa.RecordBatchReader:
        batches: Iterable[pa.RecordBatch] = (rows for place in places for rows in place.batches())
        if self._progress is not None:
            batches = self._progress.counted(batches)
        return pa.RecordBatchReader.from_batches(schema, self._noting_error(task(batches)))

    def kept(self, rows: pa.RecordBatchReader) -> pa.Table:
        return rows.read_all()

    def table(
        self, query: str, *, limit: int | None = None, names: Sequence[str] = (), **given: Any
    ) -> pa.Table:
        import duckdb  # noqa: PLC0415 - Spark's tasks do without it

        with duckdb.connect(config={"temp_directory": tempfile.gettempdir()}) as database:
            database.execute(_AS_SPARK)
            rows = _rows_in(given)
            for name, value in rows.items():
                database.register(name, value)
            try:
                answer = database.sql(query.format(**given | {name: name for name in rows}))
                table = (answer if limit is None else answer.limit(limit)).to_arrow_table()
            except duckdb.Error:
                if self._error is not None:  # DuckDB has only its text
                    raise self._error from None
                raise
        return table.rename_columns(list(names)) if names else table

    def write(self, out: str, query: str, *, names: Sequence[str] = (), **given: Any) -> int:
        table = self.table(query, names=names, **given)
        if "://" not in out:
            path = Path(out)
            if path.is_file():
                path.unlink()
            path.mkdir(parents=True, exist_ok=True)
            out = str(path.resolve())
        filesystem = open_filesystem(out)
        for file in filesystem.get_file_info(FileSelector("", allow_not_found=True)):
            if _OF_A_JOB.fullmatch(file.base_name):
                filesystem.delete_file(file.path)
        with filesystem.open_output_stream(f"part-{uuid.uuid4()}.parquet") as sink:
            pq.write_table(table, sink, compression="zstd")
        return len(table)

    def append(self, options: Mapping[str, str], query: str, **given: Any) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        table = self.table(query, **given)
        named = {name.lower(): text for name, text in options.items()}
        schema = from_arrow_schema(table.schema)
        writer = BatchWriter(write_options(named, is_query=False), schema, overwrite=False)
        try:
            written = writer.write(iter(table.to_batches()))
        except BaseException:
            writer.abort([])
            raise
        writer.commit([written])

    def _noting_error(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except (Exception, KeyboardInterrupt) as error:
            self._error = error
            raise


class _OnSpark:
    def __init__(self, spark: SparkSession, total: int, progress: ProgressLine | None) -> None:
        self._spark = spark
        self._total = total
        self._progress = progress

    def rows(self, places: Sequence[Place], task: Task, schema: pa.Schema) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        columns = from_arrow_schema(schema)
        frames = [place.frame(self._spark, task, columns) for place in places]
        return reduce(lambda frame, other: frame.union(other), frames)

    def kept(self, rows: DataFrame) -> DataFrame:
        return rows.cache()

    def table(
        self, query: str, *, limit: int | None = None, names: Sequence[str] = (), **given: Any
    ) -> pa.Table:
        answer = self._answer(query, names, given)
        return self._done((answer if limit is None else answer.limit(limit)).toArrow)

    def write(self, out: str, query: str, *, names: Sequence[str] = (), **given: Any) -> int:
        answer = self._answer(query, names, given)
        self._done(lambda: answer.write.mode("overwrite").parquet(out))
        return self._spark.read.parquet(out).count()

    def append(self, options: Mapping[str, str], query: str, **given: Any) -> None:
        writer = self._answer(query, (), given).write.format("headgate").mode("append")
        writer.options(**options).save()

    def _answer(self, query: str, names: Sequence[str], given: Mapping[str, Any]) -> DataFrame:
        rows = _rows_in(given)
        named = query.format(**{**given, **{name: f"{{{name}}}" for name in rows}})
        answer = self._spark.sql(named, **rows)
        return answer.toDF(*names) if names else answer

    def _done(self, run: Callable[[], T]) -> T:
        """Return the result, with the entries counted by the tasks that have finished."""
        if self._progress is None:
            return run()
        with self._progress.watching(self._spark):
            result = run()
        self._progress.advance(self._total - self._progress.done)
        return result


def _rows_in(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if not isinstance(value, str | int)}


def check_out(out: str) -> None:
    """Check that nothing is lost where results are to be: the result of a job is replaced.

    Raises:
        click.ClickException: there is something else.
    """
    folder = Path(out)
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    others = [name for name in names if not _OF_A_JOB.fullmatch(name)]
    if others:
        raise click.ClickException(f"--out {out} has {others[0]}, which no job wrote")


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    """Return rows with maps as dictionaries."""
    rows: list[dict[str, object]] = table.to_pylist(maps_as_pydicts="lossy")
    return rows
