"""Followers: the followers of patterns, by the streams that concern them.

An append looks its stream up in a table of whom it concerns: one look-up, however many patterns
there are. For a name that is not in the table the globs are asked later, in turns of the event
loop, and only those of patterns whose literal prefix the name has. `settled` waits for that: no
moment may be named before what was appended until then is noted.

A follower that is not reading is kept for a while, and goes on where it was when its cursor comes
back. Whoever comes with another cursor begins with a look at all names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from headgate.engine import commands as c
from headgate.engine.clock import Clock
from headgate.engine.decisions.name_ranges import NameRange
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.limits import (
    AHEAD_STREAMS_MAX,
    FOLLOWER_IDLE_S,
    FOLLOWERS_MAX,
    PATTERN_NOTES_MAX,
)
from headgate.engine.loop.concerned import Concerned, WorkInTurns
from headgate.engine.loop.pattern_notes import Moments, Note, NoteCount, PatternNotes
from headgate.engine.loop.waiters import Waiters
from headgate.engine.patterns import PatternCursor, PatternMoment
from headgate.engine.requests.entries import ReadPattern
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream

# Follower: one who follows a pattern, from round to round.
#
# A *round* goes from the moment `done` to the moment `doing`, over the streams with something
# between them, in order of names. They are known in one of two ways:
#
# - *Noted*: `PatternNotes` has what was appended since the round before. So a round costs as much
#   as there is to read.
# - *Looked for*: after a start from a cursor, or if there were too many notes, all names that
#   match are looked at, and `Moments` says where each stream was.
#
# What is appended during a round is noted for the next one, so the round ends there for that
# stream. If notes are missing, `Moments` says where a stream was at `doing`.


class Follower:
    __slots__ = (
        *("_ahead", "_at", "_doing", "_done", "_moments", "_names", "_reached", "_start"),
        *("_starts", "_stream", "given", "is_in_round", "notes", "number"),
    )

    def __init__(
        self, number: int, notes: PatternNotes, moments: Moments, cursor: PatternCursor
    ) -> None:
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
        return self.is_in_round or self._place != self.notes.place

    @property
    def cursor(self) -> PatternCursor:
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
        """Yield names of the round within one turn; a name is over when the next is asked for."""
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
        """Note that names before this one are read, and the stream up to `to`; None: all of it."""
        if name != self._stream:
            self._stream, self._at = name, None
        if to is not None:
            self._at = to
            if self._doing is not None and to.ms >= self._doing.at_ms:
                digest = digest_of(name)
                self._reached.pop(digest, None)
                self._reached[digest] = to

    def end(self) -> None:
        assert self._doing is not None
        self._ahead.update(self._reached)
        self._reached = {}
        self.settle(self._doing)
        self.is_in_round, self._doing, self._stream, self._at = False, None, b"", None
        self._starts = None

    def _place_at_done(self, stream: Stream, clock_set_ms: int) -> EntryId:
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


class Followers:
    def __init__(self, waiters: Waiters, clock: Clock) -> None:
        """Start without followers; `clock` tells runs apart."""
        self._waiters = waiters
        self.moments = Moments(clock)
        self._keyspace = Keyspace()
        self._idle: dict[int, tuple[Follower, float]] = {}  # those that do not read, since when
        self._timer: asyncio.TimerHandle | None = None
        self._last_number = 0
        self._patterns: dict[tuple[bytes, NameFilter | None], PatternNotes] = {}
        self._note_count = NoteCount()
        self._concerned: Concerned[PatternNotes] = Concerned()
        self._news: dict[bytes, list[EntryId | None]] = {}  # of names that are not known in it
        self._settling = WorkInTurns(self._settle, waiters)

    def __bool__(self) -> bool:
        """Tell whether commands have to be noted."""
        return self.moments.are_named

    def __len__(self) -> int:
        return sum(len(notes.places) for notes in self._patterns.values())

    def adopt(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self.moments.begin_run()
        self._idle, self._patterns, self._concerned = {}, {}, Concerned()
        self._news, self._note_count = {}, NoteCount()

    # Who follows

    @property
    def is_settled(self) -> bool:
        """Tell whether it is noted whom all appends concern."""
        return not self._news

    async def settled(self) -> None:
        """Return once it is noted whom all appends concern."""
        while self._news:
            await self._settling.ended()

    def take(self, request: ReadPattern, now_ms: int) -> Follower:
        """Return the follower behind the cursor of a request. All has to be settled."""
        cursor = request.after
        moment = self.moments.now(self._keyspace, now_ms)
        if cursor is not None:
            idle, _ = self._idle.get(cursor.follower, (None, 0.0))
            if (
                idle is not None
                and (idle.notes.pattern, idle.notes.only) == (request.pattern, request.only)
                and idle.given == cursor
            ):
                del self._idle[cursor.follower]
                return idle
        self._last_number += 1
        notes = self._notes_of(request.pattern, request.only)
        first = PatternCursor(done=moment) if cursor is None else cursor
        follower = Follower(self._last_number, notes, self.moments, first)
        follower.given = cursor
        if cursor is None:
            follower.follow_on()
        return follower

    def keep(self, follower: Follower) -> None:
        notes = follower.notes
        if self._patterns.get((notes.pattern, notes.only)) is not notes:
            return  # the state is another one now
        loop = asyncio.get_running_loop()
        self._idle[follower.number] = follower, loop.time()
        if len(self._idle) > FOLLOWERS_MAX:
            self._forget(next(iter(self._idle)))
        if self._timer is None:
            self._timer = loop.call_later(FOLLOWER_IDLE_S, self._look_at_idle)

    def _look_at_idle(self) -> None:
        self._timer, loop = None, asyncio.get_running_loop()
        for number, (_, since_s) in list(self._idle.items()):
            if since_s + FOLLOWER_IDLE_S > loop.time():
                self._timer = loop.call_at(since_s + FOLLOWER_IDLE_S, self._look_at_idle)
                return
            self._forget(number)

    def _notes_of(self, pattern: bytes, only: NameFilter | None) -> PatternNotes:
        notes = self._patterns.get((pattern, only))
        if notes is None:
            notes = PatternNotes(self._last_number, pattern, only, self._note_count)
            self._patterns[pattern, only] = notes
            self._concerned.add(notes)
        return notes

    def _forget(self, number: int) -> None:
        notes = self._idle.pop(number)[0].notes
        del notes.places[number]
        if not notes.places:
            notes.forget()
            del self._patterns[notes.pattern, notes.only]
            self._concerned.remove(notes)

    # What happens

    def note(self, command: c.Command) -> None:
        means = _MEANINGS.get(type(command))
        if means is not None:
            means(self, command)

    def appended(self, name: bytes, first: EntryId) -> None:
        self.moments.appended(name, first)
        concerned = self._concerned.known(name)
        if concerned is None:
            self._tell_later(name, first.previous())
        elif concerned:
            before = first.previous()
            for notes in concerned:
                notes.appended(name, before)
                self._waiters.appended(notes.key.stream)

    def gone(self, name: bytes) -> None:
        self.moments.gone(name)
        self._lose(name)

    def came(self, name: bytes) -> None:
        """Note that a stream has come, with entries in it, in place of one of this name."""
        self.gone(name)
        self._tell_later(name, MIN_ID)

    def renamed(self, name: bytes, to: bytes) -> None:
        self.moments.renamed(name, to)
        stream = self._keyspace.find(to)
        places = [MIN_ID if stream is None else stream.last_id]
        places += (before for before in self._news.get(name, ()) if before is not None)
        for notes in self._patterns.values():  # what was new of it is new still
            places += notes.places_of(name)
        self._lose(name)
        self._lose(to)
        self._tell_later(to, min(places))

    def all_gone(self) -> None:
        self._news = {}
        for notes in self._patterns.values():
            notes.forget()
            self._waiters.appended(notes.key.stream)

    def _lose(self, name: bytes) -> None:
        concerned = self._concerned.known(name)
        if concerned is None:
            self._tell_later(name, None)
        else:
            for notes in concerned:
                notes.gone(name)

    # Whom it concerns

    def _tell_later(self, name: bytes, before: EntryId | None) -> None:
        """Note that a stream has entries behind a place, or is gone, once it is known for whom."""
        if not self._patterns:
            return
        self._concerned.forget(name)  # what comes next is told behind this
        news = self._news.setdefault(name, [])
        if before is None:
            news[:] = [None]
        elif not news or news[-1] is None:
            news.append(before)
        self._settling.begin()

    def _settle(self) -> Iterator[None]:
        """Ask the globs about each name; yield where a turn may end."""
        while self._news:
            name, concerned = next(iter(self._news)), list[PatternNotes]()
            yield from self._concerned.ask(name, concerned)
            for before in self._news.pop(name, ()):
                for notes in concerned:
                    if before is None:
                        notes.gone(name)
                    else:
                        notes.appended(name, before)
                        self._waiters.appended(notes.key.stream)
            yield


def _renamed(followers: Followers, command: c.StreamRenamed) -> None:
    followers.renamed(command.stream, command.name)


_MEANINGS: dict[type, Callable[[Followers, Any], None]] = {
    c.EntriesAdded: lambda them, command: them.appended(command.stream, command.entries[0].id),
    c.ChunksAdded: lambda them, command: them.appended(command.stream, command.chunks[0].first_id),
    c.StreamDeleted: lambda them, command: them.gone(command.stream),
    c.StreamRenamed: _renamed,
    c.StreamRestored: lambda them, command: them.came(command.stream),
    c.StreamCopied: lambda them, command: them.came(command.to),
    c.AllDeleted: lambda them, _: them.all_gone(),
}
