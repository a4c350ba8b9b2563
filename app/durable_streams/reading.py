"""The entries of a stream behind an offset, at once or when they arrive (5.5 to 5.7)."""

from typing import NamedTuple

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.durable_streams.configuration import DurableStream, known, prolong_life
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import InvalidId
from headgate.engine.replies import Gap, StreamInfo, StreamRead
from headgate.engine.requests.entries import From, Read, StreamCursor
from headgate.engine.requests.streams import DescribeStream

CHUNK_ENTRIES_MAX = 1_000
CHUNK_BYTES_MAX = 2**20
"""Names and values in one answer, but for its first entry."""


class Seen(NamedTuple):
    configuration: DurableStream
    info: StreamInfo

    @property
    def is_closed(self) -> bool:
        return self.info.closed_at_ms is not None


async def look(access: Access, stream: bytes) -> Seen:
    """Return the state of a stream; raises StreamNotFound, or GatewayError if it is deleted."""
    access.require([Need((Verb.READ,), stream)])
    there = await known(access, stream)
    return Seen(there.configuration, await access.backend.perform(DescribeStream(stream)))


async def read(
    access: Access, stream: bytes, after: EntryId | From, *, wait_ms: int = 0
) -> StreamRead:
    """Return the entries behind a place; GatewayError if entries there were trimmed."""
    cursor = StreamCursor(stream, after)
    [reply] = await access.perform(
        Read([cursor], limit=CHUNK_ENTRIES_MAX, size_bytes_max=CHUNK_BYTES_MAX, wait_ms=wait_ms)
    )
    check_no_gap(reply.gap, after)
    return reply


def check_no_gap(gap: Gap | None, after: EntryId | From) -> None:
    """Raise GatewayError if entries behind a place are gone; a read from the start passes."""
    if gap is not None and after not in (MIN_ID, From.NOW):
        text = f"Entries up to {gap.through} were trimmed: start with offset=-1."
        raise GatewayError("gone", text, pointer="/query/offset")


def check_is_of(info: StreamInfo, after: EntryId | From) -> None:
    """Raise GatewayError for a place above all of the stream: it is of an earlier stream."""
    if isinstance(after, EntryId) and after > info.last_id:
        text = f"The stream was created again and ends at {info.last_id}: start with offset=-1."
        raise GatewayError("gone", text, pointer="/query/offset")


async def use(access: Access, stream: bytes, seen: Seen) -> None:
    await prolong_life(access, stream, seen.configuration)


class Tag(NamedTuple):
    """An entity tag: what an answer was made of, to recognize an equal one (10.1)."""

    epoch: int  # of the stream
    removed: int  # entries that were removed from it by then
    after: EntryId
    through: EntryId
    is_whole: bool  # nothing was behind it
    is_closed: bool

    @classmethod
    def of(cls, info: StreamInfo, after: EntryId, through: EntryId) -> "Tag":
        return cls(
            info.epoch,
            info.entries_added - info.length,
            after,
            through,
            through >= info.last_id,
            info.closed_at_ms is not None,
        )

    def __str__(self) -> str:
        end = "" if self.is_whole else ":m"
        closed = ":c" if self.is_closed else ""
        return f'"{self.epoch}.{self.removed}:{self.after}:{self.through}{end}{closed}"'


def is_unchanged(if_none_match: str, info: StreamInfo, after: EntryId) -> str | None:
    """Return the client's tag from `If-None-Match` if it would get the same answer again.

    An answer that ended before the end of the stream ends there again: nothing comes between.
    """
    for text in if_none_match.split(",")[:_TAGS_MAX]:
        tag = text.strip().removeprefix("W/")
        parts = tag.strip('"').split(":")
        if len(parts) < _PARTS_MIN or parts[1] != str(after):
            continue
        is_whole = "m" not in parts[_PARTS_MIN:]
        try:
            through = info.last_id if is_whole else EntryId.parse(parts[2])
        except InvalidId:
            continue
        made = Tag.of(info, after, through)._replace(is_whole=is_whole)
        if str(made) == tag:
            return tag
    return None


_TAGS_MAX = 10
_PARTS_MIN = 3
