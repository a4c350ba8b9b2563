"""Bulk reads: plans over many streams, and ranges cut into parts."""

from typing import Annotated, Self

from pydantic import BaseModel, Field

from headgate.app.wire.names import text_of
from headgate.app.wire.schemas.reads import Gap
from headgate.app.wire.schemas.values import EpochText, IdText, Milliseconds, Request
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import Portion as EnginePortion


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


class Portion(BaseModel):
    """The next part of one stream: above `after`, up to and including `end`."""

    stream: str
    epoch: EpochText | None = Field(description="Null if there is no such stream.")
    after: IdText = Field(description="`0-0` if the stream is another one than the cursor's.")
    end: IdText = Field(description="`after` if there is nothing.")
    entries: int = Field(description="Entries up to `end`.")
    backlog: int = Field(description="All entries above `after`.")
    last_id: IdText = Field(description="The stream's last id.")
    first_id: IdText | None = Field(description="Of the oldest entry; null if there is none.")
    gap: Gap | None = Field(description="Trimmed entries between the cursor and the oldest.")

    @classmethod
    def of(cls, portion: EnginePortion) -> Self:
        """Return the next part of one stream."""
        return cls(
            stream=text_of(portion.stream),
            epoch=None if portion.epoch is None else str(portion.epoch),
            after=str(portion.after),
            end=str(portion.end),
            entries=portion.entries,
            backlog=portion.backlog,
            last_id=str(portion.last_id),
            first_id=None if portion.first_id is None else str(portion.first_id),
            gap=Gap.of(portion.gap),
        )


class BulkPlan(BaseModel):
    """The next part of each stream."""

    streams: list[Portion] = Field(description="One per cursor, in order.")


class Split(BaseModel):
    """One part of a range: above `after`, up to and including `to`."""

    after: IdText
    to: IdText
    entries: int


class Splits(BaseModel):
    """A range, cut by count."""

    stream: str
    epoch: EpochText
    splits: list[Split]
