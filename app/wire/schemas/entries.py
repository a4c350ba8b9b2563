"""Entries: how they are appended, read and removed, and their values."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired, Self

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from typing_extensions import TypeAliasType, TypedDict

from headgate.app.wire.fields import FieldMap, FieldsRead, Pair, bytes_of
from headgate.app.wire.filters import FilterForm
from headgate.app.wire.ids import parse_id, parse_new_id
from headgate.app.wire.problems import pointer_to
from headgate.engine import config
from headgate.engine.entry import Draft, Fields, Timing
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import Deletion
from headgate.engine.requests.entries import References, TrimTo

# The pattern is told, not checked here: a malformed id has a problem of its own, `invalid_id`.
IdText = Annotated[
    str,
    Field(
        description="Entry id.",
        examples=["1718000000000-0"],
        json_schema_extra={"pattern": r"^[0-9]{1,20}(-[0-9]{1,20})?$"},
    ),
]

CursorText = Annotated[
    str, Field(description="Cursor of all streams that match a pattern. Its text has no meaning.")
]

OnDisconnect = TypeAliasType("OnDisconnect", config.OnDisconnect)
OnExpiry = TypeAliasType("OnExpiry", config.OnExpiry)
Count = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Positive = Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)]
Milliseconds = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
EpochText = Annotated[str, Field(description="Identity of this life of the stream's name.")]

REFERENCES = (
    "Where an entry is pending in a group: `keep` removes it and it stays pending there, `delete` "
    "makes it pending no more, `acked` spares what a group has not read or not acknowledged."
)

NextCursor = Annotated[
    str | None, Field(description="Pass it as `cursor` for the next page; null: this was the last.")
]


class Request(BaseModel):
    """A request body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Ids(Request):
    """A list of entry ids."""

    ids: Annotated[list[IdText], Field(fail_fast=True)] = Field(min_length=1)


class Trim(Request):
    """The entries that a trim keeps: give `max_length` or `min_id`."""

    max_length: Count | None = Field(None, description="Keep the newest so many.")
    min_id: IdText | None = Field(None, description="Keep this id and all above.")
    approximate: Flag = Field(
        False, description="Remove only what goes cheaply, and so keep a little more."
    )
    limit: Count | None = Field(
        None, description="With `approximate`: remove so many at most; 0 is no limit."
    )
    references: References = Field(References.KEEP, description=REFERENCES)

    def to_request(self, field: str) -> TrimTo:
        min_id = None if self.min_id is None else parse_id(self.min_id, field=f"{field}/min_id")
        return TrimTo(self.max_length, min_id, self.approximate, self.limit, self.references)

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if (self.max_length is None) == (self.min_id is None):
            raise ValueError("give either max_length or min_id")
        if self.limit is not None and not self.approximate:
            raise ValueError("limit is for approximate trims only")
        return self


class Deletions(Ids):
    """The entries to delete, and the treatment of pending ones."""

    references: References = Field(References.KEEP, description=REFERENCES)


class Deleted(TypedDict):
    """The outcome of one id."""

    id: IdText
    outcome: Deletion


class DeletedEntries(TypedDict):
    """The outcome of each id, in order."""

    results: list[Deleted]


class Trimmed(BaseModel):
    """The result of a trim."""

    removed: int


class FieldsInput(Request):
    """The fields of an entry that is to be appended."""

    fields: FieldMap | None = None
    base64: Annotated[list[str], Field(fail_fast=True)] | None = Field(
        None, description="Names of fields whose values are base64 text of bytes."
    )
    pairs: Annotated[list[Pair], Field(fail_fast=True)] | None = Field(
        None, description="Instead of `fields`, where names repeat or their order matters."
    )
    names_base64: Flag = Field(False, description="All names are base64 text of bytes.")

    @model_validator(mode="after")
    def _has_fields(self) -> Self:
        if self._leaves_fields():
            return self
        if (self.fields is None) == (self.pairs is None):
            raise ValueError("give either fields or pairs")
        if not (self.fields or self.pairs):
            raise ValueError("an entry has at least one field")
        names = {name for name, _ in self._fields()} if self.base64 else set()
        for name in self.base64 or ():
            if name not in names:
                raise ValueError(f"base64 names {name!r}, and there is no such field")
        return self

    def _leaves_fields(self) -> bool:
        return False

    def to_fields(self, place: str = "/body") -> Fields:
        """Return the engine's form; `place` is a pointer to it, for errors."""
        if self.base64 or self.names_base64:
            return tuple(self._bytes(place))
        return tuple([text.encode() for text in chain.from_iterable(self._fields())])

    def _bytes(self, place: str) -> Iterator[bytes]:
        """Yield names and values where some are base64 text."""
        packed = frozenset(self.base64 or ())
        for number, (name, value) in enumerate(self._fields()):
            at = pointer_to("pairs", number) if self.fields is None else pointer_to("fields", name)
            yield bytes_of(name, place + at) if self.names_base64 else name.encode()
            yield bytes_of(value, place + at) if name in packed else value.encode()

    def _fields(self) -> Iterable[Sequence[str]]:
        return self.fields.items() if self.fields is not None else self.pairs or ()


