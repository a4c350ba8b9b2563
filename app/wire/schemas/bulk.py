"""Bulk reads: plans over many streams, and ranges cut into parts."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from headgate.app.wire.schemas.reads import MissedOfCursor
from headgate.app.wire.schemas.values import EpochText, IdText, Milliseconds, Request
from headgate.engine.limits import COUNT_MAX


class BulkCursor(Request):
    """The position of a bulk reader in one stream."""

    stream: str
    after: str = Field("0-0", description="An id, or `$` for from now on.")
    epoch: Annotated[str, Field(pattern=r"^[0-9]{1,19}$")] | None = Field(
        None, description="In which life of the stream's name; null is in any."
    )


class PlanBulkRead(Request):
    """The streams to plan a bulk read of."""

    cursors: Annotated[list[BulkCursor], Field(fail_fast=True)] = Field(
        min_length=1, max_length=1000
    )
    max_entries: Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)] | None = Field(
        None, description="Of all streams together; null is all there are."
    )
    wait_ms: Milliseconds = Field(0, description="Time to wait if no stream has an entry.")


class Portion(TypedDict):
    """The next part of one stream: above `after`, up to and including `end`."""

    stream: str
    epoch: Annotated[EpochText | None, Field(description="Null if there is no such stream.")]
    after: Annotated[
        IdText, Field(description="`0-0` if the stream is another one than the cursor's.")
    ]
    end: Annotated[IdText, Field(description="`after` if there is nothing.")]
    entries: Annotated[int, Field(description="Entries up to `end`.")]
    backlog: Annotated[int, Field(description="All entries above `after`.")]
    last_id: Annotated[IdText, Field(description="The stream's last id.")]
    first_id: Annotated[
        IdText | None, Field(description="Of the oldest entry; null if there is none.")
    ]
    gap: MissedOfCursor


class BulkPlan(TypedDict):
    """The next part of each stream."""

    streams: Annotated[list[Portion], Field(description="One per cursor, in order.")]


class Split(TypedDict):
    """One part of a range: above `after`, up to and including `to`."""

    after: IdText
    to: IdText
    entries: int


class Splits(TypedDict):
    """A range, cut by count."""

    stream: str
    epoch: EpochText
    splits: list[Split]
