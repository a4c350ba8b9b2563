"""Places that take turns: one process, a gateway with two workers, and Webdis with two threads."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from tests.bench import peers
from tests.bench.servers import SERVER_CORE, serving_process
from tests.bench.workers.processes import Processes, move_to

WORKERS = 2

ALL_CORES = range(os.cpu_count() or 1)
ONE_CORE = (SERVER_CORE % len(ALL_CORES),)


class Place(NamedTuple):
    """A gateway of one process, or a peer."""

    port: int
    process_id: int


class Places(NamedTuple):
    """All that run side by side."""

    single: Place
    port: int  # of the gateway with workers
    processes: Processes
    webdis: Place | None
    redis_id: int | None

    def move_to(self, cores: Sequence[int]) -> None:
        """Let all servers run on these cores only."""
        self.processes.move_to(cores)
        others = [self.single.process_id, self.redis_id]
        others += [] if self.webdis is None else [self.webdis.process_id]
        for process_id in others:
            if process_id is not None:
                move_to(process_id, cores)


@contextmanager
def places() -> Iterator[Places]:
    """Run all while the context lasts. Journals are synced every second."""
    with ExitStack() as servers:
        single = Place(*servers.enter_context(serving_process("headgate")))
        port, supervisor = servers.enter_context(serving_process("headgate", workers=WORKERS))
        redis = servers.enter_context(peers.redis())
        webdis = servers.enter_context(peers.webdis_process(redis, threads=2))
        yield Places(
            single,
            port,
            Processes.below(supervisor, WORKERS),
            None if webdis is None else Place(*webdis),
            None if redis is None else peers.process_id(redis),
        )
