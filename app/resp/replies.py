"""Replies: what a client gets, in the order of its commands, and in as few writes as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headgate.app.backends.port import Reply, Status
from headgate.app.resp.encoder import RESP2, encode_in_turns
from headgate.engine.errors import StreamError

_LARGE_BYTES: Final = 2**20
"""Replies that are so large together are sent before more commands are run."""


class Replies:
    """The replies that are not sent yet, and whether the client wants any."""

    SENT: Final = Status()
    """Instead of a reply that the client does not get."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """Begin with none.

        Args:
            write: sends bytes to the client.
        """
        self.protocol = RESP2
        self._write = write
        self._parts: list[bytes] = []
        self._size_bytes = 0
        self._sends_all = True  # or else replies are left out,
        self._skips = 0  # only so many, unless it is 0

    def reset(self) -> None:
        """Go back to the beginning (RESET)."""
        self.protocol, self._sends_all, self._skips = RESP2, True, 0

    @property
    def are_large(self) -> bool:
        """Tell whether they should be sent before more commands are run."""
        return self._size_bytes > _LARGE_BYTES

    async def add(self, outcome: Reply | StreamError) -> None:
        """Add what has become of a command."""
        if outcome is not self.SENT:
            self._add(await encode_in_turns(outcome, self.protocol))

    def add_texts(self, texts: Sequence[bytes]) -> None:
        """Add bulk strings, as the replies to appends are."""
        encoded = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
        if self._sends_all:
            data = b"".join(encoded)
            self._parts.append(data)
            self._size_bytes += len(data)
        else:
            for each in encoded:
                self._add(each)

    def change(self, mode: bytes) -> Reply:
        """Send replies, or none, or none to the next command (CLIENT REPLY)."""
        if mode == b"SKIP":
            if self._sends_all:
                self._sends_all, self._skips = False, 1
            return self.SENT
        self._sends_all, self._skips = mode == b"ON", 0
        return Status("OK") if self._sends_all else self.SENT

    def flush(self) -> int:
        """Send them; returns how many bytes that are."""
        if not self._parts:
            return 0
        data, self._parts, self._size_bytes = b"".join(self._parts), [], 0
        self._write(data)
        return len(data)

    def _add(self, data: bytes) -> None:
        if self._sends_all:
            self._parts.append(data)
            self._size_bytes += len(data)
        elif self._skips:
            self._skips -= 1
            self._sends_all = not self._skips
