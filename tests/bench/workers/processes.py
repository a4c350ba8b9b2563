"""The processes of one gateway: the one with the engine, and the ones that serve."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.bench.servers import cpu_s

_START_S_MAX = 60.0


class Processes(NamedTuple):
    """The processes of a gateway."""

    engine: int
    workers: Sequence[int]

    @classmethod
    def below(cls, supervisor: int, worker_count: int) -> Self:
        """Return the processes that a supervisor has started, once all are there."""
        ends_s = time.perf_counter() + _START_S_MAX
        while time.perf_counter() < ends_s:
            roles = {process_id: _role(process_id) for process_id in _children(supervisor)}
            engines = [each for each, role in roles.items() if role == "engine"]
            workers = [each for each, role in roles.items() if role == "worker"]
            if (len(engines), len(workers)) == (1, worker_count):
                return cls(engines[0], workers)
            time.sleep(0.05)
        raise TimeoutError("the gateway has not started all of its processes")

    @property
    def engine_cpu_s(self) -> float:
        """Return the seconds of CPU that the engine has used."""
        return cpu_s(self.engine)

    @property
    def workers_cpu_s(self) -> float:
        """Return the seconds of CPU that all workers together have used."""
        return sum(map(cpu_s, self.workers))

    def move_to(self, cores: Sequence[int]) -> None:
        """Let all of them run on these cores only."""
        for process_id in (self.engine, *self.workers):
            move_to(process_id, cores)


def move_to(process_id: int, cores: Sequence[int]) -> None:
    """Let all threads of a process run on these cores only."""
    for thread in Path(f"/proc/{process_id}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def _children(process_id: int) -> list[int]:
    return [
        int(child)
        for path in Path(f"/proc/{process_id}/task").glob("*/children")
        for child in path.read_text().split()
    ]


def _role(process_id: int) -> str:
    """Return the role that stands in the command line: `-m headgate.app.workers ROLE …`."""
    words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
    at = words.index(b"headgate.app.workers") + 1 if b"headgate.app.workers" in words else 0
    return words[at].decode().partition(" ")[0] if at else ""
