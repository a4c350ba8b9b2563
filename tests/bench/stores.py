"""Stores over a directory: our gateway, Redis and SQLite, with the same calls for each."""

import json
import pickle
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from hiredis import Reader, pack_command

from headgate.client import tables
from headgate.client.entries import entry_of
from tests.bench import sqlite
from tests.bench.seeded import Kind
from tests.bench.servers import (
    RestartedServer,
    children_cpu_s,
    cpu_s,
    family_resident_bytes,
    free_port,
    pin_to_server_core,
    resident_bytes,
)
from tests.model.redis_server import Redis, server_path, words

STREAM = "bench"
ARROW = "application/vnd.apache.arrow.stream"
SETTLE_S = 0.1
_PATH = f"/v1/streams/{STREAM}/entries"
_FIRST_ID = re.compile(rb'"(\d+)-(\d+)"')


class Timed(NamedTuple):
    """The result of a call and the time of the store for it."""

    result: Any
    seconds: float


class Connection(Protocol):
    """One client of a store."""

    def prepared(self, begin: int, count: int) -> Any:
        """Return entries in the form in which `append` takes them."""

    def append(self, prepared: Any) -> float:
        """Append entries, and return the seconds."""

    def scan(self) -> Timed:
        """Read all entries, and return how many there are."""

    def read(self, number: int) -> Timed:
        """Return the values of one entry."""

    def close(self) -> None: ...


class Store(Protocol):
    """A store that is started again and again on the same data."""

    name: str

    def start(self) -> float:
        """Start it, and return the seconds until it answers."""

    def stop(self) -> None: ...

    def connection(self) -> Connection: ...

    def settle(self) -> None:
        """Wait until it has nothing to do for what was appended."""

    def cpu_s(self) -> float:
        """Return the CPU of everything since the start, rewrites included."""

    def resident_bytes(self) -> int: ...


class GatewayStore:
    """Our gateway: batches as Arrow, single entries as JSON."""

    name = "headgate"

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
        self._kind, self.port = kind, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "headgate.app.cli", "serve", "--port", str(self.port)]
        command += ["--data-dir", str(directory), "--fsync", fsync, "--log-level", "warning"]
        variables = {"HEADGATE_MEMORY_BYTES_MAX": str(memory_bytes_max)}
        self.server = RestartedServer(command, self._is_ready, variables, log, is_pinned=is_pinned)
        self._first_ids: dict[int, tuple[int, int]] = {}
        """The id of the first entry of each batch, by the entry's number."""

    def start(self, seconds_max: float = 600) -> float:
        return self.server.start(seconds_max)

    def stop(self) -> None:
        self.server.stop()

    def connection(self) -> "GatewayConnection":
        return GatewayConnection(self.port, self._kind, self._first_ids)

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

    def __init__(self, port: int, kind: Kind, first_ids: dict[int, tuple[int, int]]) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=120)
        self._kind, self._first_ids = kind, first_ids

    def prepared(self, begin: int, count: int) -> tuple[int, bytes]:
        return begin, tables.encoded(self._kind.record_batch(begin, count))

    def append(self, prepared: tuple[int, bytes]) -> float:
        """Append entries, and return the seconds.

        Raises:
            RefusalError: they were not taken.
        """
        begin, body = prepared
        began_s = time.perf_counter()
        self._http.request("POST", f"{_PATH}/batch", body, {"Content-Type": ARROW})
        answer = self._http.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - began_s
        if answer.status >= 300:
            raise RefusalError(content.decode())
        match = _FIRST_ID.search(content)
        assert match is not None
        self._first_ids[begin] = int(match[1]), int(match[2])
        return seconds

    def batches(self) -> Iterator[Any]:
        """Yield all entries as record batches with a column `fields`."""
        self._http.request("GET", f"{_PATH}?compression=none", headers={"Accept": ARROW})
        answer = self._http.getresponse()
        assert answer.status == 200, answer.read()
        yield from pa.ipc.open_stream(answer)
        answer.read()  # the end of the answer, behind that of the stream

    def scan(self) -> Timed:
        began_s = time.perf_counter()
        count = sum(map(len, self.batches()))
        return Timed(count, time.perf_counter() - began_s)

    def read(self, number: int) -> Timed:
        begin = number - number % self._kind.batch
        ms, seq = self._first_ids[begin]
        began_s = time.perf_counter()
        entry = self._asked("GET", f"{_PATH}/{ms}-{seq + number - begin}")
        seconds = time.perf_counter() - began_s
        values = entry_of(json.loads(entry)).fields.values()
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        return Timed(tuple(encoded), seconds)

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


class RedisStore:
    """Redis: everything in memory, and an append-only file."""

    name = "Redis"

    def __init__(self, directory: Path, kind: Kind) -> None:
        """Describe a server on a directory."""
        self._kind, self._port = kind, free_port()
        command = [server_path() or "redis-server", "--port", str(self._port), "--save", ""]
        command += ["--dir", str(directory), "--appendonly", "yes", "--appendfsync", "everysec"]
        self._server = RestartedServer(command, self._is_ready)

    def start(self) -> float:
        return self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def connection(self) -> "RedisConnection":
        return RedisConnection(self._port, self._kind)

    def settle(self) -> None:
        client = Redis(self._port)
        while b"aof_rewrite_in_progress:1" in client.run(words("INFO", "persistence")):
            time.sleep(SETTLE_S)
        client.close()

    def cpu_s(self) -> float:
        return cpu_s(self._server.process_id) + children_cpu_s(self._server.process_id)

    def resident_bytes(self) -> int:
        return resident_bytes(self._server.process_id)

    def _is_ready(self) -> bool:
        try:
            client = Redis(self._port)
        except OSError:
            return False
        is_ready: bool = client.run(words("PING")) == "PONG"
        client.close()
        return is_ready


