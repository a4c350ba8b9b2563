"""Notes: the news of the streams that a pattern matches, once for all its followers.

A note says that a stream has new entries behind a place, or that it is gone. A stream is noted once
between two rounds of any follower. So an append costs the same for one follower and for thousands.
Each follower has the number of the next note for it. Notes that all have taken go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from headgate.engine.clock import Clock
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.limits import (
    LATE_NOTES_MAX,
    LATE_STREAM_NOTES_MAX,
    NOTES_MAX,
    PATTERN_NOTES_MAX,
)
from headgate.engine.loop.concerned import NamePattern
from headgate.engine.loop.wait_queue import QueueKey
from headgate.engine.patterns import PatternMoment
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream

# Moments: where each stream was at a moment that a cursor names.
#
# A cursor of a pattern is as long for a million streams as for one. So it names a moment, and
# where a stream was then follows from the ids of its entries, which are times. `position` has the
# rules, and this is why they hold:
#
# 1. A stream with a greater epoch than any at the moment was made later: all of it comes. Epochs
#    grow whatever the clock does, and are kept.
# 2. The time of a moment never goes back within a run. What is appended later with an id of its
#    clock has that millisecond or a later one. So nothing of a later append is below it.
# 3. Except for *late* appends: with an explicit id of the past, or after the clock was set back.
#    They are noted while the engine runs: where the stream was before, and the moment they follow.
#    A stream has 64 notes; with more of them every second one goes, and a stream goes on from the
#    note before the moment. Of too many notes together only the earliest time is left.
# 4. Entries of that same millisecond, or with explicit ids ahead of the clock, may have been read.
#    The cursor lists the last 16 streams of which that is so. Of others these entries come again.
# 5. After a start the notes are gone. If the clock was set back since, reading begins by so much
#    earlier. A late append by an explicit id, which came before the start and behind the moment,
#    is not known any more. This is the one thing that a cursor can miss.


class _Note:
    """A late append: `before` is where the stream was, and no later moment than `number` was."""

    __slots__ = ("before", "number")

    def __init__(self, number: int, before: EntryId) -> None:
        self.number = number
        self.before = before


class _Notes:
    __slots__ = ("are_thinned", "notes")

    def __init__(self) -> None:
        self.notes: list[_Note] = []
        self.are_thinned = False

    def add(self, note: _Note) -> int:
        if self.notes and self.notes[-1].number == note.number:
            return 0  # where the stream was at the moment stands in the first of them
        before = len(self.notes)
        self.notes.append(note)
        if len(self.notes) > LATE_STREAM_NOTES_MAX:
            del self.notes[1::2]
            self.are_thinned = True
        return len(self.notes) - before

    def position(self, number: int) -> EntryId | None:
        """Return the place at a moment, or one before it; None: nothing was late since."""
        index = next((at for at, each in enumerate(self.notes) if each.number >= number), None)
        if index is None:
            return None
        return self.notes[max(index - self.are_thinned, 0)].before


class Moments:
    """The moments of a run, and the late appends since the first of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest_ms = 0  # of the last moment; 0: there was none, so nothing is late
        self._number = 0
        self._run = 0
        self._late: dict[bytes, _Notes] = {}
        self._note_count = 0
        self._forgotten: tuple[int, int] | None = None  # up to which moment, the earliest time

    @property
    def are_named(self) -> bool:
        return self._latest_ms > 0

    def begin_run(self) -> None:
        self._latest_ms, self._late, self._note_count, self._forgotten = 0, {}, 0, None

    def now(self, keyspace: Keyspace, now_ms: int) -> PatternMoment:
        if not self._latest_ms:
            self._run = (now_ms << 20) + self._clock.monotonic_ms() % 2**20
        self._number += 1
        self._latest_ms = max(self._latest_ms, now_ms)
        return PatternMoment(
            self._run, self._number, self._latest_ms, keyspace.clock_set_ms, keyspace.epoch
        )

    def appended(self, name: bytes, first: EntryId) -> None:
        """Note an append, if it is late."""
        if first.ms < self._latest_ms:
            notes = self._late.get(name)
            if notes is None:
                notes = self._late[name] = _Notes()
            self._note_count += notes.add(_Note(self._number, first.previous()))
            if self._note_count > LATE_NOTES_MAX:
                self._forget()

    def gone(self, name: bytes) -> None:
        notes = self._late.pop(name, None)
        if notes is not None:
            self._note_count -= len(notes.notes)

    def renamed(self, name: bytes, to: bytes) -> None:
        self.gone(to)
        notes = self._late.pop(name, None)
        if notes is not None:
            self._late[to] = notes

    def position(self, stream: Stream, moment: PatternMoment, clock_set_ms: int) -> EntryId:
        """Return the place of a stream at a moment, or a little before. The rules stand above."""
        if stream.epoch > moment.epoch:
            return MIN_ID
        at_ms = moment.at_ms
        if moment.run != self._run or not self._latest_ms:
            at_ms -= max(moment.clock_set_ms - clock_set_ms, 0)
            return EntryId(max(at_ms, 0), 0).previous()
        if self._forgotten is not None and moment.number <= self._forgotten[0]:
            at_ms = min(at_ms, self._forgotten[1])
        position = EntryId(at_ms, 0).previous()
        notes = self._late.get(stream.name)
        late = None if notes is None else notes.position(moment.number)
        return position if late is None else min(position, late)

    def _forget(self) -> None:
        earliest_ms = min(notes.notes[0].before.ms for notes in self._late.values())
        if self._forgotten is not None:
            earliest_ms = min(earliest_ms, self._forgotten[1])
        self._forgotten = self._number, earliest_ms
        self._late, self._note_count = {}, 0


