"""Bulk reads: plans over many streams, and ranges cut into parts."""

from typing import Annotated, Self

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headgate.app.wire.ids import StartText
from headgate.app.wire.names import NameText, text_of
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

    stream: NameText
    after: StartText = Field("0-0", description="An id, or `$` for new entries only.")
    epoch: Annotated[str, Field(pattern=r"^[0-9]{1,19}$")] | None = Field(
        None, description="Expected epoch of the stream; null accepts any epoch."
    )


class PlanBulkRead(Request):
    """Streams for which to plan a bulk read."""

    cursors: Annotated[list[BulkCursor], Field(fail_fast=True)] = Field(
        min_length=1, max_length=1000
    )
    max_entries: Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)] | None = Field(
        None, description="Maximum number of entries of all streams together; null: no limit."
    )
    wait_ms: Milliseconds = Field(0, description="How long to wait if no stream has an entry.")


class Portion(TypedDict):
    """The next part of a stream: entries above `after`, up to and including `end`."""

    stream: str
    epoch: Annotated[EpochText | None, Field(description="Null if the stream does not exist.")]
    after: Annotated[
        IdText, Field(description="`0-0` if the epoch of the stream is not that of the cursor.")
    ]
    end: Annotated[IdText, Field(description="Equal to `after` if there are no entries.")]
    entries: Annotated[int, Field(description="Number of entries up to `end`.")]
    backlog: Annotated[int, Field(description="Number of all entries above `after`.")]
    last_id: Annotated[IdText, Field(description="Last id of the stream.")]
    first_id: Annotated[
        IdText | None, Field(description="Id of the oldest entry; null if there is none.")
    ]
    gap: MissedOfCursor


class BulkPlan(TypedDict):
    """The next part of each stream."""

    streams: Annotated[list[Portion], Field(description="One part per cursor, in order.")]


class Split(TypedDict):
    """A part of a range: entries above `after`, up to and including `to`."""

    after: IdText
    to: IdText
    entries: int


class Splits(TypedDict):
    """A range that is split by the number of entries."""

    stream: str
    epoch: EpochText
    splits: list[Split]


class Staged(BaseModel):
    """The size of a staged chunk."""

    entries: int
    size_bytes: int = Field(description="Size that counts towards `staged_bytes_max`.")


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
    """The attempt to commit for a partition."""

    partition: Count
    attempt: AttemptText
    chunks: Annotated[int, Field(ge=0, le=CHUNKS_MAX, strict=True)] = Field(
        description="Number of chunks of the attempt. They are numbered from 0."
    )


class CommitBatch(Request):
    """The attempts to commit."""

    attempts: Annotated[list[Attempt], Field(fail_fast=True)] = Field(
        max_length=CHUNKS_MAX,
        description="One attempt per partition; empty for a batch without entries.",
    )
    create_streams: Flag = Field(True, description="Create missing streams.")


class Written(BaseModel):
    """The entries of a batch in one stream."""

    stream: str
    entries: int
    first_id: IdText
    last_id: IdText


class Committed(BaseModel):
    """The result of a commit."""

    repeated: bool = Field(
        description="True if the batch was already committed before and nothing was changed now."
    )
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
    last_batch: int | None = Field(description="Last batch that it committed; null if unknown.")
    committed_at_ms: int | None = Field(description="When it committed that batch.")
