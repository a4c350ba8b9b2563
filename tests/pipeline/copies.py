"""A query that copies a stream, to be run again and again."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

WAIT_S_MAX = 120


class Copies:
    """Copies `name` to `name-copy`, as often as it is run."""

    def __init__(self, spark: SparkSession, url: str, name: str, checkpoint: Path) -> None:
        self.spark = spark
        self.url = url
        self.name = name
        self.checkpoint = checkpoint

    def run(self, *, entries_max: int = 100) -> None:
        """Copy the present entries, so many a micro-batch."""
        rows = (
            self.spark.readStream.format("headgate")
            .options(url=self.url, subscribe=self.name, startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", entries_max)
            .load()
        )
        query = (
            rows.drop("id")
            .writeStream.format("headgate")
            .options(url=self.url, stream=f"{self.name}-copy")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(WAIT_S_MAX)

    def forget_commits(self, count: int) -> None:
        """Make the checkpoint what it is after a kill between a write and Spark's note of it."""
        done = sorted((self.checkpoint / "commits").glob("[0-9]*"), key=lambda it: int(it.name))
        for path in done[-count:]:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
