"""Followed: the values that a subscription yields. Events and frames are made from them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import Delivery, Gap, Outcome, PatternRead, StreamRead


class Held:
    """Entries by id with their delivery counts, in the order of sending."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        """Start with nothing."""
        self.counts: dict[EntryId, int] = {}

    def __len__(self) -> int:
        """Return how many entries are held."""
        return len(self.counts)

    def add(self, deliveries: Iterable[Delivery]) -> None:
        """Add entries that are sent now."""
        self.counts.update({delivery.id: delivery.delivery_count for delivery in deliveries})

    def count(self, deliveries: Iterable[Delivery]) -> None:
        """Note the delivery counts of what was delivered once more, and is not sent again."""
        for delivery in deliveries:
            if delivery.id in self.counts:
                self.counts[delivery.id] = delivery.delivery_count

    def up_to(self, entry_id: EntryId) -> list[EntryId]:
        """Return the held ids up to an id."""
        return [held_id for held_id in self.counts if held_id <= entry_id]

    def settle(self, ids: Sequence[EntryId], outcomes: Sequence[Outcome]) -> int:
        """Remove entries that are settled or belong to another consumer; returns how many.

        Args:
            ids: what was to be acknowledged, given back or extended.
            outcomes: what became of each; what was extended is still held.
        """
        settled_count = 0
        for entry_id, outcome in zip(ids, outcomes, strict=True):
            if outcome is not Outcome.EXTENDED and self.counts.pop(entry_id, None) is not None:
                settled_count += 1
        return settled_count

    def take_away(self, counts: Mapping[EntryId, int]) -> list[EntryId]:
        """Remove entries that another consumer has taken over; returns which of them were held.

        Args:
            counts: delivery counts before that; what came back to us since has a greater one.
        """
        held = self.counts
        lost = [
            entry_id
            for entry_id, count in counts.items()
            if entry_id in held and held[entry_id] <= count
        ]
        for entry_id in lost:
            del held[entry_id]
        return lost

    def keep(self, ids: Iterable[EntryId]) -> None:
        """Remove all entries but these: the others were settled elsewhere."""
        kept = set(ids)
        for entry_id in [held_id for held_id in self.counts if held_id not in kept]:
            del self.counts[entry_id]


StateName = Literal[
    "live", "caught_up", "credit_exhausted", "max_pending", "key_blocked", "paused", "rate_limited"
]


class Ready(NamedTuple):
    """Reading may begin."""

    position: EntryId | PatternCursor  # entries come from behind this one
    gap: Gap | None = None  # what trimming took before the first of them
    consumer: bytes | None = None  # who reads, if a group is read
    pending_count: int | None = None  # what this consumer holds already
    held: Held | None = None  # what it is sent and has to settle, as it goes on; None: nothing is


class StreamBatch(NamedTuple):
    """Entries of a stream, or what trimming took; neither means that nothing came for a while."""

    read: StreamRead
    credit_left: int | None  # None: it is not bounded


class PatternBatch(NamedTuple):
    """Entries of streams that match a pattern; none means that nothing came for a while."""

    read: PatternRead
    credit_left: int | None  # None: it is not bounded


class GroupBatch(NamedTuple):
    """Deliveries of a group; none means that nothing came for a while."""

    deliveries: list[Delivery]  # their entries are there
    gone: list[EntryId]  # were pending, and are not in the stream any more
    lag: int | None
    credit_left: int | None  # None: it is not bounded


class ClaimedAway(NamedTuple):
    """Entries that were held, and that another consumer has now."""

    ids: list[EntryId]
    by: bytes


class State(NamedTuple):
    """Why nothing comes, or that it does again: told when it changes. It begins as `live`."""

    name: StateName


class AtEnd(NamedTuple):
    """The stream is closed, and all of it has come: the subscription is over."""

    position: EntryId
    closed_at_ms: int


class Ended(NamedTuple):
    """The subscription is over, and nothing comes behind this."""

    error: StreamError | GatewayError


Followed = StreamBatch | PatternBatch | GroupBatch | ClaimedAway | State | AtEnd | Ended
