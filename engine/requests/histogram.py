"""Histogram: counts of a stream's entries by the time in their ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.limits import U64_MAX
from headgate.engine.replies import Histogram
from headgate.engine.requests import Request


class CountByTime(Request[Histogram], frozen=True):
    """Count the entries from `start` to `end`, both inclusive, by the time in their ids.

    The range is divided into at most `buckets_max` buckets of equal duration. From `MIN_ID` on
    means from the first entry on, and up to `MAX_ID` means up to the last id. Entries that are
    deleted or trimmed are not counted. Other requests run meanwhile, so an entry that is removed
    in the course of it may be counted or not.

    Raises:
        StreamNotFound: the stream does not exist, or is deleted meanwhile.
        Invalid: the range has more entries than the backend counts.
    """

    stream: bytes
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID
    buckets_max: int = 60


class TimeBucket(NamedTuple):
    """The ids of one bucket: above `after`, up to and including `through`."""

    after: EntryId
    through: EntryId


class TimeBuckets(NamedTuple):
    """The division of a range into buckets of time."""

    start: EntryId
    end: EntryId
    bucket_ms: int

    @classmethod
    def of(cls, request: CountByTime, first_id: EntryId | None, last_id: EntryId) -> TimeBuckets:
        """Divide the range of a request.

        Args:
            request: what is asked for.
            first_id: of the first entry of the stream; None if the stream is empty.
            last_id: the last id of the stream.
        """
        open_start = last_id.next() if first_id is None else first_id
        start = open_start if request.start == MIN_ID else request.start
        end = last_id if request.end == MAX_ID else request.end
        duration_ms = max(end.ms - start.ms + 1, 1)
        return cls(start, end, -(-duration_ms // request.buckets_max))

    def ranges(self) -> Iterator[TimeBucket]:
        """Yield the buckets in order; there is none if the range ends before it starts."""
        after = self.start.previous()
        while after < self.end:
            number = (after.next().ms - self.start.ms) // self.bucket_ms
            last_ms = min(self.start.ms + (number + 1) * self.bucket_ms - 1, U64_MAX)
            through = min(EntryId(last_ms, U64_MAX), self.end)
            yield TimeBucket(after, through)
            after = through

    def counted(self, counts: list[int]) -> Histogram:
        """Return the reply with the count of each bucket."""
        return Histogram(self.start.ms, self.end.ms, self.bucket_ms, counts)
