"""Reports about queries while they run."""

from __future__ import annotations

import threading
from pathlib import Path

from prometheus_client import generate_latest
from pyspark.sql import SparkSession

from headgate.client.blocking import Client
from headgate.pipeline.progress import Progress, Report
from tests.pipeline.gateway import Gateway

WAIT_S_MAX = 60


def test_a_query_says_what_it_read_and_what_is_left(
    spark: SparkSession, gateway: Gateway, name: str, tmp_path: Path
) -> None:
    gateway.append(name, [{"n": str(at)} for at in range(30)])
    reports: list[Report] = []
    is_done = threading.Event()

    def note(report: Report) -> None:
        reports.append(report)
        if sum(report.entries for report in reports) == 30:
            is_done.set()

    listener = Progress(Client(gateway.url), on_report=note)
    spark.streams.addListener(listener)
    try:
        reading = spark.readStream.format("headgate").option("maxOffsetsPerTrigger", 20)
        reading = reading.options(url=gateway.url, subscribe=name, startingOffsets="earliest")
        query = (
            reading.load()
            .writeStream.format("noop")
            .queryName(name)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(WAIT_S_MAX)
        assert is_done.wait(WAIT_S_MAX)
    finally:
        spark.streams.removeListener(listener)
    assert [report.entries for report in reports if report.entries] == [20, 10]
    assert reports[0].lag == {name: 10}
    metrics = generate_latest(listener.registry).decode()
    assert f'headgate_query_entries_total{{query="{name}"}} 30.0' in metrics
