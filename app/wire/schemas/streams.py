"""Streams and their configuration."""

from typing import Any, Self

from pydantic import BaseModel, Field

from headgate.app.wire.names import text_of
from headgate.app.wire.schemas.entries import Entry
from headgate.app.wire.schemas.groups import GroupDetail
from headgate.app.wire.schemas.settings import StreamConfig
from headgate.app.wire.schemas.values import NEXT_CURSOR, IdText
from headgate.engine.replies import Histogram as EngineHistogram
from headgate.engine.replies import StreamInfo as EngineStreamInfo


class Stream(BaseModel):
    """A stream."""

    name: str
    epoch: int = Field(description="Identity of this life of the name; a later life has a greater.")
    length: int = Field(description="Entries in it.")
    first_id: IdText | None = Field(description="Of the oldest entry; null if it is empty.")
    last_id: IdText = Field(description="The last id ever generated.")
    max_deleted_id: IdText = Field(description="The greatest id ever deleted; trims do not count.")
    entries_added: int = Field(description="Entries ever added.")
    groups: int = Field(description="How many groups it has.")
    chunks: int = Field(description="How many chunks hold its entries.")
    config: StreamConfig

    @classmethod
    def of(cls, info: EngineStreamInfo) -> Self:
        """Return a stream as XINFO STREAM describes it."""
        return cls(**_wire_stream(info))


class StreamDetail(Stream):
    """A stream, and with `full` what is in it."""

    first_entry: Entry | None
    last_entry: Entry | None
    entries: list[Entry] | None = Field(None, description="With `full`: the oldest entries.")
    group_details: list[GroupDetail] | None = Field(
        None, description="With `full`: groups, consumers and pending entries."
    )
    groups_left_out: int | None = Field(
        None, description="With `full`: how many more groups there are."
    )


class Streams(BaseModel):
    """A page of streams, by name."""

    streams: list[Stream]
    next_cursor: str | None = NEXT_CURSOR


def _wire_stream(info: EngineStreamInfo) -> dict[str, Any]:
    return {
        "name": text_of(info.name),
        "epoch": info.epoch,
        "length": info.length,
        "first_id": str(info.first_id) if info.length else None,
        "last_id": str(info.last_id),
        "max_deleted_id": str(info.max_deleted_id),
        "entries_added": info.entries_added,
        "groups": info.group_count,
        "chunks": info.chunk_count,
        "config": StreamConfig.of(info.config),
    }


class Histogram(BaseModel):
    """The entries of a range by time: a count for each bucket of the time in their ids."""

    from_ms: int = Field(description="When the first bucket begins.")
    to_ms: int = Field(description="The last millisecond of the range.")
    bucket_ms: int = Field(description="How long a bucket is; the last one may be cut by the end.")
    counts: list[int] = Field(
        description="Entries of each bucket, from the first on; none if the range is empty."
    )

    @classmethod
    def of(cls, histogram: EngineHistogram) -> Self:
        """Return the histogram of the engine's reply."""
        return cls.model_validate(histogram._asdict())
