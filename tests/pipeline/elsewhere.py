"""A program that copies a stream on whichever Spark it is told, and says what its tasks saw.

`python -m tests.pipeline.elsewhere <master> <gateway> <stream>` copies `<stream>` to
`<stream>-copy`, with its ids, and prints how many rows the tasks had
and where they have the package from.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pyarrow as pa

from headgate.pipeline.session import session

TASKS = 4


def whereabouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of rows of a task, and the file of its package."""
    from headgate import pipeline  # noqa: PLC0415 - this runs on an executor

    rows = sum(len(batch) for batch in batches)
    package = str(pipeline.__file__)
    yield pa.RecordBatch.from_pydict({"rows": [rows], "file": [package]})


def main(master: str, url: str, stream: str) -> None:
    conf = {"spark.log.level": "OFF", "spark.cores.max": "2"}
    conf["spark.scheduler.minRegisteredResourcesRatio"] = "1"  # both workers take part
    if master.startswith("sc://"):
        spark = session(remote=master)
    else:
        spark = session(master=master, conf=conf)
    reader = spark.read.format("headgate").options(url=url, subscribe=stream)
    rows = reader.option("minPartitions", TASKS).load()
    writer = rows.coalesce(1).write.format("headgate").mode("append")
    writer.options(url=url, stream=f"{stream}-copy").save()
    counted = rows.mapInArrow(whereabouts, "rows bigint, file string").collect()
    print(
        json.dumps(
            {
                "rows": sum(row["rows"] for row in counted),
                "files": sorted({row["file"] for row in counted}),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
