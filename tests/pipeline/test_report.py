"""Progress: a bar on a terminal, and lines at times where there is none."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from deploy.local_cluster.waiting import until
from headgate.pipeline.terminal.report import ProgressLine
from tests.pipeline.gateway import ROOT, Gateway
from tests.pipeline.jobs import PATIENCE_S

FAILS = """
from deploy.local_cluster.waiting import until
from headgate.pipeline.terminal.report import ProgressLine
import click

@click.command()
def main():
    ProgressLine("job", 10).advance(5)
    raise click.ClickException("no room")
main()
"""


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_lines_are_seldom_and_say_rate_share_and_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    progress = ProgressLine("archive", 100_000, clock=clock)
    for second in range(1, 21):
        clock.now_s = second / 2
        progress.advance(1000)
    assert capsys.readouterr().err.splitlines() == [
        "archive: 10,000 of 100,000 entries, 10%, 2,000/s, 45 s left",
        "archive: 20,000 of 100,000 entries, 20%, 2,000/s, 40 s left",
    ]
    clock.now_s = 16
    progress.advance(80_000)
    progress.finish()
    last = "archive: 100,000 of 100,000 entries, 6,250/s\n"
    assert capsys.readouterr().err == last


@pytest.mark.parametrize(
    ("done", "text"),
    [(1, "1,666 h 39 min"), (1000, "1 h 39 min"), (50_000, "1 min 0 s"), (99_000, "1 s")],
)
def test_the_time_that_is_left_has_two_units(
    capsys: pytest.CaptureFixture[str], done: int, text: str
) -> None:
    clock = Clock()
    progress = ProgressLine("job", 100_000, clock=clock)
    clock.now_s = 60
    progress.advance(done)
    assert capsys.readouterr().err.rstrip().endswith(f"/s, {text} left")


def test_where_nobody_knows_how_many_there_are_nothing_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    progress = ProgressLine("view", None, clock=clock)
    assert [len(batch) for batch in progress.counted([[1, 2], [3]])] == [2, 1]
    clock.now_s = 2
    progress.finish()
    assert capsys.readouterr().err == "view: 3 entries, 2/s\n"


def terminal_output(*words: str) -> str:
    """Return the output of a program on a terminal; its standard output is none."""
    near, far = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=far
    )
    os.close(far)
    written = b""
    try:
        while part := os.read(near, 65_536):
            written += part
    except OSError:  # the other end is closed
        pass
    os.close(near)
    process.wait(60)
    return written.decode()


def test_a_terminal_shows_a_bar_and_keeps_the_last_line(
    gateway: Gateway, name: str, tmp_path: Path
) -> None:
    gateway.append(name, [{"n": str(number)} for number in range(5)])
    words = ("--url", gateway.url, "--streams", name, "--lake", str(tmp_path / "lake"))
    shown = terminal_output("-m", "headgate.pipeline.cli", "archive", *words)
    assert "━" in shown
    last = shown.splitlines()[-1]
    assert re.search(r"archive: 5 of 5 entries, [\d,]+/s", last), shown


def test_a_job_that_fails_leaves_no_bar_and_a_cursor() -> None:
    shown = terminal_output("-c", FAILS)
    assert shown.rindex("\x1b[?25h") > shown.rindex("━")  # the cursor is shown again
    assert shown.splitlines()[-1].endswith("Error: no room")


def test_the_tasks_that_spark_has_finished_are_an_estimate(
    spark: SparkSession, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        until(lambda: context.partitionId() < 2 or gate.exists(), PATIENCE_S, "the gate is open")
        yield from batches

    progress = ProgressLine("stats", 4_000_000)
    rows = spark.range(0, 4, 1, 4).mapInArrow(held, "id bigint")
    with ThreadPoolExecutor(1) as threads, progress.watching(spark):
        counting = threads.submit(rows.count)
        until(lambda: progress.shown == 2_000_000, PATIENCE_S, "half is shown")
        gate.touch()
        assert counting.result(PATIENCE_S) == 4
    assert progress.shown == 0
