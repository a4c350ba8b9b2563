"""Command file: the commands that would make the copies at a server, one after the other.

`redis-cli --pipe` sends such a file to a server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from hiredis import pack_command

from headgate.app.backends.plain.commands import Words, added, commands_of
from headgate.app.backends.port import Ability
from headgate.engine.config import StreamConfig
from headgate.engine.entry import MIN_ID
from headgate.engine.replies import StreamInfo
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import ListGroups
from headgate.engine.requests.streams import DescribeStream

T = TypeVar("T")


class CommandFile:
    """Commands in RESP, written as they come. It answers what copying asks of a new copy."""

    abilities: frozenset[Ability] = frozenset()

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        """Begin with nothing.

        Args:
            write: writes a part of the file.
        """
        self._write = write
        self._lengths: Counter[bytes] = Counter()  # in entries

    async def perform(self, request: Request[T]) -> T:
        """Write the commands that carry out a request."""
        reply: Any = None
        match request:
            case ListGroups():
                reply = []
            case DescribeStream(stream):
                reply = self._info(stream)
            case _:
                commands = commands_of(request)
                self._write(b"".join(map(_packed, commands)))
        if isinstance(request, Add):
            self._lengths[request.stream] += len(request.drafts)
            reply = added(request)
        answer: T = reply
        return answer

    def _info(self, stream: bytes) -> StreamInfo:
        """Describe a copy, of which only the length is known."""
        length = self._lengths[stream]
        return StreamInfo(
            stream, 0, StreamConfig(), length, 0, MIN_ID, MIN_ID, MIN_ID, MIN_ID, length, 0
        )


def _packed(words: Words) -> bytes:
    parts: tuple[Any, ...] = tuple(words)  # hiredis takes more types than words have
    packed: bytes = pack_command(parts)
    return packed
