"""Batches that are staged in chunks and committed once."""

from typing import Annotated, Self

from pydantic import BaseModel, Field

from headgate.app.wire.names import text_of
from headgate.app.wire.schemas.values import Count, Flag, IdText, Request
from headgate.engine.replies import Committed as EngineCommitted


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
        """Return the result of a batch's commit."""
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
