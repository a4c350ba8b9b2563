"""The values that a subscription yields; events and frames are made from them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from headgate.app.channels.member import PlaceMember
from headgate.app.channels.message import ChannelMessage
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import (
    Delivery,
    Gap,
    GroupsRead,
    Outcome,
    PatternRead,
    StreamRead,
    TablePage,
)


class Held:
    """Unsettled entries by id with their delivery counts, in the order they were sent."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[EntryId, int] = {}

    def __len__(self) -> int:
        return len(self.counts)

    def add(self, deliveries: Iterable[Delivery]) -> None:
        self.counts.update({delivery.id: delivery.delivery_count for delivery in deliveries})

    def count(self, deliveries: Iterable[Delivery]) -> None:
        """Update the counts of entries that were delivered again but are not sent again."""
        for delivery in deliveries:
            if delivery.id in self.counts:
                self.counts[delivery.id] = delivery.delivery_count

    def up_to(self, entry_id: EntryId) -> list[EntryId]:
        return [held_id for held_id in self.counts if held_id <= entry_id]

    def settle(self, ids: Sequence[EntryId], outcomes: Sequence[Outcome]) -> int:
        """Remove entries that are no longer held; return how many. Extended ones stay."""
        settled_count = 0
        for entry_id, outcome in zip(ids, outcomes, strict=True):
            if outcome is not Outcome.EXTENDED and self.counts.pop(entry_id, None) is not None:
                settled_count += 1
        return settled_count

    def take_away(self, counts: Mapping[EntryId, int]) -> list[EntryId]:
        """Remove entries that another consumer has claimed; return which of them were held.

        `counts` are from before the claim: an entry that came back to us since has a greater one.
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
        """Remove all other entries: they were settled elsewhere."""
        kept = set(ids)
        for entry_id in [held_id for held_id in self.counts if held_id not in kept]:
            del self.counts[entry_id]


StateName = Literal[
    "live", "caught_up", "credit_exhausted", "max_pending", "key_blocked", "paused", "rate_limited"
]


class Ready(NamedTuple):
    position: EntryId | PatternCursor  # entries come from behind this one; MIN_ID of a channel
    gap: Gap | None = None  # what trimming took before the first of them
    consumer: bytes | None = None  # who reads, if a group is read
    pending_count: int | None = None  # what this consumer holds already
    held: Held | None = None  # what it is sent and has to settle, as it goes on; None: nothing is
    table_fields: tuple[bytes, bytes] | None = None  # of key and tombstone, if rows are followed
    has_rows: bool = False  # rows come first, and then a place to resume from


class StreamBatch(NamedTuple):
    """Entries of a stream, or what trimming removed; if neither, it is a heartbeat."""

    read: StreamRead
    credit_left: int | None  # None: it is not bounded


class RowsBatch(NamedTuple):
    """Rows of a table, which is sent as a whole before its changes."""

    page: TablePage
    credit_left: int | None  # None: it is not bounded
    gap: Gap | None  # what was trimmed unseen, so that the rows come again
    is_again: bool  # they begin again: what was sent before is void


class PatternBatch(NamedTuple):
    """Entries of matching streams; an empty batch is a heartbeat."""

    read: PatternRead
    credit_left: int | None  # None: it is not bounded


class GroupBatch(NamedTuple):
    """Deliveries of a group; an empty batch is a heartbeat."""

    deliveries: list[Delivery]  # their entries are there
    gone: list[EntryId]  # were pending, and are not in the stream any more
    lag: int | None
    credit_left: int | None  # None: it is not bounded


class GroupsBatch(NamedTuple):
    """Deliveries of a group in several streams; an empty batch is a heartbeat."""

    read: GroupsRead  # the entries of the deliveries are there
    credit_left: int | None  # None: it is not bounded


class ClaimedAway(NamedTuple):
    ids: list[EntryId]
    by: bytes


class State(NamedTuple):
    """Why no entries come, sent when it changes. The initial state is `live`."""

    name: StateName


class AtEnd(NamedTuple):
    """The stream is closed and was read completely: the subscription is over."""

    position: EntryId
    closed_at_ms: int


class Ended(NamedTuple):
    error: StreamError | GatewayError


class Heard(NamedTuple):
    """A message of a channel, or a change of who is there; None is a heartbeat."""

    message: ChannelMessage | None
    dropped_count: int = 0  # messages before it that the client was too slow for


class MembersPage(NamedTuple):
    """Some of those who are there; all of them come, one page after the other."""

    members: list[PlaceMember]
    has_more: bool
    is_settled: bool


Followed = (
    Heard
    | MembersPage
    | StreamBatch
    | RowsBatch
    | PatternBatch
    | GroupBatch
    | GroupsBatch
    | ClaimedAway
    | State
    | AtEnd
    | Ended
)
