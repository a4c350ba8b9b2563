"""A program that works with a token in every way, and keeps whatever Spark says of it.

`python -m tests.pipeline.traces <master> <gateway> <stream> <folder>` reads and writes streams, and
runs a query, unless the master is a Connect server. The token is that of the variable
HEADGATE_TOKEN, or else that of TOKEN_AS_OPTION, which is given as an option. What Spark says goes
into the folder: plans, progress, errors, and, if the master is no Connect server, its log, its
events and its temporary files.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.pipeline.session import session

EXPLAINED = ("simple", "extended", "codegen", "cost", "formatted")
NOWHERE = "http://127.0.0.1:1"


def conf_of(folder: Path) -> dict[str, str]:
    """Return a configuration in which Spark writes down whatever it can."""
    logging = folder / "log4j2.properties"
    logging.write_text(
        f"""
        rootLogger.level = debug
        rootLogger.appenderRef.file.ref = file
        appender.file.type = File
        appender.file.name = file
        appender.file.fileName = {folder}/spark.log
        appender.file.layout.type = PatternLayout
        appender.file.layout.pattern = %p %c: %m%n%ex
        """
    )
    (folder / "events").mkdir()
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(folder / "local"),
    }


def queried(spark: SparkSession, options: dict[str, str], stream: str, folder: Path) -> object:
    """Run a query that copies the stream; return what Spark says of it."""
    entries = spark.readStream.format("headgate").options(**options, subscribe=stream)
    query = (
        entries.option("startingOffsets", "earliest")
        .load()
        .writeStream.format("headgate")
        .options(**options, stream=f"{stream}-again")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(extended=True)
    return query.lastProgress


def main(master: str, url: str, stream: str, place: str) -> None:
    folder = Path(place)
    token = os.environ.get("TOKEN_AS_OPTION")
    options = {"url": url} | ({"token": token} if token else {})
    if master.startswith("sc://"):
        spark = session(remote=master)
    else:
        spark = session(master=master, conf=conf_of(folder))

    with (folder / "output").open("w") as output, redirect_stdout(output):

        def failed(action: Callable[[], Any]) -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001 - its text is what is looked at
                output.write(f"{error} {error!r}")
            else:
                raise AssertionError("it should have failed")

        rows = spark.read.format("headgate").options(**options, subscribe=stream).load()
        for mode in EXPLAINED:
            rows.where("ms > 0").explain(mode=mode)
        assert rows.count() > 0
        writer = rows.write.format("headgate").mode("append")
        writer.options(**options, stream=f"{stream}-copy").save()
        away = {**options, "url": NOWHERE, "retryTimeoutMs": "0"}
        failed(writer.options(**away, stream="x").save)
        failed(spark.read.format("headgate").options(**away, subscribe="x").load().count)
        misspelt = spark.read.format("headgate").options(**options, tokn="x")
        failed(lambda: misspelt.load().count())
        if not master.startswith("sc://"):
            output.write(str(queried(spark, options, stream, folder)))
    if not master.startswith("sc://"):
        shutil.copytree(folder / "local", folder / "blocks")  # they are gone once it stops
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
