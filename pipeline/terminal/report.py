"""Reports of a job: results on standard output, progress on standard error."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from headgate.pipeline.location import cause_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CALLING = re.compile(r"An error occurred while calling ")
"""The first words of py4j for any error of the JVM."""

_THROWN = re.compile(r"^(?:Caused by)?: *(?:[\w$]+\.)+([\w$]+)(?:: (.+))?$", re.MULTILINE)

_HINT = "(?:No token was sent|The token was that of)"


def message_of(error: BaseException) -> str:
    """Return the message of an error for the person at the terminal, in one line.

    An error in a task reaches the driver as text: a worker's traceback, wrapped in messages of the
    JVM.
    """
    text = str(error).strip() or type(error).__name__
    cause = cause_of(text)
    if cause is not None:
        return cause
    ours = re.findall(rf"^headgate\.[\w.]+: (.+(?:\n{_HINT}.+)?)$", text, re.MULTILINE)
    if ours:
        return " ".join(str(ours[-1]).splitlines())
    errors = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): (.+)$", text, re.MULTILINE)
    if errors and "Traceback" in text:
        return str(errors[-1])
    thrown: list[tuple[str, str]] = _THROWN.findall(text)
    if thrown and _CALLING.match(text):
        name, detail = next((pair for pair in reversed(thrown) if pair[1]), thrown[-1])
        return detail.strip() or name
    line = next(line.strip() for line in text.splitlines() if line.strip())
    return " ".join([line, *getattr(error, "__notes__", [])])


Row = Mapping[str, object]
Batch = TypeVar("Batch", bound=Sized)
_WIDTH_MAX = 60
_PERIOD_S = 5.0  # of lines where there is no terminal
_LOOK_S = 0.5  # how often Spark is asked for its tasks
_STDERR = 2


def answer(
    rows: Sequence[Row], *, as_json: bool, nothing: str = "nothing", is_data: bool = False
) -> None:
    """Print rows of the same names; with `is_data` numbers stay plain: a year has no comma."""
    if as_json:
        click.echo(json.dumps([dict(row) for row in rows], default=_plain, ensure_ascii=False))
        return
    if not rows:
        click.echo(nothing)
        return
    names = list(rows[0])
    table = [names, *([_text(row[name], is_data) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in table) for at in range(len(names))]
    is_number = [all(_is_number(row[name]) for row in rows) for name in names]
    for line in table:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


class ProgressLine:
    """Entries done of `total` (None: unknown) on standard error: a bar, or a line at times."""

    def __init__(
        self,
        job: str,
        total: int | None,
        what: str = "entries",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self._estimated = 0
        self._job = job
        self._total = total
        self._what = what
        self._clock = clock
        self._began_s = self._printed_s = clock()
        self._printed = -1
        console = Console(stderr=True)
        self._bar = Progress(
            *(BarColumn(), TextColumn("{task.description}", markup=False)),
            console=console,
            transient=True,
            disable=not console.is_terminal or console.is_dumb_terminal,
        )
        self._task = self._bar.add_task(self._text(), total=total)
        self._bar.start()
        context = click.get_current_context(silent=True)
        if context is not None:
            context.call_on_close(self._bar.stop)  # also where the job fails

    def advance(self, count: int) -> None:
        self.done += count
        self._show()

    def counted(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            yield batch
            self.advance(len(batch))

    @contextmanager
    def watching(self, spark: SparkSession) -> Iterator[None]:
        """Estimate the count by Spark's finished tasks, until the block ends."""
        is_over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(spark, is_over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            self._estimated = 0

    def finish(self) -> None:
        self._bar.stop()
        if self._printed != self.done:
            click.echo(self._text(), err=True)

    def _watch(self, spark: SparkSession, is_over: threading.Event) -> None:
        begin = self.done
        while not is_over.wait(_LOOK_S):
            try:
                share = _share_of_tasks(spark)
            except Exception:  # noqa: BLE001 - a Connect server tells nothing, one that ends neither
                return
            estimated = begin + int(share * ((self._total or begin) - begin))
            self._estimated = max(self._estimated, estimated)
            self._show()

    def _show(self) -> None:
        """Show the count; without a bar only if it is new, and seldom."""
        text = self._text()
        now_s = self._clock()
        if not self._bar.disable:
            self._bar.update(self._task, completed=self.shown, description=text)
        elif now_s - self._printed_s >= _PERIOD_S and self.shown > max(0, self._printed):
            self._printed_s = now_s
            self._printed = self.shown
            click.echo(text, err=True)

    @property
    def shown(self) -> int:
        """The count, or the estimate if it is higher."""
        return max(self.done, self._estimated)

    def _text(self) -> str:
        done, total = self.shown, self._total
        rate = done / max(self._clock() - self._began_s, 0.001)
        text = f"{self._job}: {done:,}"
        if total is None:
            return f"{text} {self._what}, {rate:,.0f}/s"
        text += f" of {max(total, done):,} {self._what}"
        if done >= total:
            return f"{text}, {rate:,.0f}/s"
        left = f", {_time_text((total - done) / rate)} left" if done else ""
        return f"{text}, {100 * done // total}%, {rate:,.0f}/s{left}"


def _share_of_tasks(spark: SparkSession) -> float:
    """Return the share of finished tasks in the largest stage that Spark works on."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    largest = max((stage for stage in stages if stage), key=lambda it: it.numTasks, default=None)
    return largest.numCompletedTasks / largest.numTasks if largest and largest.numTasks else 0.0


def _time_text(seconds: float) -> str:
    minutes, rest_s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest_s} s" if minutes else f"{rest_s} s"


@contextmanager
def without_noise() -> Iterator[None]:
    """Hide standard error during the block; print it if the block fails.

    A process started in the block, such as Java, stays quiet for the rest of its life.
    """
    sys.stderr.flush()
    stderr = os.dup(_STDERR)
    with tempfile.TemporaryFile() as noise:
        os.dup2(noise.fileno(), _STDERR)
        try:
            yield
        except BaseException:
            noise.seek(0)
            os.write(stderr, noise.read())
            raise
        finally:
            os.dup2(stderr, _STDERR)
            os.close(stderr)


def _text(value: object, is_data: bool) -> str:
    if value is None:
        return "-"
    if is_data and _is_number(value):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = str(_plain(value)) if not isinstance(value, str) else value
    return text if len(text) <= _WIDTH_MAX else f"{text[: _WIDTH_MAX - 1]}…"


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def _plain(value: object) -> object:
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="replace")
    return str(value)
