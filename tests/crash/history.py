"""The requests and answers of clients, and the state after a restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Id = tuple[int, int]
"""An entry id, comparable."""


def id_of(text: str) -> Id:
    ms, _, seq = text.partition("-")
    return int(ms), int(seq)


def text_of(entry_id: Id) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


@dataclass
class Appending:
    """An append that was sent, with the values of its entries; each value is sent once only."""

    client: str
    values: list[str]
    ids: list[Id] | None = None  # None: not answered
    times_answered: int = 0
    pad_bytes: int = 0  # sent with each value


@dataclass
class Taking:
    """A group read or a claim that was sent."""

    consumer: str
    sent_at: int
    claimed: list[Id] | None = None  # what a claim asks for; None: a read takes what it finds
    answered_at: int | None = None
    deliveries: dict[Id, int] = field(default_factory=dict)  # as answered, with their counts


@dataclass
class Settling:
    """An ack or a nack that was sent."""

    consumer: str  # empty: it names nobody, as XACK does
    kind: str  # ack or nack
    ids: list[Id]
    sent_at: int
    answered_at: int | None = None
    outcomes: dict[Id, str] = field(default_factory=dict)


@dataclass
class History:
    """Requests and answers: appends of all rounds, deliveries of the current one."""

    appends: list[Appending] = field(default_factory=list)
    takings: list[Taking] = field(default_factory=list)
    settlings: list[Settling] = field(default_factory=list)
    acked: dict[Id, int] = field(default_factory=dict)  # answered as such, and when
    answered: dict[str, list[Id]] = field(default_factory=dict)  # ids by client, as answered
    now: int = 0

    def tick(self) -> int:
        """Return a moment: later than all before."""
        self.now += 1
        return self.now

    def begin_round(self) -> None:
        """Forget requests that the check of the last round has settled."""
        self.takings.clear()
        self.settlings.clear()


class Pending(NamedTuple):
    """A pending entry as it was found."""

    consumer: str | None
    delivery_count: int


class State(NamedTuple):
    """The state of a stream and its group."""

    entries: dict[Id, str]  # in the order they were read, with their value
    pending: dict[Id, Pending]
    group_position: Id

    def settled(self) -> set[Id]:
        """Return the ids that were delivered and are pending no more."""
        delivered = {entry_id for entry_id in self.entries if entry_id <= self.group_position}
        return delivered - set(self.pending)
