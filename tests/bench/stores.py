"""A gateway over a directory, with bounded memory, that is started again and again."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pyarrow as pa

from deploy.local_cluster.server import free_ports
from headgate.client import tables
from tests.bench.seeded import Kind
from tests.bench.servers import RestartedServer, children_cpu_s, cpu_s, family_resident_bytes

STREAM = "bench"
ARROW = "application/vnd.apache.arrow.stream"
SETTLE_S = 0.1
_PATH = f"/v1/streams/{STREAM}/entries"


class GatewayStore:
    """The gateway; its batches come as Arrow."""

    def __init__(
        self,
        directory: Path,
        kind: Kind,
        memory_bytes_max: int,
        fsync: str = "everysec",
        log: Path | None = None,
        *,
        is_pinned: bool = True,
    ) -> None:
        """Describe a gateway with so much memory on a directory."""
        self._kind, [self.port] = kind, free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "headgate.app.cli", "serve", "--port", str(self.port)]
        command += ["--data-dir", str(directory), "--fsync", fsync, "--log-level", "warning"]
        variables = {"HEADGATE_MEMORY_BYTES_MAX": str(memory_bytes_max)}
        self.server = RestartedServer(command, self._is_ready, variables, log, is_pinned=is_pinned)

    def start(self, seconds_max: float = 600) -> float:
        return self.server.start(seconds_max)

    def stop(self) -> None:
        self.server.stop()

    def connection(self) -> "GatewayConnection":
        return GatewayConnection(self.port, self._kind)

    def settle(self) -> None:
        connection = self.connection()
        while connection.journal()["is_rewriting"]:
            time.sleep(SETTLE_S)
        connection.close()

    def cpu_s(self) -> float:
        return cpu_s(self.server.process_id) + children_cpu_s(self.server.process_id)

    def resident_bytes(self) -> int:
        return family_resident_bytes(self.server.process_id)

    def _is_ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


class RefusalError(Exception):
    """The gateway did not take entries."""


class GatewayConnection:
    """One HTTP connection."""

    def __init__(self, port: int, kind: Kind) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=120)
        self._kind = kind

    def prepared(self, begin: int, count: int) -> bytes:
        return tables.encoded(self._kind.record_batch(begin, count))

    def append(self, body: bytes) -> float:
        """Append entries, and return the seconds.

        Raises:
            RefusalError: they were not taken.
        """
        began_s = time.perf_counter()
        self._http.request("POST", f"{_PATH}/batch", body, {"Content-Type": ARROW})
        answer = self._http.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - began_s
        if answer.status >= 300:
            raise RefusalError(content.decode())
        return seconds

    def batches(self) -> Iterator[Any]:
        """Yield all entries as record batches with a column `fields`."""
        self._http.request("GET", f"{_PATH}?compression=none", headers={"Accept": ARROW})
        answer = self._http.getresponse()
        assert answer.status == 200, answer.read()
        yield from pa.ipc.open_stream(answer)
        answer.read()  # the end of the answer, behind that of the stream

    def journal(self) -> Mapping[str, Any]:
        """Return the state of the journal."""
        state: Mapping[str, Any] = json.loads(self._asked("GET", "/v1/admin/journal"))
        return state

    def length(self) -> int:
        """Return how many entries there are."""
        return int(json.loads(self._asked("GET", f"/v1/streams/{STREAM}"))["length"])

    def close(self) -> None:
        self._http.close()

    def _asked(self, method: str, path: str) -> bytes:
        self._http.request(method, path)
        answer = self._http.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content
