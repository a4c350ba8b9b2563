"""Entries: how they are appended, read and removed, and their values."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired, Self

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.config import JsonDict
from typing_extensions import TypeAliasType, TypedDict

from headgate.app.wire.fields import FieldMap, FieldsRead, Pair, bytes_of
from headgate.app.wire.filters import FilterForm
from headgate.app.wire.ids import AfterText, AnId, NewIdText, parse_id, parse_new_id
from headgate.app.wire.names import NameText
from headgate.app.wire.problems import pointer_to
from headgate.engine import config
from headgate.engine.entry import Draft, Fields, Timing
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import Deletion
from headgate.engine.requests.entries import References, TrimTo

IdText = Annotated[AnId, Field(description="Id of an entry.", examples=["1718000000000-0"])]

CursorText = Annotated[
    str, Field(description="Cursor of all streams that match a pattern. Treat it as opaque.")
]

OnDisconnect = TypeAliasType("OnDisconnect", config.OnDisconnect)
OnExpiry = TypeAliasType("OnExpiry", config.OnExpiry)
Count = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Positive = Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)]
Milliseconds = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
EpochText = Annotated[
    str,
    Field(
        description="Identifies the stream. A stream that is deleted and created again has "
        "another epoch."
    ),
]

REFERENCES = (
    "What to do with entries that are pending in a group. `keep` removes the entry but leaves it "
    "pending. `delete` also ends its pending state. `acked` removes only entries that all groups "
    "have read and acknowledged."
)

NextCursor = Annotated[
    str | None,
    Field(description="Pass it as `cursor` to get the next page; null: this is the last page."),
]


class Request(BaseModel):
    """A request body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


def without_null(schema: JsonDict) -> JsonDict:
    """Return the JSON Schema of a part that may be left out, but not be null."""
    variants = schema.get("anyOf")
    if not isinstance(variants, list):
        return schema
    others = [each for each in variants if each != {"type": "null"}]
    rest: JsonDict = {name: part for name, part in schema.items() if name != "anyOf"}
    if len(others) == 1 and isinstance(others[0], dict):
        return others[0] | rest
    return {**rest, "anyOf": others}


def _not_both(name: str, schema: JsonDict, other: str) -> JsonDict:
    is_given: JsonDict = {"required": [name], "properties": {name: schema}}
    without: JsonDict = {"properties": {other: {"type": "null"}}}
    return {"if": is_given, "then": without}


def _either(name: str, schema: JsonDict, other: str, other_schema: JsonDict) -> ConfigDict:
    """Say in the document that one of two parts is given; a model checks that by itself.

    With `oneOf`, generators of clients make a class of each alternative, without the other parts.
    """
    instead: JsonDict = {"required": [other], "properties": {other: other_schema}}
    return ConfigDict(json_schema_extra={**_not_both(name, schema, other), "else": instead})


FIELDS_OR_PAIRS_OR_NONE = _not_both("fields", {"type": "object"}, "pairs")
"""What the document says of fields that may be left out."""


class Ids(Request):
    """A list of entry ids."""

    ids: Annotated[list[IdText], Field(fail_fast=True)] = Field(min_length=1)