class RedisConnection:
    """One connection that sends pipelines."""

    def __init__(self, port: int, kind: Kind) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._parser, self._kind = Reader(), kind

    def prepared(self, begin: int, count: int) -> tuple[int, bytes]:
        names, commands = [name.encode() for name in self._kind.fields], []
        for number, row in enumerate(self._kind.rows(begin, count), begin):
            fields = [word for pair in zip(names, row, strict=True) for word in pair]
            commands.append(_packed(b"XADD", STREAM.encode(), _redis_id(number), *fields))
        return count, b"".join(commands)

    def append(self, prepared: tuple[int, bytes]) -> float:
        count, commands = prepared
        began_s = time.perf_counter()
        self._socket.sendall(commands)
        for reply in self._replies(count):
            assert isinstance(reply, bytes), reply
        return time.perf_counter() - began_s

    def scan(self) -> Timed:
        began_s, count, start = time.perf_counter(), 0, b"-"
        while True:
            page = self._page(start, b"+", self._kind.batch)
            if not page:
                return Timed(count, time.perf_counter() - began_s)
            count, start = count + len(page), b"(" + page[-1][0]

    def read(self, number: int) -> Timed:
        entry_id, began_s = _redis_id(number), time.perf_counter()
        [[_, fields]] = self._page(entry_id, entry_id, 1)
        return Timed(tuple(fields[1::2]), time.perf_counter() - began_s)

    def close(self) -> None:
        self._socket.close()

    def _page(self, start: bytes, end: bytes, count: int) -> Any:
        command = _packed(b"XRANGE", STREAM.encode(), start, end, b"COUNT", b"%d" % count)
        self._socket.sendall(command)
        return next(self._replies(1))

    def _replies(self, count: int) -> Iterator[Any]:
        for _ in range(count):
            while (reply := self._parser.gets()) is False:
                self._parser.feed(self._socket.recv(2**18))
            yield reply


def _packed(*parts: Any) -> bytes:
    command: bytes = pack_command(parts)
    return command


def _redis_id(number: int) -> bytes:
    return b"%d-0" % (number + 1)


class SqliteStore:
    """SQLite: a table in WAL mode, each batch a transaction that is synced."""

    name = "SQLite"

    def __init__(self, directory: Path, kind: Kind) -> None:
        """Describe a table in a directory."""
        self._kind = kind
        columns = [str(directory / "entries.db"), *kind.fields]
        self._command = [sys.executable, "-m", "tests.bench.sqlite", *columns]
        self._connections: list[SqliteConnection] = []

    def start(self) -> float:
        first = self._opened()
        self._connections = [first]
        return first.opening_s

    def stop(self) -> None:
        for connection in self._connections:
            connection.end()

    def connection(self) -> "SqliteConnection":
        """Return the one that `start` made, and then others, each in a process of its own."""
        for connection in self._connections:
            if not connection.is_used:
                break
        else:
            connection = self._opened()
            self._connections.append(connection)
        connection.is_used = True
        return connection

    def settle(self) -> None:
        pass

    def cpu_s(self) -> float:
        return sum(connection.cpu_s for connection in self._connections)

    def resident_bytes(self) -> int:
        return sum(resident_bytes(connection.process_id) for connection in self._connections)

    def _opened(self) -> "SqliteConnection":
        return SqliteConnection(self._command, self._kind)


class SqliteConnection:
    """One process with the table open."""

    def __init__(self, command: list[str], kind: Kind) -> None:
        self._kind, self.is_used, self.cpu_s = kind, False, 0.0
        began_s = time.perf_counter()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process_id = self._process.pid
        pin_to_server_core(self.process_id)
        self._answer()
        self.opening_s = time.perf_counter() - began_s

    def prepared(self, begin: int, count: int) -> bytes:
        rows = self._kind.rows(begin, count)
        values = [[value.decode() for value in row] for row in rows] if self._kind.is_text else rows
        numbered = [(number, *row) for number, row in enumerate(values, begin + 1)]
        return pickle.dumps(("append", numbered))

    def append(self, prepared: bytes) -> float:
        return self._asked(prepared).seconds

    def scan(self) -> Timed:
        return self._asked(pickle.dumps(("scan",)))

    def read(self, number: int) -> Timed:
        row, seconds = self._asked(pickle.dumps(("read", number + 1)))
        encoded = [value.encode() if isinstance(value, str) else value for value in row]
        return Timed(tuple(encoded), seconds)

    def close(self) -> None:
        self.is_used = False

    def end(self) -> None:
        self._process.communicate()  # which ends its input

    def _asked(self, request: bytes) -> Timed:
        assert self._process.stdin is not None
        self._process.stdin.write(request)
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Timed:
        assert self._process.stdout is not None
        answer = sqlite.Answer(*pickle.load(self._process.stdout))
        self.cpu_s += answer.cpu_s
        return Timed(answer.result, answer.seconds)
