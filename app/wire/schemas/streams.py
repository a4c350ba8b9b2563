"""Streams and their configuration."""

from typing import Annotated, NotRequired, Self

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headgate.app.wire.schemas.entries import Entry
from headgate.app.wire.schemas.groups import GroupDetail
from headgate.app.wire.schemas.settings import StreamConfig
from headgate.app.wire.schemas.values import IdText, NextCursor
from headgate.engine.replies import Histogram as EngineHistogram


class Stream(TypedDict):
    """A stream."""

    name: str
    epoch: Annotated[
        int, Field(description="Identity of this life of the name; a later life has a greater.")
    ]
    length: Annotated[int, Field(description="Entries in it.")]
    first_id: Annotated[
        IdText | None, Field(description="Of the oldest entry; null if it is empty.")
    ]
    last_id: Annotated[IdText, Field(description="The last id ever generated.")]
    max_deleted_id: Annotated[
        IdText, Field(description="The greatest id ever deleted; trims do not count.")
    ]
    entries_added: Annotated[int, Field(description="Entries ever added.")]
    groups: Annotated[int, Field(description="How many groups it has.")]
    chunks: Annotated[int, Field(description="How many chunks hold its entries.")]
    hot_bytes: Annotated[
        int | None, Field(description="Memory of its entries, about; null at servers.")
    ]
    cold_bytes: Annotated[
        int | None,
        Field(description="Size of its entries that are on disk alone, about; null at servers."),
    ]
    closed_at_ms: Annotated[
        int | None, Field(description="Since when it takes no entries; null: it is open.")
    ]
    archived_count: Annotated[
        int, Field(description="Entries that were trimmed and stay readable in its archive.")
    ]
    archived_first_id: Annotated[
        IdText | None, Field(description="Of the oldest of them; null if there is none.")
    ]
    config: StreamConfig


class StreamDetail(Stream):
    """A stream, and with `full` what is in it."""

    first_entry: Entry | None
    last_entry: Entry | None
    entries: NotRequired[
        Annotated[list[Entry], Field(description="With `full`: the oldest entries.")]
    ]
    group_details: NotRequired[
        Annotated[
            list[GroupDetail],
            Field(description="With `full`: groups, consumers and pending entries."),
        ]
    ]
    groups_left_out: NotRequired[
        Annotated[int, Field(description="With `full`: how many more groups there are.")]
    ]


class Streams(TypedDict):
    """A page of streams, by name."""

    streams: list[Stream]
    next_cursor: NextCursor


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
