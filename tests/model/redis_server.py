"""A real redis-server for comparison: started on a free port, spoken to in RESP2."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Words = list[bytes]


def words(*parts: object) -> Words:
    return [part if isinstance(part, bytes) else str(part).encode() for part in parts]


class RedisError(str):
    """An error reply."""

    __slots__ = ()


class Redis:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._file = self._socket.makefile("rb")

    def run(self, command: Words) -> Any:
        """Send a command; returns its reply as bytes, int, None, list or `RedisError`."""
        self.send(command)
        return self.reply()

    def send(self, *commands: Words) -> None:
        """Send commands, and leave their replies for `reply`."""
        parts = []
        for command in commands:
            parts.append(b"*%d\r\n" % len(command))
            parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in command]
        self._socket.sendall(b"".join(parts))

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def reply(self) -> Any:
        """Wait for the next reply."""
        line = self._file.readline()[:-2]
        kind, content = line[:1], line[1:]
        if kind == b"+":
            return content.decode()
        if kind == b"-":
            return RedisError(content.decode())
        if kind == b":":
            return int(content)
        length = int(content)
        if length < 0:
            return None
        if kind == b"$":
            return self._file.read(length + 2)[:-2]
        return [self.reply() for _ in range(length)]


def server_path() -> str | None:
    return shutil.which("redis-server")


@contextmanager
def redis_server(folder: Path) -> Iterator[Redis]:
    """Run a server while the context lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    path = server_path()
    assert path is not None
    options = ["--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen([path, *options], stdout=subprocess.DEVNULL)
    try:
        redis = _connected(port)
        try:
            yield redis
        finally:
            redis.close()
    finally:
        process.terminate()
        process.wait(10)


def _connected(port: int) -> Redis:
    for _ in range(200):
        try:
            return Redis(port)
        except OSError:
            time.sleep(0.02)
    raise TimeoutError("redis-server does not answer")
