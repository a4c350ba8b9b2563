"""Follower: one who follows a pattern, from round to round.

A *round* goes from the moment `done` to the moment `doing`, over the streams with something between
them, in order of names. They are known in one of two ways:

- *Noted*: `PatternNotes` has what was appended since the round before. So a round costs as much as
  there is to read.
- *Looked for*: after a start from a cursor, or if there were too many notes, all names that match
  are looked at, and `Moments` says where each stream was.

What is appended during a round is noted for the next one, so the round ends there for that stream.
If notes are missing, `Moments` says where a stream was at `doing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from headgate.engine.decisions.names.name_ranges import NameRange
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.limits import AHEAD_STREAMS_MAX, PATTERN_NOTES_MAX
from headgate.engine.loop.patterns.moments import Moments
from headgate.engine.loop.patterns.notes import Note, PatternNotes
from headgate.engine.patterns.cursor import PatternCursor, PatternMoment
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


class Follower:
    """A place in all streams that match a pattern, with what is known of them."""

    __slots__ = (
        *("_ahead", "_at", "_doing", "_done", "_moments", "_names", "_reached", "_start"),
        *("_starts", "_stream", "given", "is_in_round", "notes", "number"),
    )

    def __init__(
        self, number: int, notes: PatternNotes, moments: Moments, cursor: PatternCursor
    ) -> None:
        """Go on from a cursor with a moment or a start.

        Args:
            number: is that of no other follower.
            notes: of the pattern.
            moments: say where streams were.
            cursor: where reading goes on.
        """
        self.number = number
        self.notes = notes
        self.given: PatternCursor | None = None  # of the last reply: nothing was read since
        self._moments = moments
        self._start = cursor.start
        self._done = cursor.done
        self._doing = cursor.doing
        self._stream, self._at = cursor.stream, cursor.at
        self._ahead = dict(cursor.ahead)
        self._reached: dict[int, EntryId] = {}
        # Of a round that was noted: where each stream begins, and the names to come, in reverse.
        self._starts: dict[bytes, EntryId] | None = None
        self._names: list[bytes] = []
        self.is_in_round = self._doing is not None
        self._place = _UNKNOWN  # the first note for the next round

    def follow_on(self) -> None:
        """Begin with the next note, as nothing was there before."""
        self._place = self.notes.place
        self.notes.begin(self._place)

    @property
    def _place(self) -> int:
        return self.notes.places[self.number]

    @_place.setter
    def _place(self, place: int) -> None:
        self.notes.places[self.number] = place

    @property
    def has_news(self) -> bool:
        """Tell whether there may be something to read."""
        return self.is_in_round or self._place != self.notes.place

    @property
    def cursor(self) -> PatternCursor:
        """Return the place."""
        doing, stream, at = None, b"", None
        if self.is_in_round:
            doing, stream, at = self._doing, self._stream, self._at
        latest = [*self._ahead.items(), *self._reached.items()][-AHEAD_STREAMS_MAX:]
        start = self._start if self._done is None else None
        return PatternCursor(start, self._done, doing, stream, at, tuple(latest), self.number)

    def settle(self, moment: PatternMoment) -> None:
        """Note that everything up to a moment is read, as there is nothing."""
        self._done = moment
        if self._ahead:
            ahead = [each for each in self._ahead.items() if each[1].ms >= moment.at_ms]
            self._ahead = dict(ahead[-PATTERN_NOTES_MAX:])

    def begin(self, moment: PatternMoment) -> None:
        """Begin the next round, up to a moment."""
        self._doing, self._stream, self._at = moment, b"", None
        notes = self.notes.begin(self._place)
        self._starts = None if notes is None else self._news(notes)
        self._names = sorted(self._starts or (), reverse=True)
        self.is_in_round, self._place = True, self.notes.place

    def _news(self, notes: Iterable[Note]) -> dict[bytes, EntryId]:
        starts: dict[bytes, EntryId] = {}
        for name, before in notes:
            if before is not None:
                starts.setdefault(name, before)
                continue
            starts.pop(name, None)
            if self._ahead:
                self._ahead.pop(digest_of(name), None)
        return starts

    def names(self, keyspace: Keyspace) -> Iterator[bytes]:
        """Yield the names of the round from its place on, within one turn of the event loop.

        A name is over when the next one is asked for.
        """
        while self._names:
            yield self._names[-1]
            self._names.pop()
        if self._starts is not None:
            return
        for names in self.notes.ranges:
            left = names.within(NameRange(self._stream, None))
            for name in () if left is None else left.among(keyspace):
                if name != self._stream or self._at is not None or not name:
                    yield name

    def bounds(self, name: bytes, keyspace: Keyspace) -> tuple[EntryId, EntryId] | None:
        """Return the places between which a stream of the round is read; None: there is nothing."""
        stream = keyspace.find(name)
        if stream is None or (self._starts is None and not self.notes.matches(name)):
            return None
        clock_set_ms, doing = keyspace.clock_set_ms, self._doing
        assert doing is not None
        if self._starts is not None:
            start = self._starts[name]
        else:
            start = self._place_at_done(stream, clock_set_ms)
        if name == self._stream and self._at is not None:
            start = max(start, self._at)
        end = self.notes.end_of(name, self._place)
        if end is None:
            end = self._moments.position(stream, doing, clock_set_ms)
        end = min(end, stream.last_id)
        return (start, end) if start < end else None

    def advance(self, name: bytes, to: EntryId | None) -> None:
        """Note that the names before this one are read, and the stream up to a place.

        Args:
            name: the stream.
            to: the place; None: it is read as far as it goes.
        """
        if name != self._stream:
            self._stream, self._at = name, None
        if to is not None:
            self._at = to
            if self._doing is not None and to.ms >= self._doing.at_ms:
                digest = digest_of(name)
                self._reached.pop(digest, None)
                self._reached[digest] = to

    def end(self) -> None:
        """End the round."""
        assert self._doing is not None
        self._ahead.update(self._reached)
        self._reached = {}
        self.settle(self._doing)
        self.is_in_round, self._doing, self._stream, self._at = False, None, b"", None
        self._starts = None

    def _place_at_done(self, stream: Stream, clock_set_ms: int) -> EntryId:
        """Return the place up to which a stream was read before the round."""
        if self._done is None:
            return self._start or MIN_ID
        place = self._moments.position(stream, self._done, clock_set_ms)
        if self._ahead and stream.epoch <= self._done.epoch:
            place = max(place, self._ahead.get(digest_of(stream.name), place))
        return place


_UNKNOWN = -1
"""Place of a follower for which nothing is noted yet."""


def digest_of(name: bytes) -> int:
    """Return a name as a cursor has it, whatever its length."""
    return int.from_bytes(blake2b(name, digest_size=8).digest())
