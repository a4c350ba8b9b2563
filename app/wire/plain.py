"""Plain entries: text fields, and times. Nearly every batch has only these.

They are read at once, without a model for each. Entries that are not plain, or wrong, are not read
here: the models read them, or report what is wrong.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Annotated, NamedTuple

import msgspec

from headgate.app.wire.structure import DENSE_BYTES_MIN, MEMBERS_MAX
from headgate.engine.entry import Draft, Timing
from headgate.engine.limits import COUNT_MAX

_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]


class PlainDraft(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    fields: dict[str, str]
    delay_ms: _Milliseconds | None = None
    deliver_at_ms: _Milliseconds | None = None
    ttl_ms: _Milliseconds | None = None
    expires_at_ms: _Milliseconds | None = None


class _PlainAppend(msgspec.Struct, tag_field="type", tag="append", forbid_unknown_fields=True):
    stream: str
    entries: list[PlainDraft]
    rid: str | None = None


class PlainEntry(NamedTuple):
    """The body of an append that has only text fields and times."""

    draft: Draft
    trim: None = None
    create_stream: bool = True

    def to_draft(self) -> Draft:
        return self.draft


class PlainAppend(NamedTuple):
    """A frame that appends plain entries."""

    rid: str | None
    stream: str
    drafts: list[Draft]


_entry = msgspec.json.Decoder(PlainDraft).decode
_frame = msgspec.json.Decoder(_PlainAppend).decode
_lines = msgspec.json.Decoder(PlainDraft).decode_lines
_array = msgspec.json.Decoder(list[PlainDraft]).decode


def plain_drafts(body: bytes, *, is_lines: bool) -> list[Draft] | None:
    """Return the entries of a JSON array or of lines; None unless all are plain and valid."""
    try:
        entries = _lines(body) if is_lines else _array(body)
        if is_lines and len(entries) != body.count(b"\n") + (not body.endswith(b"\n")):
            return None  # there are empty lines
        return drafts_of_plain(entries)
    except NOT_PLAIN:
        return None


def plain_entry(body: bytes) -> PlainEntry | None:
    """Return the entry of a body; None unless it is plain and valid."""
    if len(body) > DENSE_BYTES_MIN:
        return None
    try:
        drafts = drafts_of_plain([_entry(body)])
    except NOT_PLAIN:
        return None
    return PlainEntry(drafts[0]) if drafts else None


def plain_append(text: str, entries_max: int) -> PlainAppend | None:
    """Return the append of a frame; None unless it has entries and all are plain and valid."""
    try:
        frame = _frame(text)
        drafts = drafts_of_plain(frame.entries) if len(frame.entries) <= entries_max else None
    except NOT_PLAIN:
        return None
    return PlainAppend(frame.rid, frame.stream, drafts) if drafts else None


_NO_TIMES = (None, None, None, None)
NOT_PLAIN = (msgspec.DecodeError, UnicodeError, RecursionError)


def drafts_of_plain(entries: Iterable[PlainDraft]) -> list[Draft] | None:
    drafts = []
    for entry in entries:
        fields = entry.fields
        if not 0 < len(fields) <= MEMBERS_MAX:
            return None
        texts = chain.from_iterable(fields.items())
        times = entry.delay_ms, entry.deliver_at_ms, entry.ttl_ms, entry.expires_at_ms
        timing = None if times == _NO_TIMES else Timing(*times)  # most have none
        drafts.append(Draft(None, tuple(map(str.encode, texts)), timing))
    return drafts
