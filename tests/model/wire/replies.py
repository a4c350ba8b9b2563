"""Replies as bytes, and as trees that say of each part what it is."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

Tree = tuple[Any, ...]
"""The type byte, and the content: bytes, a list of trees, or nothing for a null."""


class Wire:
    """A connection whose replies are bytes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def send(self, *pieces: bytes) -> None:
        """Send bytes, each piece by itself."""
        for piece in pieces:
            self._socket.sendall(piece)

    def reply(self) -> bytes:
        """Wait for the next reply, and return its bytes."""
        parts: list[bytes] = []
        missing = 1
        while missing:
            missing += self._part(parts) - 1
        return b"".join(parts)

    def _part(self, parts: list[bytes]) -> int:
        """Read a part of a reply; returns how many parts it has of its own."""
        line = self._file.readline()
        if not line:
            raise ConnectionError("the connection has ended")
        parts.append(line)
        kind = line[:1]
        if kind in b"+-:_#,(":
            return 0
        size = int(line[1:])
        if size < 0:
            return 0
        if kind in b"$=!":
            parts.append(self._file.read(size + 2))
            return 0
        return size * 2 if kind == b"%" else size

    def run(self, data: bytes, count: int = 1) -> list[bytes]:
        """Send commands; returns their replies."""
        self.send(data)
        return [self.reply() for _ in range(count)]

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def split_replies(data: bytes) -> list[bytes]:
    """Return the replies that bytes are."""
    replies, begin = [], 0
    while begin < len(data):
        _, end = _tree(data, begin)
        replies.append(data[begin:end])
        begin = end
    return replies


def parts_of(reply: bytes) -> list[bytes]:
    """Return the items of an array, or the names and values of a map."""
    return split_replies(reply[reply.index(b"\n") + 1 :])


def tree_of(reply: bytes) -> Tree:
    """Return the values of a reply, and the types of its parts."""
    tree, end = _tree(reply, 0)
    assert end == len(reply)
    return tree


def _tree(data: bytes, at: int) -> tuple[Tree, int]:
    end = data.index(b"\r\n", at)
    kind, content, end = data[at : at + 1], data[at + 1 : end], end + 2
    if kind in b"+-:_#,(":
        return (kind, content), end
    size = int(content)
    if size < 0:
        return (kind, None), end
    if kind in b"$=!":
        return (kind, data[end : end + size]), end + size + 2
    items = []
    for _ in range(size * 2 if kind == b"%" else size):
        item, end = _tree(data, end)
        items.append(item)
    return (kind, items), end


def written(command: Sequence[bytes]) -> bytes:
    """Return a command as client libraries write it."""
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in command]
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))
