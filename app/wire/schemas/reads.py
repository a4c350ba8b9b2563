"""Reads of streams by cursor."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from headgate.app.wire.schemas.entries import Entry
from headgate.app.wire.schemas.values import IdText, Milliseconds, Request
from headgate.engine.replies import Gap as EngineGap


class Gap(BaseModel):
    """Entries a reader missed because trimming took them: above `from`, up to `to`."""

    model_config = ConfigDict(populate_by_name=True)

    after: IdText = Field(alias="from")
    through: IdText = Field(alias="to")

    @classmethod
    def of(cls, gap: EngineGap | None) -> Self | None:
        """Return the gap before a reader's entries; None if there is none."""
        if gap is None:
            return None
        return cls(after=str(gap.after), through=str(gap.through))


class Entries(BaseModel):
    """Entries of one stream."""

    entries: list[Entry]
    next_after: IdText | None = Field(description="Cursor for the next read, ascending.")
    last_id: IdText = Field(description="The stream's last id.")
    gap: Gap | None = Field(description="Trimmed entries between the cursor and the oldest.")


class StreamEntries(Entries):
    """Entries of one of several streams."""

    stream: str


class ReadCursor(Request):
    """The cursor of a read in one stream."""

    stream: str
    after: str = Field("0", description="An id, `$` for from now on, or `+` for the last entry.")


class Read(Request):
    """A read of several streams."""

    streams: Annotated[list[ReadCursor], Field(fail_fast=True)] = Field(
        min_length=1, max_length=100
    )
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(100, description="Entries per stream.")
    wait_ms: Milliseconds = Field(0, description="Time to wait if there is nothing.")


class StreamsRead(BaseModel):
    """The entries of several streams."""

    streams: list[StreamEntries] = Field(description="One per cursor, in order, empty or not.")
