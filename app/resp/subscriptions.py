"""Subscriptions of a Redis client to channels: SUBSCRIBE and what belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.channels.channels import Channels
from headgate.app.channels.message import ChannelMessage
from headgate.app.redis_syntax.replies import PushMessage, Reply
from headgate.app.redis_syntax.words import CommandError
from headgate.app.resp.encoder import RESP2, Replies, encode
from headgate.app.wire.problems import GatewayError

_NAMES_MAX: Final = 10_000
"""Channels and patterns of one client."""

_UNSENT_BYTES_MAX: Final = 8 * 2**20
"""A client that has so much to take is ended (Redis: client-output-buffer-limit pubsub)."""

_PUSHES_MAX: Final = 4
"""Forms that a message remembers: most clients get the same."""

ALLOWED: Final = frozenset(
    {b"SUBSCRIBE", b"UNSUBSCRIBE", b"PSUBSCRIBE", b"PUNSUBSCRIBE", b"PING", b"QUIT", b"RESET"}
)
"""What a subscribed client may send in RESP2, whose replies could be taken for messages."""


class SubscribedWire(Protocol):
    @property
    def unsent_bytes(self) -> int: ...

    def cut_off(self) -> None: ...


class SubscribedSession(Protocol):
    @property
    def access(self) -> Access: ...

    @property
    def replies(self) -> Replies: ...

    @property
    def wire(self) -> SubscribedWire: ...

    def push(self, message: bytes) -> None: ...


class Subscriptions:
    """The channels and patterns of a client, which is pushed their messages."""

    def __init__(self, session: SubscribedSession, channels: Channels) -> None:
        self._session = session
        self._channels = channels
        self._is_closed = False
        self.names: dict[bool, dict[bytes, None]] = {False: {}, True: {}}  # True: of patterns

    @property
    def count(self) -> int:
        return len(self.names[False]) + len(self.names[True])

    @property
    def are_exclusive(self) -> bool:
        """Tell whether the client may send no other commands."""
        return self.count > 0 and self._session.replies.protocol == RESP2

    async def add(self, name: bytes, *, is_pattern: bool) -> None:
        """Listen to a channel or a pattern; raises CommandError if there are too many."""
        if name in self.names[is_pattern]:
            return
        if self.count >= _NAMES_MAX:
            raise CommandError(f"ERR a client subscribes to at most {_NAMES_MAX} channels")
        try:
            await self._channels.listen(self, name, is_pattern=is_pattern)
        except GatewayError as error:
            raise CommandError(f"ERR {error}") from None
        self.names[is_pattern][name] = None
        if self._is_closed:  # the client went meanwhile
            self.remove(name, is_pattern=is_pattern)

    def remove(self, name: bytes, *, is_pattern: bool) -> None:
        self.names[is_pattern].pop(name, None)
        self._channels.leave(self, name, is_pattern=is_pattern)

    def clear(self) -> None:
        for is_pattern, names in self.names.items():
            for name in list(names):
                self.remove(name, is_pattern=is_pattern)

    def close(self) -> None:
        """Listen to nothing more, and forget the session."""
        self._is_closed = True
        self.clear()
        del self._session

    def take(self, message: ChannelMessage, pattern: bytes | None) -> None:
        """Push a message, at once or with the replies being made (see `ChannelListener`)."""
        session = self._session
        name = message.channel if pattern is None else pattern
        is_confirmed = name in self.names[pattern is not None]
        need = Need((Verb.SUBSCRIBE,), message.channel)
        if is_confirmed and session.access.principal.may(need):
            session.push(_pushed(message, pattern, session.replies.protocol))
            if session.replies.size_bytes + session.wire.unsent_bytes > _UNSENT_BYTES_MAX:
                session.wire.cut_off()


def pong(words: Sequence[bytes]) -> Reply:
    """Return the reply to PING of a client that is subscribed in RESP2."""
    return [b"pong", words[1] if len(words) > 1 else b""]


def not_while_subscribed(name: str) -> CommandError:
    """Return the error for another command of such a client."""
    allowed = "(P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET"
    return CommandError(f"ERR Can't execute '{name}': only {allowed} are allowed in this context")


def _pushed(message: ChannelMessage, pattern: bytes | None, protocol: int) -> bytes:
    by = "push", protocol, pattern
    pushed = message.pushes.get(by)
    if pushed is None:
        words: list[Reply] = [b"message", message.channel, message.data]
        if pattern is not None:
            words = [b"pmessage", pattern, message.channel, message.data]
        pushed = b"".join(encode(PushMessage(words), protocol))
        if len(message.pushes) < _PUSHES_MAX:
            message.pushes[by] = pushed
    return pushed
