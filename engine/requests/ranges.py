"""Ranges: whole ranges of entries as they are at one moment, however long, read page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId
from headgate.engine.replies import OpenedRange
from headgate.engine.requests import Request


class Span(NamedTuple):
    """A range of entries of one stream, both ends inclusive."""

    stream: bytes
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID


class OpenRanges(Request[list[OpenedRange]], frozen=True):
    """Keep ranges of entries as they are now, and return the first page of each.

    What is appended, deleted or trimmed later changes nothing of them. A range that has more than
    its first page is open until its last page is read, or until `CloseRange`.

    Raises:
        StreamNotFound: a stream does not exist, and `missing_ok` is false.
        LimitExceeded: too many ranges are open.
    """

    spans: Sequence[Span]
    reverse: bool = False
    limit: int | None = None  # of each
    missing_ok: bool = False


class ReadOn(Request[list[Entry]], frozen=True):
    """Return the next page of an open range, at least one entry; the last page closes it.

    Raises:
        RangeClosed: it is not open any more.
    """

    stream: bytes
    number: int


class CloseRange(Request[None], frozen=True):
    """Let go of an open range, if it is open."""

    stream: bytes
    number: int
