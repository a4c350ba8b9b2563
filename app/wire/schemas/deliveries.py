"""Deliveries to a consumer, claims among them, and what becomes of them."""

from typing import Annotated, Literal, NotRequired

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headgate.app.wire.filters import NoFilter
from headgate.app.wire.schemas.entries import Count, Entry, Flag, Ids, IdText, Milliseconds, Request
from headgate.engine.limits import NACK_ERROR_LENGTH_MAX
from headgate.engine.replies import GroupState, Outcome, RedriveOutcome

LastError = Annotated[str, Field(description="The error of its last nack that had one.")]


class Delivery(Entry):
    """An entry handed to a consumer."""

    deliveries: Annotated[int, Field(description="Number of its deliveries, this one included.")]
    idle_ms: Annotated[int, Field(description="Idle time when it was claimed.")]
    claimed_from: NotRequired[Annotated[str, Field(description="Whom it was taken from.")]]
    last_error: NotRequired[LastError]


class ReadGroup(Request):
    """A read as a consumer of a group; every part may be left out."""

    limit: Annotated[int, Field(ge=1, strict=True)] = Field(10, description="Entries at most.")
    wait_ms: Milliseconds = Field(0, description="Time to wait if there is nothing.")
    claim_idle_ms: Milliseconds | None = Field(
        None, description="First take entries pending with anybody and idle for so long."
    )
    after: str = Field(
        ">",
        alias="from",
        description="`>`: entries new to the group. `0` or an id: one's own pending ones.",
    )
    no_ack: Flag = Field(False, description="New entries need no acknowledgement.")
    ack: Annotated[list[IdText], Field(fail_fast=True)] = Field(
        [], description="Acknowledge these first."
    )
    filter: NoFilter = None


class GroupEntries(TypedDict):
    """The entries for a consumer."""

    entries: list[Delivery]
    deleted_ids: NotRequired[
        Annotated[
            list[IdText],
            Field(description="Own pending ids whose entries are gone from the stream; ack them."),
        ]
    ]
    lag: Annotated[
        int | None, Field(description="Entries the group has still to be given, if known.")
    ]
    pending: Annotated[int, Field(description="Entries this consumer holds now.")]
    state: Annotated[GroupState, Field(description="Whether there is more, and why not.")]


class Settled(TypedDict):
    """The outcome of one id."""

    id: IdText
    outcome: Outcome


class SettledEntries(TypedDict):
    """The outcome of each id, in order."""

    results: list[Settled]


NackError = Annotated[str, Field(max_length=NACK_ERROR_LENGTH_MAX)]


class NackChoices(Request):
    """Why deliveries are given back, and when somebody gets them again."""

    mode: Literal["silent", "fail", "fatal"] = Field(
        "fail",
        description="`silent`: it was never tried, and does not count. `fail`: it was tried. "
        "`fatal`: it cannot work; its count becomes the greatest there is.",
    )
    delay_ms: Milliseconds | None = Field(
        None,
        description="Nobody gets them before that; the group's `backoff_ms` if it is left out.",
    )
    error: NackError | None = Field(
        None,
        description="Error of the consumer. It comes as `last_error` with the next delivery, and "
        "goes into the dead letter as `_error`.",
    )


class Nack(NackChoices, Ids):
    """Deliveries to give back."""


class Claim(Ids):
    """Pending entries to take over."""

    min_idle_ms: Milliseconds = Field(description="Leave out those idle for less.")
    idle_ms: Milliseconds | None = Field(None, description="Set their idle time to this.")
    time_ms: Milliseconds | None = Field(None, description="Set their delivery time to this.")
    retry_count: Count | None = Field(None, description="Set their delivery count to this.")
    force: Flag = Field(False, description="Make live entries pending that are not.")
    just_id: Flag = Field(False, description="Answer only ids, and do not count a delivery.")


class Autoclaim(Request):
    """Idle entries to take over, whichever they are."""

    min_idle_ms: Milliseconds = Field(description="Leave out those idle for less.")
    start: str = Field("0", description="Begin at this id; `next` of the page before.")
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(100, description="Entries at most.")
    just_id: Flag = Field(False, description="Answer only ids, and do not count a delivery.")


class Claimed(TypedDict):
    """The entries of a claim."""

    ids: list[IdText]
    entries: NotRequired[
        Annotated[list[Delivery], Field(description="The entries, unless `just_id`.")]
    ]
    deleted_ids: Annotated[
        list[IdText],
        Field(description="Were pending, are gone from the stream, and are pending no more."),
    ]


class Autoclaimed(Claimed):
    """A page of what an autoclaim got."""

    next: Annotated[
        IdText, Field(description="`start` of the next page; `0-0` when the scan is complete.")
    ]


class PendingEntry(TypedDict):
    """An entry that was delivered and not acknowledged."""

    id: IdText
    consumer: Annotated[str | None, Field(description="Owner; null: none, it was released.")]
    idle_ms: Annotated[
        int | None, Field(description="Since its last delivery; null: nobody holds it.")
    ]
    deliveries: int
    delay_ms: NotRequired[Annotated[int, Field(description="Nobody gets it for so long.")]]
    last_error: NotRequired[LastError]
    waits_for: NotRequired[
        Annotated[
            IdText,
            Field(description="The entry with the same key that is to be settled before it."),
        ]
    ]


class PendingEntries(TypedDict):
    """Pending entries, by id."""

    pending: list[PendingEntry]


class ConsumerPending(TypedDict):
    """The number of a consumer's pending entries."""

    name: str
    pending: int


class PendingSummary(TypedDict):
    """The pending entries of a group, summed up with their consumers."""

    count: int
    min_id: IdText | None
    max_id: IdText | None
    consumers: Annotated[
        list[ConsumerPending], Field(description="Consumers that hold entries, by name.")
    ]
    consumers_left_out: Annotated[
        int, Field(description="Number of other consumers that hold entries.")
    ]


class Redrive(Request):
    """Dead letters to send back; all parts may be left out."""

    ids: Annotated[list[IdText], Field(fail_fast=True)] | None = Field(
        None, min_length=1, description="By their ids in the dead letter stream; else the oldest."
    )
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(100, description="So many at most.")


class Redriven(BaseModel):
    """A dead letter that was sent back."""

    id: IdText = Field(description="Its id in the dead letter stream, where it is no more.")
    outcome: RedriveOutcome = Field(
        description="`released`: the group's next reader gets the entry. `appended`: it was gone "
        "from its stream and is a new entry there, for every group."
    )
    entry_id: IdText = Field(description="Its id in the stream it came from.")


class RedrivenLetters(BaseModel):
    """The outcome of each dead letter."""

    results: list[Redriven]
