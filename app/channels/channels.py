"""Channels: messages that nobody keeps. Whoever listens when one is published gets it, or never.

The meaning is that of PUBLISH and SUBSCRIBE (https://redis.io/docs/latest/develop/pubsub): at most
once, in the order of one publisher, to those who listen to the name or to a pattern that it
matches. Channels have no part in the keyspace.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, Protocol

import msgspec

from headgate.app.backends.port import Relay
from headgate.app.channels.message import PLACE_BYTES, ChannelMessage
from headgate.app.runtime.siblings import Siblings
from headgate.app.wire.problems import GatewayError
from headgate.engine.eager import own_task
from headgate.engine.patterns import matcher
from headgate.engine.requests.keyspace import RESERVED, is_reserved
from headgate.engine.threads import filter_in_turns, this_turn

log = logging.getLogger("headgate")

MESSAGE_BYTES_MAX: Final = 2**20
"""Bytes of one message."""

KEPT_MAX: Final = 1_000
"""Messages that one listener has not taken yet,"""
KEPT_BYTES_MAX: Final = 2**20
"""and their bytes, unless it is a single one."""
_KEPT_TOGETHER_BYTES_MAX: Final = 64 * 2**20
"""Bytes that all listeners of this process have not taken: above it, each keeps only the newest."""

_DUE_BYTES_MAX: Final = 8 * 2**20
"""Bytes that are on their way to the listeners of this process: above it, publishers wait."""

_PLACES_BYTES_MAX: Final = 32 * 2**20
"""Memory of all subscriptions of this process."""

_PATTERNS_MAX: Final = 1_000
"""Patterns of this process: each message is compared with all of them."""

_DUE_LISTENER_BYTES: Final = 64
"""Memory of a listener to whom a message is on its way."""
_WITHIN_S: Final = 1.0
"""Time for the other workers to take a message."""

_PUBLISH, _NAMES, _COUNTS = "publish", "channel names", "channel counts"
_PATTERNS = "channel patterns"


class ChannelListener(Protocol):
    def take(self, message: ChannelMessage, pattern: bytes | None) -> None:
        """Take a message at once; `pattern` is the one it came by."""
        ...


class TakenMessage(NamedTuple):
    """What a listener takes of what it was given."""

    message: ChannelMessage | None  # None: nothing has come in time
    pattern: bytes | None = None  # by which it came
    dropped_count: int = 0  # messages before it that had to make room


class Mailbox:
    """What a listener has not taken yet. The oldest messages make room, and are counted."""

    __slots__ = (
        "_channels",
        "_dropped",
        "_is_closed",
        "_kept",
        "_kept_bytes",
        "_send_at_once",
        "_wanted",
    )

    def __init__(
        self, channels: Channels, send_at_once: Callable[[ChannelMessage], bool] | None = None
    ) -> None:
        """`send_at_once` sends a message if nothing waits; false if it cannot."""
        self._channels = channels
        self._send_at_once = send_at_once
        self._kept: deque[tuple[ChannelMessage, bytes | None]] = deque()
        self._kept_bytes = self._dropped = 0
        self._is_closed = False
        self._wanted: asyncio.Future[None] | None = None

    def take(self, message: ChannelMessage, pattern: bytes | None) -> None:
        if self._is_closed:  # it was on its way
            return
        if not self._kept and self._send_at_once is not None and self._send_at_once(message):
            return
        self._kept.append((message, pattern))
        self._count(message.size_bytes)
        while len(self._kept) > 1 and (
            len(self._kept) > KEPT_MAX
            or self._kept_bytes > KEPT_BYTES_MAX
            or self._channels.are_full
        ):
            self._count(-self._kept.popleft()[0].size_bytes)
            self._dropped += 1
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    async def next(self, *, within_ms: int | None = None) -> TakenMessage:
        """Return the next message, or none after so long. Only one caller waits."""
        if not self._kept:
            self._wanted = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(None if within_ms is None else within_ms / 1000):
                    await self._wanted
            except TimeoutError:
                return TakenMessage(None)
            finally:
                self._wanted = None
        message, pattern = self._kept.popleft()
        self._count(-message.size_bytes)
        dropped, self._dropped = self._dropped, 0
        return TakenMessage(message, pattern, dropped)

    @property
    def has_more(self) -> bool:
        return bool(self._kept)

    def close(self) -> None:
        self._is_closed, self._send_at_once = True, None  # that knows the connection
        self._kept.clear()
        self._count(-self._kept_bytes)

    def _count(self, size_bytes: int) -> None:
        self._kept_bytes += size_bytes
        self._channels.kept_bytes += size_bytes


class Channels:
    """Those who listen in this process, and the way to those elsewhere."""

    def __init__(self, siblings: Siblings | None = None, relay: Relay | None = None) -> None:
        """With a `relay`, servers carry messages between all gateways; else siblings do."""
        self._relay = relay
        self._siblings = None if relay is not None else siblings
        self._listeners: Mapping[bool, dict[bytes, dict[ChannelListener, None]]] = {
            False: {},
            True: {},
        }
        self._matches: dict[bytes, Callable[[bytes], bool]] = {}  # by pattern
        self._due: deque[
            tuple[ChannelMessage, Iterator[tuple[ChannelListener, bytes | None]], int]
        ] = deque()
        self._due_bytes = self._places_bytes = self.kept_bytes = 0
        self._is_delivering = False
        self._room = asyncio.Event()
        self._room.set()
        if relay is not None:
            relay.on_message = self._take_relayed
        if self._siblings is not None:
            self._answer(self._siblings)

    @property
    def are_full(self) -> bool:
        """Tell whether listeners keep too much together."""
        return self.kept_bytes > _KEPT_TOGETHER_BYTES_MAX

    async def publish(self, channel: bytes, data: bytes, *, is_own: bool = False) -> int:
        """Give a message to those who listen now.

        Args:
            channel: its name; names that begin with `__` are the gateway's own.
            data: JSON, or any bytes.
            is_own: the gateway says it.

        Returns:
            How many they are: connections of all workers; over servers what these say, to whom a
            gateway is one.

        Raises:
            GatewayError: the message is too large, or the name is reserved.
            Unavailable: the servers are not there.
        """
        _check_name(channel, is_own=is_own)
        if len(data) > MESSAGE_BYTES_MAX:
            text = f"a message may have at most {MESSAGE_BYTES_MAX} bytes, not {len(data)}"
            raise GatewayError("too_large", text, pointer="/body/data")
        if self._relay is not None:
            return await self._relay.publish(channel, data)
        await self.until_room()
        count = self.deliver(ChannelMessage(channel, data))
        elsewhere = await self._ask(_PUBLISH, (channel, data))
        return count + sum(map(_decode_count, elsewhere))

    async def until_room(self) -> None:
        """Wait while too much is on its way to the listeners of this process."""
        await self._room.wait()

    async def listen(
        self,
        listener: ChannelListener,
        name: bytes,
        *,
        is_pattern: bool = False,
        is_own: bool = False,
    ) -> bool:
        """Let a listener get what comes; false if it does already.

        Raises:
            GatewayError: there are too many subscriptions, or the name is reserved.
            Invalid: the pattern is too long.
            Unavailable: the servers are not there.
        """
        listeners = self._listeners[is_pattern]
        if listener in listeners.get(name, ()):
            return False
        if not is_pattern:
            _check_name(name, is_own=is_own)
        are_too_many = is_pattern and name not in listeners and len(listeners) >= _PATTERNS_MAX
        if are_too_many or self._places_bytes > _PLACES_BYTES_MAX:
            raise GatewayError("overloaded", "the gateway has too many subscriptions to channels")
        if is_pattern:
            self._matches[name] = self._matches.get(name) or matcher(name)
        self._places_bytes += len(name) + PLACE_BYTES
        listeners.setdefault(name, {})[listener] = None
        if self._relay is not None:
            try:
                await self._relay.listen(name, is_pattern=is_pattern)
            except BaseException:
                self.leave(listener, name, is_pattern=is_pattern)
                raise
        return True

    def leave(self, listener: ChannelListener, name: bytes, *, is_pattern: bool = False) -> bool:
        """Let a listener get nothing more; false if it did not."""
        listeners = self._listeners[is_pattern]
        there = listeners.get(name, {})
        if listener not in there:
            return False
        del there[listener]
        self._places_bytes -= len(name) + PLACE_BYTES
        if not there:
            del listeners[name]
            if is_pattern:
                del self._matches[name]
            if self._relay is not None:
                self._relay.leave(name, is_pattern=is_pattern)
        return True

    # PUBSUB

    async def names(self, pattern: bytes | None = None) -> list[bytes]:
        """Return the channels to which somebody listens by name (PUBSUB CHANNELS)."""
        if self._relay is not None:
            names = await self._relay.names(pattern)
            return [name for name in names if not is_reserved(name)]
        matches = matcher(b"*" if pattern is None else pattern)
        elsewhere = map(_decode_names, await self._ask(_NAMES, None))
        everywhere = {*self.names_here, *chain.from_iterable(elsewhere)}
        return await filter_in_turns(everywhere, matches)

    async def counts(self, names: Sequence[bytes]) -> list[int]:
        """Return how many listen to each of these channels by name (PUBSUB NUMSUB)."""
        if self._relay is not None:
            return await self._relay.counts(names)
        elsewhere = map(_decode_counts, await self._ask(_COUNTS, names))
        return [sum(each) for each in zip(self._counts(names), *elsewhere, strict=True)]

    async def pattern_count(self) -> int:
        """Return to how many patterns somebody listens (PUBSUB NUMPAT)."""
        if self._relay is not None:
            return await self._relay.pattern_count()
        elsewhere = await self._ask(_PATTERNS, None)
        names = {name for body in elsewhere for name in _decode_names(body)}
        return len({*self._listeners[True], *names})

    @property
    def names_here(self) -> Collection[bytes]:
        """Return the channels to which somebody listens in this process."""
        return self._listeners[False]

    def _counts(self, names: Iterable[bytes]) -> list[int]:
        return [len(self._listeners[False].get(name, ())) for name in names]

    # Delivery

    def deliver(self, message: ChannelMessage) -> int:
        """Give a message to the listeners of this process, in several turns if they are many."""
        by_name = self._listeners[False].get(message.channel, ())
        patterns = [name for name, matches in self._matches.items() if matches(message.channel)]
        return self.give(message, by_name, patterns)

    def give(
        self,
        message: ChannelMessage,
        by_name: Collection[ChannelListener],
        patterns: Sequence[bytes] = (),
    ) -> int:
        """Give a message to some, and to those who listen to patterns."""
        there: list[tuple[ChannelListener, bytes | None]] = [(each, None) for each in by_name]
        for pattern in patterns:
            there += [(each, pattern) for each in self._listeners[True][pattern]]
        if there:
            size_bytes = message.size_bytes + _DUE_LISTENER_BYTES * len(there)
            self._due.append((message, iter(there), size_bytes))
            self._due_bytes += size_bytes
            if self._due_bytes > _DUE_BYTES_MAX:
                self._room.clear()
            if not self._is_delivering:
                self._go_on()
        return len(there)

    def _go_on(self) -> None:
        turn, self._is_delivering = this_turn(), True
        while self._due:
            message, listeners, size_bytes = self._due[0]
            for listener, pattern in listeners:
                try:
                    listener.take(message, pattern)
                except Exception:  # the others get it all the same
                    log.exception("a message could not be sent on")
                if turn.is_over:
                    turn.call_later(self._go_on)
                    return
            self._due.popleft()
            self._due_bytes -= size_bytes
        self._is_delivering = False
        self._room.set()

    async def _take_relayed(self, channel: bytes, data: bytes, pattern: bytes | None) -> None:
        await self.until_room()
        message = ChannelMessage(channel, data)
        if pattern is None:
            self.give(message, self._listeners[False].get(channel, ()))
        elif pattern in self._matches:
            self.give(message, (), (pattern,))

    # The other workers

    def _answer(self, siblings: Siblings) -> None:
        def publish(body: bytes) -> bytes:
            if not self._room.is_set():  # at most once: rather than memory, a message is given up
                return _encode(0)
            return _encode(self.deliver(ChannelMessage(*_decode_message(body))))

        siblings.on_question(_PUBLISH, publish)
        siblings.on_question(_NAMES, lambda _: _encode(list(self.names_here)))
        siblings.on_question(_COUNTS, lambda body: _encode(self._counts(_decode_names(body))))
        siblings.on_question(_PATTERNS, lambda _: _encode(list(self._listeners[True])))

    async def _ask(self, topic: str, question: object) -> Sequence[bytes]:
        if self._siblings is None:
            return ()
        await own_task()  # what waits for others has a timeout
        return await self._siblings.gather(topic, _encode(question), within_s=_WITHIN_S)


def _check_name(name: bytes, *, is_own: bool) -> None:
    if is_reserved(name) and not is_own:
        text = f"Names that begin with `{RESERVED.decode()}` are reserved for the gateway."
        raise GatewayError("forbidden", text)


_encode = msgspec.msgpack.Encoder().encode
_decode_message = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode
_decode_count = msgspec.msgpack.Decoder(int).decode
_decode_counts = msgspec.msgpack.Decoder(list[int]).decode
_decode_names = msgspec.msgpack.Decoder(list[bytes]).decode
