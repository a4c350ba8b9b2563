"""Ledger: the facts about each entry that the consumers of one group were told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

Id = tuple[int, int]
"""An entry id, comparable."""


def id_of(text: str) -> Id:
    ms, _, seq = text.partition("-")
    return int(ms), int(seq)


def text_of(entry_id: Id) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


@dataclass
class Settling:
    """An ack or a nack that was sent."""

    consumer: str  # empty: it names nobody, as XACK does
    kind: str  # ack or nack
    ids: list[Id]
    sent_at: int
    answered_at: int | None = None
    outcomes: dict[Id, str] = field(default_factory=dict)


@dataclass(eq=False)
class Channel:
    """A channel of deliveries: a long poll, or one connection of a consumer."""

    consumer: str
    opened_at: int
    ended_at: int | None = None  # the consumer dropped it, or found it gone
    is_read: bool = False  # nothing that was sent through it can be unread


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
    append_spans: dict[Id, tuple[int, int]] = field(default_factory=dict)  # sent, answered
    channels: list[Channel] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    settlings: list[Settling] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)  # just before a gateway is ended
    failures: list[tuple[int, int]] = field(default_factory=list)  # of servers: first, last moment
    wrong_values: list[Id] = field(default_factory=list)
    clock: Iterator[int] = field(default_factory=lambda: count(1))

    def of_another_group(self) -> Ledger:
        """Return a ledger of the same entries and servers, with the same clock."""
        shared = self.appended, self.append_spans
        return Ledger(*shared, restarts=self.restarts, clock=self.clock)

    def tick(self) -> int:
        """Return a moment: later than all before."""
        return next(self.clock)

    def open(self, consumer: str) -> Channel:
        channel = Channel(consumer, self.tick())
        self.channels.append(channel)
        return channel

    def end(self, channel: Channel) -> None:
        if channel.ended_at is None:
            channel.ended_at = self.tick()

    def deliver(self, entry_id: Id, count: int, channel: Channel, sent_after: int) -> None:
        self.deliveries.append(Delivery(entry_id, count, channel, sent_after, self.tick()))

    def append(self, entries: dict[Id, str], sent_at: int) -> None:
        """Note that entries were appended, by what was sent at a moment and is answered now."""
        self.appended.update(entries)
        self.append_spans.update(dict.fromkeys(entries, (sent_at, self.tick())))

    def settle(self, consumer: str, kind: str, ids: list[Id]) -> Settling:
        """Note that an ack or a nack is about to be sent."""
        settling = Settling(consumer, kind, ids, self.tick())
        self.settlings.append(settling)
        return settling

    def answer(self, settling: Settling, outcomes: dict[Id, str]) -> None:
        settling.outcomes = outcomes
        settling.answered_at = self.tick()


class Left(NamedTuple):
    """The remainder in the end, when nobody reads any more."""

    pending_count: int
    lag: int | None
    waiter_count: int
    connection_count: int
    temporary_consumers: list[str]
    dead_letters: list[DeadLetter]
    kept: dict[Id, str]  # the entries of the stream
