"""Moments: where each stream was at a moment that a cursor names.

A cursor of a pattern is as long for a million streams as for one. So it names a moment, and where a
stream was then follows from the ids of its entries, which are times. `position` has the rules, and
this is why they hold:

1. A stream with a greater epoch than any at the moment was made later: all of it comes. Epochs grow
   whatever the clock does, and are kept.
2. The time of a moment never goes back within a run. What is appended later with an id of its
   clock has that millisecond or a later one. So nothing of a later append is below it.
3. Except for *late* appends: with an explicit id of the past, or after the clock was set back. They
   are noted while the engine runs: where the stream was before, and the moment they follow. A
   stream has 64 notes; with more of them every second one goes, and a stream goes on from
   the note before the moment. Of too many notes together only the earliest time is left.
4. Entries of that same millisecond, or with explicit ids ahead of the clock, may have been read.
   The cursor lists the last 16 streams of which that is so. Of others these entries come again.
5. After a start the notes are gone. If the clock was set back since, reading begins by so much
   earlier. A late append by an explicit id, which came before the start and behind the moment, is
   not known any more. This is the one thing that a cursor can miss.
"""

from __future__ import annotations

from headgate.engine.clock import Clock
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.limits import LATE_NOTES_MAX, LATE_STREAM_NOTES_MAX
from headgate.engine.patterns.cursor import PatternMoment
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


class _Note:
    """A late append: `before` is where the stream was, and no later moment than `number` was."""

    __slots__ = ("before", "number")

    def __init__(self, number: int, before: EntryId) -> None:
        self.number = number
        self.before = before


class _Notes:
    """The late appends of a stream."""

    __slots__ = ("are_thinned", "notes")

    def __init__(self) -> None:
        self.notes: list[_Note] = []
        self.are_thinned = False

    def add(self, note: _Note) -> int:
        """Add a note; return by how many there are more."""
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
        """Start a run."""
        self._clock = clock
        self._latest_ms = 0  # of the last moment; 0: there was none, so nothing is late
        self._number = 0
        self._run = 0
        self._late: dict[bytes, _Notes] = {}
        self._note_count = 0
        self._forgotten: tuple[int, int] | None = None  # up to which moment, the earliest time

    @property
    def are_named(self) -> bool:
        """Tell whether a cursor may name one of them."""
        return self._latest_ms > 0

    def begin_run(self) -> None:
        """Forget all, as the state is another one."""
        self._latest_ms, self._late, self._note_count, self._forgotten = 0, {}, 0, None

    def now(self, keyspace: Keyspace, now_ms: int) -> PatternMoment:
        """Return the present moment."""
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
        """Note that a stream is gone."""
        notes = self._late.pop(name, None)
        if notes is not None:
            self._note_count -= len(notes.notes)

    def renamed(self, name: bytes, to: bytes) -> None:
        """Note that a stream has another name."""
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
