"""Deliveries to a consumer, claims among them, and what becomes of them."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from headgate.app.wire.filters import NoFilter
from headgate.app.wire.schemas.entries import Entry
from headgate.app.wire.schemas.values import Count, Flag, Ids, IdText, Milliseconds, Request
from headgate.engine.limits import NACK_ERROR_LENGTH_MAX
from headgate.engine.replies import GroupState, Outcome

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


class Nack(Ids):
    """Deliveries to give back."""

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
