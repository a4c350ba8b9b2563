"""Ledger: what the consumers of one group were told of each entry, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.crash.history import Id, Settling


@dataclass(eq=False)
class Channel:
    """What deliveries come through: a long poll, or one connection of a consumer."""

    consumer: str
    opened_at: int
    ended_at: int | None = None  # the consumer dropped it, or found it gone


class Delivery(NamedTuple):
    """A delivery as a consumer was told of it."""

    entry_id: Id
    delivery_count: int
    channel: Channel
    sent_after: int  # the gateway sent it after that moment
    at: int


class DeadLetter(NamedTuple):
    """A dead letter."""

    entry_id: Id  # where it came from
    value: str
    delivery_count: int


@dataclass
class Ledger:
    """All of it, in the order of a clock that ticks with every note."""

    appended: dict[Id, str] = field(default_factory=dict)
    channels: list[Channel] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    settlings: list[Settling] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)  # just before a gateway is ended
    wrong_values: list[Id] = field(default_factory=list)
    now: int = 0

    def tick(self) -> int:
        """Return a moment: later than all before."""
        self.now += 1
        return self.now

    def open(self, consumer: str) -> Channel:
        channel = Channel(consumer, self.tick())
        self.channels.append(channel)
        return channel

    def end(self, channel: Channel) -> None:
        if channel.ended_at is None:
            channel.ended_at = self.tick()

    def deliver(self, entry_id: Id, count: int, channel: Channel, sent_after: int) -> None:
        self.deliveries.append(Delivery(entry_id, count, channel, sent_after, self.tick()))

    def settle(self, consumer: str, kind: str, ids: list[Id]) -> Settling:
        """Note that an ack or a nack is about to be sent."""
        settling = Settling(consumer, kind, ids, self.tick())
        self.settlings.append(settling)
        return settling

    def answer(self, settling: Settling, outcomes: dict[Id, str]) -> None:
        settling.outcomes = outcomes
        settling.answered_at = self.tick()


class Left(NamedTuple):
    """What is there in the end, when nobody reads any more."""

    pending_count: int
    lag: int | None
    waiter_count: int
    connection_count: int
    temporary_consumers: list[str]
    dead_letters: list[DeadLetter]