class NewEntry(FieldsInput):
    """An entry to append, whose id the stream chooses."""

    delay_ms: Milliseconds | None = Field(
        None, description="Groups deliver it so much later. Up to 90 days."
    )
    deliver_at_ms: Milliseconds | None = Field(
        None, description="Instead: groups deliver it no sooner than this unix time."
    )
    ttl_ms: Milliseconds | None = Field(
        None, description="Groups deliver it for so long, from now on, and then no more."
    )
    expires_at_ms: Milliseconds | None = Field(
        None, description="Instead: groups deliver it until this unix time."
    )

    def to_draft(self, place: str = "/body") -> Draft:
        """Return the engine's form; `place` is a pointer to it, for errors."""
        timing = Timing(self.delay_ms, self.deliver_at_ms, self.ttl_ms, self.expires_at_ms)
        return Draft(None, self.to_fields(place), timing.or_none())


class EntryInput(NewEntry):
    """An entry to append."""

    id: str = Field(
        "*", description="`*`, `ms-*`, or an explicit id above the last.", examples=["*"]
    )

    def to_draft(self, place: str = "/body") -> Draft:
        """Return the engine's form; `place` is a pointer to it, for errors."""
        new_id = None if self.id == "*" else parse_new_id(self.id, field=f"{place}/id")
        return super().to_draft(place)._replace(id=new_id)


class Append(EntryInput):
    """An entry to append, and how."""

    create_stream: Flag = Field(True, description="Create the stream if it is not there.")
    trim: Trim | None = Field(None, description="Trim the stream after the append.")


class Close(EntryInput):
    """The last entry of a stream that is to be closed, and how it is appended."""

    create_stream: Flag = Field(True, description="Create the stream, closed, if it is not there.")


class Closed(BaseModel):
    """The end of a stream."""

    ids: list[IdText] = Field(description="Of the last append; none if there was none.")
    epoch: int = Field(description="Identity of this life of the stream's name.")
    closed_at_ms: int = Field(description="When the stream was closed.")


class Appended(TypedDict):
    """The result of an append."""

    id: Annotated[IdText, Field(description="Entry id; of a batch of events that of the last.")]
    ids: NotRequired[
        Annotated[list[IdText], Field(description="Of a batch of events: one each, in order.")]
    ]


class AppendedBatch(BaseModel):
    """The result of a batch of appends."""

    count: int
    first_id: IdText
    last_id: IdText
    ids: list[IdText] = Field(description="One per entry, in order.")


class _Identified(TypedDict):
    id: IdText


class Entry(_Identified, FieldsRead):
    """One element of a stream."""

    deliver_at_ms: NotRequired[
        Annotated[int, Field(description="Groups deliver it no sooner than this unix time.")]
    ]
    expires_at_ms: NotRequired[
        Annotated[int, Field(description="Groups deliver it no more from this unix time on.")]
    ]


class StreamEntry(Entry):
    """An entry of one of several streams."""

    stream: str


class CloudEvent(BaseModel):
    """An event of CloudEvents 1.0 in the JSON format. Its extensions are further members."""

    specversion: Literal["1.0"] = Field(description="Version of the specification.")
    id: str = Field(min_length=1, description="With `source` it names the event.")
    source: str = Field(min_length=1, description="A URI reference: the context of the event.")
    type: str = Field(min_length=1, description="The kind of event.")
    time: str | None = Field(None, description="When it happened, as of RFC 3339.")
    subject: str | None = Field(None, description="The subject of the event in its source.")
    dataschema: str | None = Field(None, description="A URI: the schema of the data.")
    datacontenttype: str | None = Field(None, description="Media type of the data; JSON if unset.")
    data: Any = Field(None, description="The data: a JSON value, or a text.")
    data_base64: str | None = Field(None, description="Instead: the data as base64 text.")
    headgateid: str | None = Field(
        None, description="Extension of events that are read: the id of the entry."
    )
    headgatedeliveries: int | None = Field(
        None, description="Extension of events that a group reads: the number of deliveries."
    )


CLOUD_EVENT = "#/components/schemas/CloudEvent"


Gap = TypedDict("Gap", {"from": IdText, "to": IdText})
Gap.__doc__ = (
    "Entries a reader missed because they were trimmed, or their stream was deleted: above `from`, "
    "up to `to`. If `from` is the greater one, the stream was made anew or restored and ends at "
    "`to`: reading goes on there."
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
    # Generators make no type that compiles of an object or an array.
    filter: Annotated[FilterForm | None, WithJsonSchema({})] = Field(
        None,
        title="Filter",
        description="An object or an array. Only entries come for which it holds, of all streams.",
    )


class StreamsRead(TypedDict):
    """The entries of several streams."""

    streams: Annotated[
        list[StreamEntries], Field(description="One per cursor, in order, empty or not.")
    ]
