"""A connection to a real redis-server, in RESP2: what its commands reply is the measure."""

import socket
from typing import Any

Words = list[bytes]


def words(*parts: object) -> Words:
    return [part if isinstance(part, bytes) else str(part).encode() for part in parts]


def lines(text: str) -> list[str]:
    """Return the commands of a text with / between them."""
    return text.split(" / ")


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
