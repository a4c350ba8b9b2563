"""Bulk reads: plans over many streams, and ranges cut into parts."""

from typing import Annotated, Self

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headgate.app.wire.names import text_of
from headgate.app.wire.schemas.entries import (
    Count,
    EpochText,
    Flag,
    IdText,
    Milliseconds,
    MissedOfCursor,
    Request,
)
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import Committed as EngineCommitted


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


class Staged(BaseModel):
    """The size of a staged chunk."""

    entries: int
    size_bytes: int = Field(description="Its part of `staged_bytes_max`.")


AttemptText = Annotated[
    str,
    Field(
        description="Token of the attempt to write the partition.",
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        examples=["task-17"],
    ),
]

CHUNKS_MAX = 100_000
"""Chunks staged at once: each is a file."""


class Attempt(Request):
    """The attempt that counts for a partition."""

    partition: Count
    attempt: AttemptText
    chunks: Annotated[int, Field(ge=0, le=CHUNKS_MAX, strict=True)] = Field(
        description="Number of its chunks: those from 0 on."
    )


class CommitBatch(Request):
    """The attempts to commit."""

    attempts: Annotated[list[Attempt], Field(fail_fast=True)] = Field(
        max_length=CHUNKS_MAX, description="One per partition; none for a batch without entries."
    )
    create_streams: Flag = Field(True, description="Create the streams that are missing.")


class Written(BaseModel):
    """The entries of a batch in one stream."""

    stream: str
    entries: int
    first_id: IdText
    last_id: IdText


class Committed(BaseModel):
    """The result of a commit."""

    repeated: bool = Field(description="True: it was committed before, and nothing changed now.")
    entries: int
    streams: list[Written]

    @classmethod
    def of(cls, committed: EngineCommitted) -> Self:
        return cls(
            repeated=committed.is_repeat,
            entries=sum(stream.entries for stream in committed.streams),
            streams=[
                Written(
                    stream=text_of(stream.stream),
                    entries=stream.entries,
                    first_id=str(stream.first_id),
                    last_id=str(stream.last_id),
                )
                for stream in committed.streams
            ],
        )


class Writer(BaseModel):
    """A writer."""

    writer: str
    last_batch: int | None = Field(description="The last it committed; null if none is known.")
    committed_at_ms: int | None = Field(description="When that was.")
