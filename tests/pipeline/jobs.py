"""Jobs in processes of their own, with their own Java, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from deploy.local_cluster.waiting import until
from tests.pipeline.gateway import ROOT
from tests.pipeline.in_turn import line_of
from tests.pipeline.java import SHORT_LIVED

PATIENCE_S = 180  # a machine may have much else to do


class Job:
    """A process that runs jobs in turn, in a session of its own: it dies with its Java."""

    def __init__(self, *commands: Sequence[str], output: IO[str]) -> None:
        self._output = output
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.in_turn", *map(line_of, commands)],
            cwd=ROOT,
            env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._output,
            start_new_session=True,
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_more(self, count: Callable[[], int]) -> None:
        """Look until a number has grown; the job has to go on meanwhile."""
        before = count()

        def has_more() -> bool:
            assert self.is_running, self.output()
            return count() > before

        until(has_more, PATIENCE_S, "the job has done more")

    def finish(self) -> None:
        """Wait for its end, which has to be a good one."""
        assert self._process.wait(PATIENCE_S) == 0, self.output()

    def output(self) -> str:
        """Return the output on standard error."""
        self._output.seek(0)
        return self._output.read()

    def kill(self) -> None:
        """End all of it at once, if it is there."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def kill_executor(self) -> None:
        """End one process that runs tasks."""
        os.kill(self._executors()[0], signal.SIGKILL)

    def _executors(self) -> list[int]:
        """Return the processes of its session that run tasks, the oldest first."""
        executors = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                session_id = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
                words = (folder / "cmdline").read_bytes()
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            if session_id == self._process.pid and b"CoarseGrainedExecutorBackend\0" in words:
                executors.append(int(folder.name))
        return sorted(executors)


@contextmanager
def job(*commands: Sequence[str]) -> Iterator[Job]:
    """Run jobs in turn, each given by its words; whatever is left at the end is killed."""
    with tempfile.TemporaryFile("w+") as output:
        started = Job(*commands, output=output)
        try:
            yield started
        finally:
            started.kill()
