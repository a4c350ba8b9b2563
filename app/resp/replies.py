"""Replies: what a client gets, in the order of its commands, and in as few writes as possible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, cast

from headgate.app.redis_syntax.long_array import LongRange, long_ranges_in
from headgate.app.redis_syntax.replies import KeyedArrays, Reply, Status
from headgate.app.resp.encoder import RESP2, RESP3, encode, joined, pieces
from headgate.app.transport.sockets import UNTAKEN_BYTES_MAX
from headgate.engine.errors import StreamError
from headgate.engine.threads.turn import Turn, this_turn

_LARGE_BYTES: Final = 2**20
"""Replies that are so large together are sent before more of them are made."""


class BrokenReply(Exception):
    """A client has the beginning of a reply, and will not get its end."""


class Replies:
    """The replies that are not sent yet, and whether the client wants any."""

    SENT: Final = Status()
    """Instead of a reply that the client does not get."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        until_taken: Callable[[int], Awaitable[None]],
    ) -> None:
        """Begin with none.

        Args:
            write: sends bytes to the client.
            until_taken: waits until the client has no more than so many bytes to take.
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
        """Add the outcome of a command. A large reply is sent while it is encoded."""
        if outcome is self.SENT:
            return
        long = long_ranges_in(outcome)
        if self._is_left_out():
            for array in long:
                await array.close()
        elif isinstance(outcome, LongRange):
            await self._add_long(outcome)
        elif long:
            await self._add_keyed(cast("KeyedArrays", outcome), long)
        elif isinstance(outcome, list):
            await self._add_all(pieces(outcome, self.protocol), this_turn())
        else:
            self._add(encode(outcome, self.protocol))

    async def _add_all(self, encoded: Iterable[Sequence[bytes]], turn: Turn) -> None:
        for at, parts in enumerate(encoded):
            if at:
                await turn.pause()
            self._add(parts)
            if self.are_large:
                self.flush()
                await self._until_taken(UNTAKEN_BYTES_MAX)

    async def _add_long(self, array: LongRange) -> None:
        """Add an array page by page, as fast as the client takes it.

        Raises:
            BrokenReply: the rest cannot be read, and the client has the beginning.
        """
        turn = this_turn()
        self._add([b"*%d\r\n" % array.count])
        try:
            async for page in array.pages():
                await self._add_all((encode(item, self.protocol) for item in page), turn)
                self.flush()
                await self._until_taken(_LARGE_BYTES)
        except StreamError as error:
            raise BrokenReply(str(error)) from None
        finally:
            await array.close()

    async def _add_keyed(self, reply: KeyedArrays, long: Sequence[LongRange]) -> None:
        """Add the arrays of several streams, long ones among them."""
        is_map = self.protocol == RESP3
        self._add([(b"%%%d\r\n" if is_map else b"*%d\r\n") % len(reply)])
        try:
            for name, entries in cast("list[tuple[bytes, Reply]]", reply):
                self._add([b"" if is_map else b"*2\r\n", *encode(name, self.protocol)])
                if isinstance(entries, LongRange):
                    await self._add_long(entries)
                else:
                    self._add(encode(entries, self.protocol))
        finally:
            for array in long:
                await array.close()

    def add_texts(self, texts: Sequence[bytes]) -> None:
        """Add bulk strings, as the replies to appends are."""
        encoded = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
        if not self._sends_all:
            encoded = [each for each in encoded if not self._is_left_out()]
        self._add([b"".join(encoded)])

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
            parts, self._parts, self._size_bytes = self._parts, [], 0
            for data in joined(parts):
                self._write(data)

    def _add(self, parts: Sequence[bytes]) -> None:
        self._parts += parts
        self._size_bytes += sum(map(len, parts))

    def _is_left_out(self) -> bool:
        """Tell whether the client does not want the next reply, and count it."""
        if self._sends_all:
            return False
        if self._skips:
            self._skips -= 1
            self._sends_all = not self._skips
        return True
