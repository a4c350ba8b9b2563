"""Connector: Spark reads and writes a stream, beside the same rows as NDJSON and from nothing.

`ENTRIES=5000000 make bench ARGS=connector` measures with so many entries; a million is usual.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from headgate.client.blocking import Client
from headgate.client.tables import entries_of
from headgate.pipeline.session import session
from tests.bench.figures import Figure
from tests.bench.servers import children_cpu_s, serving_process

ENTRIES = int(os.environ.get("ENTRIES", "1000000"))
WRITTEN_MAX = 1_000_000
"""With more entries nothing is written, and fewer rounds are made."""
ROUNDS, WARMING = (3, 3) if ENTRIES <= WRITTEN_MAX else (2, 1)
"""The first ones last until Java has compiled what is measured."""
TASKS = 2
"""One for each core that Spark has."""
BATCH = 10_000
SCHEMA = "user string, kind string, price double, amount bigint, temp double, note string"
_STREAM = "rows"
_MADE = (
    "concat('user-', id * 7919 % 50000) AS user",
    "elt(id % 3 + 1, 'sale', 'return', 'view') AS kind",
    "id % 10000 / 100 AS price",
    "id % 100 AS amount",
    "id % 500 / 10 - 10 AS temp",
    "concat('note ', id) AS note",
)
"""The rows, as Spark makes them to be written."""


def measure() -> list[Figure]:
    """Return the costs of each way to read and to write."""
    with serving_process("headgate") as (port, process_id), tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{port}"
        if hasattr(os, "sched_setaffinity"):  # Spark takes what cores there are, the gateway too
            everywhere = set(range(os.cpu_count() or 1))
            os.sched_setaffinity(0, everywhere)
            os.sched_setaffinity(process_id, everywhere)
        _fill(url)
        spark = session(master="local[2]", app="headgate bench", conf={"spark.log.level": "OFF"})
        costs = _costs(_works(spark, url, folder))
        spark.stop()
    return _figures({work: _Cost.median(rounds) for work, rounds in costs.items()})


class _Cost(NamedTuple):
    """The rate of a work, and its CPU in all processes: it differs less on a busy machine."""

    rows_s: float
    cpu_us: float  # of one row

    @classmethod
    def median(cls, costs: Sequence[Self]) -> Self:
        """Return the medians of rounds."""
        return cls(*(statistics.median(values) for values in zip(*costs, strict=True)))


def _figures(costs: dict[str, _Cost]) -> list[Figure]:
    """Return the costs beside those of NDJSON, one column also beside all of them."""
    peer = "NDJSON by Spark"
    ndjson = costs.pop(peer)
    at_least = {"six columns": 600e3, "at least once": 300e3, "exactly once": 200e3}
    figures = [
        Figure(
            work, cost.rows_s, "rows/s", peer, ndjson.rows_s,
            at_least=ENTRIES / 0.5 if work.startswith("nothing:") else at_least.get(work),
        )
        for work, cost in costs.items()
    ]  # fmt: skip
    column, columns = costs["one column"], costs["six columns"]
    return [
        *figures,
        Figure(
            "one column", column.rows_s, "rows/s", "six columns", columns.rows_s, ratio_at_least=2
        ),
        *(
            Figure(f"{work}, CPU", cost.cpu_us, "µs", peer, ndjson.cpu_us)
            for work, cost in costs.items()
        ),
    ]


def _costs(works: dict[str, Callable[[], None]]) -> dict[str, list[_Cost]]:
    """Return the costs of all rounds, in which each work has its turn."""
    costs: dict[str, list[_Cost]] = {work: [] for work in works}
    for number in range(-WARMING, ROUNDS):
        print(f"connector: round {number + 1} of {ROUNDS}" if number >= 0 else "warming up")
        for work, run in works.items():
            began_s, cpu_began_s = time.perf_counter(), _cpu_s()
            run()
            seconds, cpu = time.perf_counter() - began_s, _cpu_s() - cpu_began_s
            if number >= 0:
                costs[work].append(_Cost(ENTRIES / seconds, cpu / ENTRIES * 1e6))
    return costs


def _cpu_s() -> float:
    """Return the CPU of all processes below this one: the gateway, Java, and Python in Spark."""
    return children_cpu_s(os.getpid())


def _works(spark: SparkSession, url: str, folder: str) -> dict[str, Callable[[], None]]:
    """Return everything that is measured, by name."""
    _write_ndjson(folder)
    spark.dataSource.register(Nothing)
    nothing = spark.read.format("nothing").schema(SCHEMA)

    def rows(schema: str = SCHEMA, *, pushes: bool = False) -> DataFrame:
        reader = spark.read.format("headgate").options(url=url, subscribe=_STREAM)
        reader.options(maxRecordsPerPartition=-(-ENTRIES // TASKS), pushFilters=pushes)
        return reader.schema(schema).load()

    def filtered(condition: Column) -> None:
        assert not rows(pushes=True).filter(condition).collect()

    def counted(schema: str) -> None:
        assert rows(schema).count() == ENTRIES

    names = count()
    made = spark.range(0, ENTRIES, 1, TASKS).selectExpr(*_MADE)

    def written(guarantee: str) -> None:
        to = f"written-{next(names)}"
        options = {"url": url, "stream": to, "deliveryGuarantee": guarantee}
        made.write.format("headgate").mode("append").options(**options).save()
        with Client(url) as client:
            client.stream(to).delete()

    works: dict[str, Callable[[], None]] = {
        "NDJSON by Spark": lambda: _drain(spark.read.schema(SCHEMA).json(folder)),
        "six columns from nothing": lambda: _drain(nothing.load()),
        "six columns": lambda: _drain(rows()),
        "one column": lambda: _drain(rows("price double")),
        "count": partial(counted, "_id string"),
        "nothing: user = …": partial(filtered, col("user") == "nobody"),
        "nothing: user in …": partial(filtered, col("user").isin("nobody", "none", "nil")),
        "nothing: price > …": partial(filtered, col("price") > 1e6),
        "nothing: amount = …": partial(filtered, col("amount") == -1),
    }
    if ENTRIES <= WRITTEN_MAX:
        works |= {
            "write to nothing": lambda: made.write.format("nothing").mode("append").save(),
            "at least once": partial(written, "at-least-once"),
            "exactly once": partial(written, "exactly-once"),
        }
    return works


def _drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _batch(begin: int) -> pa.RecordBatch:
    """Return rows with these numbers."""
    numbers = range(begin, begin + BATCH)
    return pa.RecordBatch.from_pydict(
        {
            "user": [f"user-{number * 7919 % 50_000}" for number in numbers],
            "kind": [("sale", "return", "view")[number % 3] for number in numbers],
            "price": [number % 10_000 / 100 for number in numbers],
            "amount": [number % 100 for number in numbers],
            "temp": [number % 500 / 10 - 10 for number in numbers],
            "note": [f"note {number}" for number in numbers],
        }
    )


def _fill(url: str) -> None:
    with Client(url) as client:
        stream = client.stream(_STREAM)
        for begin in range(0, ENTRIES, BATCH):
            stream.append_batch(entries_of(_batch(begin)))


def _write_ndjson(folder: str) -> None:
    """Write the rows into a file for each task."""
    share = ENTRIES // TASKS
    for task in range(TASKS):
        begins = range(task * share, (task + 1) * share, BATCH)
        frames = (_batch(begin).to_pandas() for begin in begins)
        lines = "".join(frame.to_json(orient="records", lines=True) for frame in frames)
        Path(folder, f"{task}.json").write_text(lines)


class Nothing(DataSource):
    """A source in Python of rows from nothing, and a writer that drops them: no I/O of ours."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def reader(self, schema: StructType) -> "NothingReader":
        return NothingReader()

    def writer(self, schema: StructType, overwrite: bool) -> "NothingWriter":
        return NothingWriter()


class NothingReader(DataSourceReader):
    """Yields the same batch again and again."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(0)
        for _ in range(ENTRIES // TASKS // BATCH):
            yield batch


class NothingWriter(DataSourceArrowWriter):
    """Takes all batches."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
