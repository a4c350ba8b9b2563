"""Reading: what a stream has behind an offset, at once or when it comes (5.5 to 5.7)."""

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
    """A stream as it is now."""

    configuration: DurableStream
    info: StreamInfo

    @property
    def is_closed(self) -> bool:
        """Tell whether it takes nothing more."""
        return self.info.closed_at_ms is not None


async def look(access: Access, stream: bytes) -> Seen:
    """Return the state of a stream.

    Raises:
        StreamNotFound: there is none.
        GatewayError: it is deleted.
    """
    access.require([Need((Verb.READ,), stream)])
    there = await known(access, stream)
    return Seen(there.configuration, await access.backend.perform(DescribeStream(stream)))


async def read(
    access: Access, stream: bytes, after: EntryId | From, *, wait_ms: int = 0
) -> StreamRead:
    """Return the entries behind a place, as many as an answer has.

    Raises:
        StreamNotFound: there is no stream, or it is deleted meanwhile.
        GatewayError: entries behind the place were trimmed.
    """
    cursor = StreamCursor(stream, after)
    [reply] = await access.perform(
        Read([cursor], limit=CHUNK_ENTRIES_MAX, size_bytes_max=CHUNK_BYTES_MAX, wait_ms=wait_ms)
    )
    check_no_gap(reply.gap, after)
    return reply


def check_no_gap(gap: Gap | None, after: EntryId | From) -> None:
    """Refuse to go on behind a place if what came there is not kept any more.

    Raises:
        GatewayError: it is so. Whoever reads from the beginning gets what there is.
    """
    if gap is not None and after not in (MIN_ID, From.NOW):
        text = f"Entries up to {gap.through} are not kept any more: begin with offset=-1."
        raise GatewayError("gone", text, pointer="/query/offset")


def check_is_of(info: StreamInfo, after: EntryId | From) -> None:
    """Refuse a place that is above all that a stream has had: it is of an earlier one.

    Raises:
        GatewayError: it is so, as the stream was made anew.
    """
    if isinstance(after, EntryId) and after > info.last_id:
        text = f"The stream ends at {info.last_id}, and was made anew: begin with offset=-1."
        raise GatewayError("gone", text, pointer="/query/offset")


async def use(access: Access, stream: bytes, seen: Seen) -> None:
    """Let a stream that is read stay."""
    await prolong_life(access, stream, seen.configuration)


class Tag(NamedTuple):
    """An entity tag: what an answer was made of, so that it is known to be the same (10.1)."""

    epoch: int  # of the stream
    removed: int  # entries that were removed from it by then
    after: EntryId
    through: EntryId
    is_whole: bool  # nothing was behind it
    is_closed: bool

    @classmethod
    def of(cls, info: StreamInfo, after: EntryId, through: EntryId) -> "Tag":
        """Return the tag of an answer with the entries between two places."""
        return cls(
            info.epoch,
            info.entries_added - info.length,
            after,
            through,
            through >= info.last_id,
            info.closed_at_ms is not None,
        )

    def __str__(self) -> str:
        """Return the tag as it stands in a header."""
        end = "" if self.is_whole else ":m"
        closed = ":c" if self.is_closed else ""
        return f'"{self.epoch}.{self.removed}:{self.after}:{self.through}{end}{closed}"'


def is_unchanged(if_none_match: str, info: StreamInfo, after: EntryId) -> str | None:
    """Return the tag of the answer that a client has, if it would get the same again.

    An answer that ended before the end of the stream ends there again: nothing comes between.

    Args:
        if_none_match: the header.
        info: of the stream.
        after: the place behind which the client reads.
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