class Trim(Request):
    """Which entries a trim keeps: give `max_length` or `min_id`."""

    model_config = _either("max_length", {"type": "integer"}, "min_id", {"type": "string"})

    max_length: Count | None = Field(None, description="Keep this many of the newest entries.")
    min_id: IdText | None = Field(None, description="Keep entries with this id or a greater one.")
    approximate: Flag = Field(False, description="Trim faster, and keep slightly more entries.")
    limit: Count | None = Field(
        None, description="With `approximate`: maximum number of entries to remove; 0: no limit."
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
            raise ValueError("limit is only allowed with approximate")
        return self


class Deletions(Ids):
    """Entries to delete, and what to do where they are pending."""

    references: References = Field(References.KEEP, description=REFERENCES)


class Deleted(TypedDict):
    """Outcome for one id."""

    id: IdText
    outcome: Deletion


class DeletedEntries(TypedDict):
    """Outcome for each id, in order."""

    results: list[Deleted]


class Trimmed(BaseModel):
    """The result of a trim."""

    removed: int


class FieldsInput(Request):
    """The fields of an entry that is to be appended."""

    model_config = _either(
        "fields",
        {"type": "object", "minProperties": 1},
        "pairs",
        {"type": "array", "minItems": 1, "items": {}},
    )

    fields: FieldMap | None = None
    base64: Annotated[list[str], Field(fail_fast=True)] | None = Field(
        None, description="Names of fields whose values are base64-encoded bytes."
    )
    pairs: Annotated[list[Pair], Field(fail_fast=True)] | None = Field(
        None, description="Use instead of `fields` if names repeat or their order matters."
    )
    names_base64: Flag = Field(False, description="All names are base64-encoded bytes.")

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
                raise ValueError(f"base64 names {name!r}, but there is no such field")
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


class EntryDraft(FieldsInput):
    """An entry to append. The stream generates its id."""

    delay_ms: Milliseconds | None = Field(
        None, description="Time until groups deliver the entry; up to 90 days."
    )
    deliver_at_ms: Milliseconds | None = Field(
        None,
        description="Instead of `delay_ms`: unix time before which groups do not deliver the "
        "entry.",
    )
    ttl_ms: Milliseconds | None = Field(
        None, description="Time from now after which groups no longer deliver the entry."
    )
    expires_at_ms: Milliseconds | None = Field(
        None,
        description="Instead of `ttl_ms`: unix time after which groups no longer deliver the "
        "entry.",
    )

    def to_draft(self, place: str = "/body") -> Draft:
        """Return the engine's form; `place` is a pointer to it, for errors."""
        timing = Timing(self.delay_ms, self.deliver_at_ms, self.ttl_ms, self.expires_at_ms)
        return Draft(None, self.to_fields(place), timing.or_none())


class EntryInput(EntryDraft):
    """An entry to append."""

    id: NewIdText = Field(
        "*",
        description="`*` to generate an id, `ms-*` to generate the sequence, or an explicit id "
        "above the last one.",
        examples=["*"],
    )

    def to_draft(self, place: str = "/body") -> Draft:
        """Return the engine's form; `place` is a pointer to it, for errors."""
        new_id = None if self.id == "*" else parse_new_id(self.id, field=f"{place}/id")
        return super().to_draft(place)._replace(id=new_id)


class Append(EntryInput):
    """An entry to append, with options."""

    create_stream: Flag = Field(True, description="Create the stream if it does not exist.")
    trim: Trim | None = Field(None, description="Trim the stream after the append.")


class Close(EntryInput):
    """The last entry of a stream to close, with options."""

    create_stream: Flag = Field(
        True, description="Create the stream, already closed, if it does not exist."
    )


class Closed(BaseModel):
    """A closed stream."""

    ids: list[IdText] = Field(description="Ids of the last append; empty if there was none.")
    epoch: int = Field(
        description="Identifies the stream. A stream that is deleted and created again has "
        "another epoch."
    )
    closed_at_ms: int = Field(description="When the stream was closed.")


class Appended(TypedDict):
    """The result of an append."""

    id: Annotated[
        IdText, Field(description="Id of the entry; for a batch of events, id of the last entry.")
    ]
    ids: NotRequired[
        Annotated[
            list[IdText], Field(description="For a batch of events: ids of the entries, in order.")
        ]
    ]


class AppendedBatch(BaseModel):
    """The result of a batch of appends."""

    count: int
    first_id: IdText
    last_id: IdText
    ids: list[IdText] = Field(description="Ids of the entries, in order.")


class _Identified(TypedDict):
    id: IdText


class Entry(_Identified, FieldsRead):
    """An entry of a stream."""

    deliver_at_ms: NotRequired[
        Annotated[int, Field(description="Unix time before which groups do not deliver the entry.")]
    ]
    expires_at_ms: NotRequired[
        Annotated[
            int, Field(description="Unix time from which groups no longer deliver the entry.")
        ]
    ]


class StreamEntry(Entry):
    """An entry of one of several streams."""

    stream: str


class CloudEvent(BaseModel):
    """An event of CloudEvents 1.0 in the JSON format. Extensions are further members."""

    specversion: Literal["1.0"] = Field(description="Version of the specification.")
    id: str = Field(min_length=1, description="Identifies the event together with `source`.")
    source: str = Field(min_length=1, description="URI reference to the context of the event.")
    type: str = Field(min_length=1, description="Kind of event.")
    time: str | None = Field(None, description="Time of the event (RFC 3339).")
    subject: str | None = Field(None, description="Subject of the event within its source.")
    dataschema: str | None = Field(None, description="URI of the schema of the data.")
    datacontenttype: str | None = Field(None, description="Media type of the data. Default: JSON.")
    data: Any = Field(None, description="The data: a JSON value or a string.")
    data_base64: str | None = Field(None, description="Instead of `data`: the data in base64.")
    headgateid: str | None = Field(
        None, description="Extension for events that are read: id of the entry."
    )
    headgatedeliveries: int | None = Field(
        None, description="Extension for events that a group reads: number of deliveries."
    )


CLOUD_EVENT = "#/components/schemas/CloudEvent"


Gap = TypedDict("Gap", {"from": IdText, "to": IdText})
Gap.__doc__ = (
    "Entries that a reader missed because they were trimmed or their stream was deleted: ids above "
    "`from`, up to `to`. If `from` is greater than `to`, the stream was recreated or restored and "
    "ends at `to`; reading continues there."
)

StreamGap = TypedDict("StreamGap", {"stream": str, "from": IdText, "to": IdText})
StreamGap.__doc__ = "A gap in one of several streams."

MissedOfCursor = Annotated[
    Gap | None, Field(description="Trimmed entries between the cursor and the oldest entry.")
]


class Entries(TypedDict):
    """Entries of one stream."""

    entries: list[Entry]
    next_after: Annotated[
        IdText | None,
        Field(
            description="Cursor for the next ascending read. With a filter, it is after the last "
            "entry that was examined; null: the whole range was examined."
        ),
    ]
    next_before: NotRequired[
        Annotated[
            IdText | None,
            Field(
                description="Cursor for the next descending read: pass `end=(` followed by this id."
            ),
        ]
    ]
    last_id: Annotated[IdText, Field(description="Last id of the stream.")]
    gap: MissedOfCursor
    archived: NotRequired[
        Annotated[
            bool,
            Field(
                description="True if the first entries come from the archive, because they were "
                "trimmed from the stream."
            ),
        ]
    ]
    closed_at_ms: NotRequired[
        Annotated[
            int | None,
            Field(
                description="After a cursor: when the stream was closed, if no entries follow "
                "`next_after`."
            ),
        ]
    ]


class StreamEntries(Entries):
    """Entries of one of several streams."""

    stream: str


class ReadCursor(Request):
    """The cursor of a read in one stream."""

    stream: NameText
    after: AfterText = Field(
        "0", description="An id, `$` for new entries only, or `+` for the last entry."
    )


class Read(Request):
    """A read of several streams."""

    streams: Annotated[list[ReadCursor], Field(fail_fast=True)] = Field(
        min_length=1, max_length=100
    )
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(
        100, description="Maximum number of entries per stream."
    )
    wait_ms: Milliseconds = Field(0, description="How long to wait if there are no entries.")
    # Generators make no type that compiles of an object or an array.
    filter: Annotated[FilterForm | None, WithJsonSchema({})] = Field(
        None,
        title="Filter",
        description="A filter: an object or an array. The answer contains only matching entries, "
        "for all streams.",
    )


class StreamsRead(TypedDict):
    """Entries of several streams."""

    streams: Annotated[
        list[StreamEntries],
        Field(description="One item per cursor, in order, even without entries."),
    ]
