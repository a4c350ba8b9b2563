"""Analyst: reads with Spark what came of late, in a process of its own, behind everybody else."""

import asyncio
import os
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from typing import NamedTuple

_NICENESS = 10
"""Java and its garbage collection wait until the measured processes have had their time."""

_WRITTEN = """
    SELECT writer, count(*), count(DISTINCT n), min(n), max(n) FROM numbered GROUP BY writer
"""


class Written(NamedTuple):
    """The entries of one writer, who numbers them."""

    writer: str
    entries: int
    numbers: int
    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        """Tell whether each number from the first to the last is there, and once."""
        return self.entries == self.numbers == self.last - self.first + 1


def missing() -> str | None:
    """Return why there is no Spark here; None if there is."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    from headgate.pipeline.java import JavaMissing, find_java  # noqa: PLC0415 - the bench goes without Spark, too

    try:
        find_java()
    except JavaMissing as error:
        return str(error)
    return None


class Analyst:
    """Reads one stream until closed."""

    def __init__(self, url: str, stream: str) -> None:
        """Get ready to read this stream of the gateway at this address."""
        self._stream = url, stream
        self._process = ProcessPoolExecutor(1, get_context("spawn"), os.nice, (_NICENESS,))

    def close(self) -> None:
        """End the process, once what it reads has been read."""
        self._process.shutdown()

    async def read(self, start_ms: int) -> list[Written]:
        """Return the entries from this time on, by writer; the first call waits for Java."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._process, _read, *self._stream, start_ms)


def _read(url: str, stream: str, start_ms: int) -> list[Written]:
    from headgate.pipeline.session import session  # noqa: PLC0415 - it needs pyspark

    spark = session(master="local[1]", app="headgate soak", conf={"spark.log.level": "OFF"})
    reader = spark.read.format("headgate").options(url=url, subscribe=stream)
    entries = reader.option("startingTimestamp", start_ms).load()
    numbered = entries.selectExpr("fields['by'] AS writer", "cast(fields['n'] AS bigint) AS n")
    numbered.createOrReplaceTempView("numbered")
    return [Written(*row) for row in spark.sql(_WRITTEN).collect()]
