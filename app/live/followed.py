"""Followed: the values that a subscription yields. Events and frames are made from them."""

from typing import Literal, NamedTuple

from headgate.app.live.held import Held
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.patterns.cursor import PatternCursor
from headgate.engine.replies import Delivery, Gap, PatternRead, StreamRead

StateName = Literal[
    "live",
    "caught_up",
    "credit_exhausted",
    "max_pending",
    "key_blocked",
    "paused",
    "rate_limited",
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
