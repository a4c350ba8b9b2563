"""Eight consumers of a group in order by key: pollers, sockets, and acks by Redis's words."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headgate.engine.entry import Fields
from tests.processes.chaos import MAX_DELIVERIES, POLICY, SETTINGS, Chaos
from tests.processes.checker import violations
from tests.processes.consumers import GROUP, Chances, Consumer, Place, Poller, SocketReader
from tests.processes.key_checker import violations_of_order
from tests.processes.ledger import Ledger, Left, id_of
from tests.processes.rotation_checker import journalled, violations_of_rotation
from tests.stalls.resp import written

Acks = deque[list[str]]
"""Ids that somebody else is to acknowledge."""

ACK_S = 0.005
"""Time between two looks for such ids."""

HANDED_ON = 0.4
"""The share of acks that a poller leaves to somebody else."""


class HandingPoller(Poller):
    """A poller that leaves some acks to those who speak Redis's words."""

    def __init__(self, names: list[str], acks: Acks, *shared: Any) -> None:
        super().__init__(names, *shared)
        self.acks = acks

    async def post(self, wire: Any, kind: str, ids: list[str], consumer: str) -> None:
        if kind == "ack" and self.random.random() < HANDED_ON:
            self.acks.append(ids)
        else:
            await super().post(wire, kind, ids, consumer)


class Acknowledger(Consumer):
    """A Redis client that acknowledges, with XACK, what a poller was given."""

    writer: asyncio.StreamWriter

    def __init__(self, acks: Acks, *shared: Any) -> None:
        super().__init__([], *shared)
        self.acks = acks

    async def serve(self, url: str) -> None:
        host = urlsplit(url).hostname
        reader, self.writer = await asyncio.open_connection(host, self.place.redis_port)
        try:
            while True:
                while not self.acks:
                    await asyncio.sleep(ACK_S)
                await self._acknowledge(reader, self.acks.popleft())
        finally:
            self.writer.close()

    async def _acknowledge(self, reader: asyncio.StreamReader, ids: list[str]) -> None:
        settling = self.settle("ack", ids, "")
        self.writer.write(written([["XACK", "orders", "billing", entry_id] for entry_id in ids]))
        if self.chance("killed_in_ack"):
            await asyncio.sleep(0)
            self.die()
        replies = [await reader.readuntil(b"\r\n") for _ in ids]
        if any(reply.startswith(b"-CLUSTERDOWN ") for reply in replies):
            raise ConnectionError("the servers of the gateway are not there")
        outcomes = {b":1\r\n": "acked", b":0\r\n": "not_pending"}
        outcome_of = {
            id_of(each): outcomes[reply] for each, reply in zip(ids, replies, strict=True)
        }
        self.ledger.answer(settling, outcome_of)

    def drop(self) -> None:
        self.writer.transport.abort()


class KeyedChaos(Chaos):
    """Gateways whose group has a bound on the pending entries of a key."""

    def begin_keys(
        self, key_count: int, at_once: int, places: Sequence[Place], *, is_fair: bool = False
    ) -> None:
        """Put keys into all entries, and consumers that care for them in place of all others.

        Args:
            key_count: how many keys there are.
            at_once: how many entries of a key may be pending.
            places: of the gateways.
            is_fair: the keys take turns.
        """
        self.key_count = key_count
        self.at_once = at_once
        rules: dict[str, Any] = {
            "key_field": "key",
            "key_pending_max": at_once,
            "key_ahead_max": 2 * key_count,
        }
        if is_fair:
            rules |= {"fair_field": "key", "key_ahead_max": 100_000}
        body = {"start": "0", "create_stream": True, "policy": {**POLICY, **rules}}
        self.groups = {GROUP: body}
        acks: Acks = deque()
        turns = cycle(places)

        def shared() -> tuple[Place, Ledger, random.Random, Chances]:
            return next(turns), self.ledger, self.random, Chances()

        self.consumers = [
            *(HandingPoller([f"p{n}"], acks, *shared()) for n in range(3)),
            *(SocketReader([f"w{n}.0", f"w{n}.1"], *shared()) for n in range(2)),
            SocketReader(["w2"], *shared()),
        ]
        for place in (places[0], places[-1]):
            self.consumers.append(Acknowledger(acks, place, self.ledger, self.random, Chances()))

    def value(self, number: int) -> str:
        return f"{super().value(number)} {self.random.randrange(self.key_count)}"

    def fields(self, value: str) -> dict[str, str]:
        return {"key": _key_of(value), "v": value}

    def violations(self, left: Left) -> list[str]:
        given_up = {dead_letter.entry_id for dead_letter in left.dead_letters}
        return [
            *violations(self.ledger, left, max_deliveries=MAX_DELIVERIES),
            *violations_of_order(self.ledger, _key_of, self.at_once, given_up, left.kept),
        ]


class KeyChaos(KeyedChaos):
    """One gateway with entries of so many keys."""

    is_fair = False

    def __init__(
        self, data_dir: Path, rng: random.Random, entry_count: int, key_count: int, at_once: int
    ) -> None:
        super().__init__(data_dir, rng, entry_count)
        self.begin_keys(key_count, at_once, [self.place], is_fair=self.is_fair)


class FairChaos(KeyChaos):
    """The keys take turns, and the journal keeps all of it."""

    is_fair = True
    settings: Mapping[str, Any] = SETTINGS | {"rewrite_bytes_min": 2**40}

    def violations(self, left: Left) -> list[str]:
        decided = journalled(self.data_dir, b"orders", b"billing")
        return [*super().violations(left), *violations_of_rotation(decided, _key_in, self.at_once)]


def _key_in(fields: Fields) -> bytes:
    return dict(zip(fields[::2], fields[1::2], strict=True))[b"key"]


def _key_of(value: str) -> str:
    return value.rpartition(" ")[2]
