"""Replies: what a client gets, in the order of its commands, and in as few writes as possible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from headgate.app.backends.port import Reply, Status
from headgate.app.resp.encoder import RESP2, encode, pieces
from headgate.app.runtime.turns import Turn
from headgate.engine.errors import StreamError

_LARGE_BYTES: Final = 2**20
"""Replies that are so large together are sent before more of them are made."""


class Replies:
    """The replies that are not sent yet, and whether the client wants any."""

    SENT: Final = Status()
    """Instead of a reply that the client does not get."""

    def __init__(
        self, write: Callable[[bytes], None], until_taken: Callable[[], Awaitable[None]]
    ) -> None:
        """Begin with none.

        Args:
            write: sends bytes to the client.
            until_taken: waits until the client has not too much to take.
        """
        self.protocol = RESP2
        self._write = write
        self._until_taken = until_taken
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
        """Add what has become of a command. A large reply is sent while it is encoded."""
        if outcome is self.SENT or self._is_left_out():
            return
        if not isinstance(outcome, list):
            self._add(encode(outcome, self.protocol))
        else:
            turn = Turn()
            for piece in pieces(outcome, self.protocol):
                self._add(piece)
                if self.are_large:
                    self.flush()
                    await self._until_taken()
                await turn.pause()

    def add_texts(self, texts: Sequence[bytes]) -> None:
        """Add bulk strings, as the replies to appends are."""
        encoded = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
        if not self._sends_all:
            encoded = [each for each in encoded if not self._is_left_out()]
        self._add(b"".join(encoded))

    def change(self, mode: bytes) -> Reply:
        """Send replies, or none, or none to the next command (CLIENT REPLY)."""
        if mode == b"SKIP":
            if self._sends_all:
                self._sends_all, self._skips = False, 1
            return self.SENT
        self._sends_all, self._skips = mode == b"ON", 0
        return Status("OK") if self._sends_all else self.SENT

    def flush(self) -> None:
        """Send them."""
        if self._parts:
            data, self._parts, self._size_bytes = b"".join(self._parts), [], 0
            self._write(data)

    def _add(self, data: bytes) -> None:
        self._parts.append(data)
        self._size_bytes += len(data)

    def _is_left_out(self) -> bool:
        """Tell whether the client does not want the next reply, and count it."""
        if self._sends_all:
            return False
        if self._skips:
            self._skips -= 1
            self._sends_all = not self._skips
        return True
