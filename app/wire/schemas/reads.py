"""Reads of streams by cursor."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from headgate.app.wire.filters import FilterForm
from headgate.app.wire.schemas.entries import Entry
from headgate.app.wire.schemas.values import IdText, Milliseconds, Request

Gap = TypedDict("Gap", {"from": IdText, "to": IdText})
Gap.__doc__ = (
    "Entries a reader missed because trimming took them: above `from`, up to `to`. If `from` is "
    "the greater one, the stream was made anew or restored and ends at `to`: reading goes on there."
)

StreamGap = TypedDict("StreamGap", {"stream": str, "from": IdText, "to": IdText})
StreamGap.__doc__ = "The same, of one of several streams."

MissedOfCursor = Annotated[
    Gap | None, Field(description="Trimmed entries between the cursor and the oldest.")
]


class Entries(TypedDict):
    """Entries of one stream."""

    entries: list[Entry]
    next_after: Annotated[
        IdText | None,
        Field(
            description="Cursor for the next read, ascending. With a filter it is behind what was "
            "looked at; null: that was all of the range."
        ),
    ]
    next_before: NotRequired[
        Annotated[
            IdText | None,
            Field(description="The same for a range that is read downwards: `end=(` and this id."),
        ]
    ]
    last_id: Annotated[IdText, Field(description="The stream's last id.")]
    gap: MissedOfCursor
    archived: NotRequired[
        Annotated[
            bool,
            Field(
                description="True if the entries begin below those of the stream: they were "
                "trimmed, and its archive has them."
            ),
        ]
    ]
    closed_at_ms: NotRequired[
        Annotated[
            int | None,
            Field(
                description="After a cursor: when the stream was closed, if nothing comes behind "
                "`next_after` any more."
            ),
        ]
    ]


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
    filter: FilterForm | None = Field(
        None, description="Only entries come for which it holds, of all streams."
    )


class StreamsRead(TypedDict):
    """The entries of several streams."""

    streams: Annotated[
        list[StreamEntries], Field(description="One per cursor, in order, empty or not.")
    ]
