"""Deliveries to a consumer, claims among them, and what becomes of them."""

from typing import Annotated, Literal, NotRequired

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headgate.app.wire.filters import NoFilter
from headgate.app.wire.ids import BoundText, FromText
from headgate.app.wire.schemas.entries import Count, Entry, Flag, Ids, IdText, Milliseconds, Request
from headgate.engine.limits import NACK_ERROR_LENGTH_MAX
from headgate.engine.replies import GroupState, Outcome, RedriveOutcome

LastError = Annotated[str, Field(description="Error of the last nack that gave one.")]


class Delivery(Entry):
    """An entry that is delivered to a consumer."""

    deliveries: Annotated[int, Field(description="Number of deliveries, including this one.")]
    idle_ms: Annotated[int, Field(description="Idle time of the entry when it was claimed.")]
    claimed_from: NotRequired[
        Annotated[str, Field(description="Consumer that held the entry before it was claimed.")]
    ]
    last_error: NotRequired[LastError]


class ReadGroup(Request):
    """A read as a consumer of a group; all parts are optional."""

    limit: Annotated[int, Field(ge=1, strict=True)] = Field(
        10, description="Maximum number of entries."
    )
    wait_ms: Milliseconds = Field(0, description="How long to wait if there are no entries.")
    claim_idle_ms: Milliseconds | None = Field(
        None,
        description="First claim entries that are pending with any consumer and have been idle "
        "for this long.",
    )
    after: FromText = Field(
        ">",
        alias="from",
        description="`>`: entries new to the group. `0` or an id: pending entries of the consumer "
        "itself.",
    )
    no_ack: Flag = Field(
        False, description="Deliver new entries without requiring acknowledgement."
    )
    ack: Annotated[list[IdText], Field(fail_fast=True)] = Field(
        [], description="Acknowledge these entries first."
    )
    filter: NoFilter = None


class GroupEntries(TypedDict):
    """Entries delivered to a consumer."""

    entries: list[Delivery]
    deleted_ids: NotRequired[
        Annotated[
            list[IdText],
            Field(
                description="Ids of own pending entries that no longer exist in the stream; "
                "acknowledge them."
            ),
        ]
    ]
    lag: Annotated[
        int | None,
        Field(description="Number of entries that the group has yet to deliver, if known."),
    ]
    pending: Annotated[int, Field(description="Number of entries that this consumer holds.")]
    state: Annotated[
        GroupState, Field(description="Whether more entries are available, and if not, why.")
    ]


class Settled(TypedDict):
    """Outcome for one id."""

    id: IdText
    outcome: Outcome


class SettledEntries(TypedDict):
    """Outcome for each id, in order."""

    results: list[Settled]


NackError = Annotated[str, Field(max_length=NACK_ERROR_LENGTH_MAX)]


class NackChoices(Request):
    """Why deliveries are given back, and when somebody gets them again."""

    mode: Literal["silent", "fail", "fatal"] = Field(
        "fail",
        description="`silent`: the entry was not tried; the delivery does not count. `fail`: it "
        "was tried and failed. `fatal`: it can never succeed; its delivery count becomes the "
        "maximum.",
    )
    delay_ms: Milliseconds | None = Field(
        None, description="Delay before the next delivery. Default: the `backoff_ms` of the group."
    )
    error: NackError | None = Field(
        None,
        description="Error of the consumer. The next delivery has it as `last_error`, a dead "
        "letter as `_error`.",
    )


class Nack(NackChoices, Ids):
    """Entries to give back."""


class Claim(Ids):
    """Pending entries to claim."""

    min_idle_ms: Milliseconds = Field(
        description="Skip entries that have been idle for less than this."
    )
    idle_ms: Milliseconds | None = Field(
        None, description="Set the idle time of the entries to this."
    )
    time_ms: Milliseconds | None = Field(
        None, description="Set the delivery time of the entries to this."
    )
    retry_count: Count | None = Field(
        None, description="Set the delivery count of the entries to this."
    )
    force: Flag = Field(False, description="Also claim existing entries that are not pending.")
    just_id: Flag = Field(False, description="Return only ids, and do not count a delivery.")


class Autoclaim(Request):
    """Idle entries to claim, in the order of their ids."""

    min_idle_ms: Milliseconds = Field(
        description="Skip entries that have been idle for less than this."
    )
    start: BoundText = Field("0", description="Id at which to start: `next` of the previous page.")
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(
        100, description="Maximum number of entries."
    )
    just_id: Flag = Field(False, description="Return only ids, and do not count a delivery.")


class Claimed(TypedDict):
    """The claimed entries."""

    ids: list[IdText]
    entries: NotRequired[
        Annotated[list[Delivery], Field(description="The entries, unless `just_id` is true.")]
    ]
    deleted_ids: Annotated[
        list[IdText],
        Field(
            description="Ids that were pending but no longer exist in the stream. They are no "
            "longer pending."
        ),
    ]


class Autoclaimed(Claimed):
    """A page of claimed entries."""

    next: Annotated[
        IdText,
        Field(description="Pass it as `start` to get the next page; `0-0`: the scan is complete."),
    ]


class PendingEntry(TypedDict):
    """An entry that was delivered but not acknowledged."""

    id: IdText
    consumer: Annotated[
        str | None, Field(description="Consumer that holds the entry; null if it was released.")
    ]
    idle_ms: Annotated[
        int | None,
        Field(description="Time since the last delivery; null if no consumer holds the entry."),
    ]
    deliveries: int
    delay_ms: NotRequired[
        Annotated[int, Field(description="Time until the entry can be delivered again.")]
    ]
    last_error: NotRequired[LastError]
    waits_for: NotRequired[
        Annotated[IdText, Field(description="Entry with the same key that must be settled first.")]
    ]


class PendingEntries(TypedDict):
    """Pending entries, in the order of their ids."""

    pending: list[PendingEntry]


class ConsumerPending(TypedDict):
    """Number of pending entries of a consumer."""

    name: str
    pending: int


class PendingSummary(TypedDict):
    """Summary of the pending entries of a group."""

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
    """Dead letters to send back; all parts are optional."""

    ids: Annotated[list[IdText], Field(fail_fast=True)] | None = Field(
        None,
        min_length=1,
        description="Ids in the dead letter stream. Default: the oldest dead letters.",
    )
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(
        100, description="Maximum number of dead letters."
    )


class Redriven(BaseModel):
    """A dead letter that was sent back."""

    id: IdText = Field(description="Former id in the dead letter stream.")
    outcome: RedriveOutcome = Field(
        description="`released`: the next reader of the group gets the entry. `appended`: the "
        "entry no longer existed in its stream, so it was appended there as a new entry for all "
        "groups."
    )
    entry_id: IdText = Field(description="Id in the original stream.")


class RedrivenLetters(BaseModel):
    """Outcome for each dead letter."""

    results: list[Redriven]
