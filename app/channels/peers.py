"""Peers: the other gateways at the same servers, which tell each other what they share.

They speak over one channel of the servers. Each says at intervals how much it has told so far. So a
gateway notices one that is silent, and that it has missed something: then it asks, and all others
tell everything again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from headgate.app.backends.port import Relay
from headgate.app.channels.channels import Channels
from headgate.app.channels.message import ChannelMessage
from headgate.app.runtime import periodic
from headgate.engine.errors import Unavailable

log = logging.getLogger("headgate")

_BEATS: Final = 3
"""Signs of life in the time after which a silent peer is taken for dead."""

_BEAT, _TELL_AGAIN = "", "again"


class Saying(NamedTuple):
    """What a peer says; its place among all that it has told shows what was missed."""

    sender: int
    number: int
    topic: str
    body: bytes


class ServerPeers:
    def __init__(self, channels: Channels, relay: Relay, *, number: int, ttl_ms: int) -> None:
        """Take part.

        Args:
            channels: over which they speak.
            relay: the servers that they share.
            number: one that no other gateway has.
            ttl_ms: a peer that is silent for longer is taken for dead.
        """
        self.number = number
        self._channels = channels
        self._channel = b"__headgate:peers:" + relay.realm
        self._ttl_s = ttl_ms / 1000
        self._told_count = 0
        self._heard: dict[int, tuple[int, float]] = {}  # by peer: what was told last, and when
        self._announced: dict[str, Callable[[int, bytes], None]] = {}
        self._arrivals: list[Callable[[], None]] = []
        self._departures: list[Callable[[int], None]] = []

    def on_announcement(self, topic: str, take: Callable[[int, bytes], None]) -> None:
        self._announced[topic] = take

    def on_arrival(self, take: Callable[[], None]) -> None:
        self._arrivals.append(take)

    def on_departure(self, take: Callable[[int], None]) -> None:
        self._departures.append(take)

    async def announce(self, topic: str, body: bytes) -> None:
        """Tell all peers; raises Unavailable if the servers are not there."""
        self._told_count += 1
        await self._say(topic, body)

    async def run(self) -> None:
        await periodic.repeat("gateways at the same servers", self._beat)

    async def _beat(self) -> None:
        with suppress(Unavailable):
            if await self._channels.listen(self, self._channel, is_own=True):
                await self._say(_TELL_AGAIN, b"")
            await self._say(_BEAT, b"")
        now_s = asyncio.get_running_loop().time()
        for peer, (_, heard_s) in list(self._heard.items()):
            if now_s - heard_s > self._ttl_s:
                self._forget(peer)
        await asyncio.sleep(self._ttl_s / _BEATS)

    async def _say(self, topic: str, body: bytes) -> None:
        saying = Saying(self.number, self._told_count, topic, body)
        await self._channels.publish(self._channel, _encode(saying), is_own=True)

    def take(self, message: ChannelMessage, pattern: bytes | None) -> None:
        """Take what a peer says, as a `ChannelListener`."""
        del pattern
        try:
            said = _decode(message.data)
        except msgspec.MsgspecError as error:
            log.warning(
                "a broadcast that is not from a gateway was ignored", extra={"reason": str(error)}
            )
            return
        if said.sender == self.number:
            return
        before, _ = self._heard.get(said.sender, (None, 0.0))
        self._heard[said.sender] = said.number, asyncio.get_running_loop().time()
        take = self._announced.get(said.topic)
        is_next = before is not None and said.number == before + (take is not None)
        if not is_next:
            self._ask_again(said.sender, is_known=before is not None)
        if take is not None:
            take(said.sender, said.body)
        elif said.topic == _TELL_AGAIN:
            for tell in self._arrivals:
                tell()

    def _ask_again(self, peer: int, *, is_known: bool) -> None:
        if is_known:
            self._forget(peer, is_there=True)
        self._asking = asyncio.ensure_future(self._ask())

    async def _ask(self) -> None:
        with suppress(Unavailable):
            await self._say(_TELL_AGAIN, b"")

    def _forget(self, peer: int, *, is_there: bool = False) -> None:
        if not is_there:
            del self._heard[peer]
        for take in self._departures:
            take(peer)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Saying).decode