_TAKEN_MIN = 256
"""Notes of which it is looked whether all have taken them."""


class Note(NamedTuple):
    stream: bytes
    before: EntryId | None  # it has new entries behind this place; None: it is gone


class NoteCount:
    def __init__(self) -> None:
        self.count = 0


class PatternNotes(NamePattern):
    def __init__(
        self, number: int, pattern: bytes, only: NameFilter | None, total: NoteCount
    ) -> None:
        """Start without notes; `number` is that of no other, `only` the names that may be read."""
        super().__init__(pattern, only)
        # Of the wait queue. An append to a stream of that name only makes its followers look.
        self.key = QueueKey(b"\xff\xffpattern %d" % number, None)
        self.places: dict[int, int] = {}  # of the followers, by number: the next note for each
        self._total = total
        self._notes: list[Note] = []
        self._first = 0  # the number of the first of them
        self._numbers: dict[bytes, list[int]] = {}  # of the notes of each stream
        self._latest_place = 0  # where the last round began
        self._look_at_count = _TAKEN_MIN  # of notes: then those go that all have taken

    @property
    def place(self) -> int:
        return self._first + len(self._notes)

    def appended(self, name: bytes, before: EntryId) -> None:
        numbers = self._numbers.get(name)
        if (
            numbers is None
            or numbers[-1] < self._latest_place
            or self._notes[numbers[-1] - self._first].before is None
        ):
            self._add(Note(name, before))

    def gone(self, name: bytes) -> None:
        """Note that a stream is gone. Another one of its name is another stream."""
        self._add(Note(name, None))

    def places_of(self, name: bytes) -> list[EntryId]:
        notes = (self._notes[number - self._first] for number in self._numbers.get(name, ()))
        return [note.before for note in notes if note.before is not None]

    def begin(self, place: int) -> Iterable[Note] | None:
        """Return notes from a place to now, as a round begins; None: some are not there now."""
        self._latest_place = self.place
        return None if place < self._first else self._notes[place - self._first :]

    def end_of(self, name: bytes, place: int) -> EntryId | None:
        """Return the end of a stream at a place; None: notes from there on are missing."""
        if place < self._first:
            return None
        numbers = self._numbers.get(name, ())
        index = bisect_left(numbers, place)
        if index == len(numbers):
            return MAX_ID
        return self._notes[numbers[index] - self._first].before or MIN_ID

    def forget(self) -> None:
        self._drop(len(self._notes))

    def _add(self, note: Note) -> None:
        self._numbers.setdefault(note.stream, []).append(self.place)
        self._notes.append(note)
        self._total.count += 1
        if len(self._notes) >= self._look_at_count:
            taken = min(self.places.values(), default=self.place) - self._first
            self._drop(max(taken, len(self._notes) - PATTERN_NOTES_MAX))
            many = max(2 * len(self._notes), len(self.places), _TAKEN_MIN)
            self._look_at_count = min(many, PATTERN_NOTES_MAX + _TAKEN_MIN)
        if self._total.count > NOTES_MAX:
            self.forget()

    def _drop(self, count: int) -> None:
        for name, _ in self._notes[: max(count, 0)]:
            numbers = self._numbers[name]
            del numbers[0]
            if not numbers:
                del self._numbers[name]
            self._total.count -= 1
            self._first += 1
        del self._notes[: max(count, 0)]
