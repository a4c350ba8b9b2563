"""Notes: the news of the streams that a pattern matches, once for all its followers.

A note says that a stream has new entries behind a place, or that it is gone. A stream is noted once
between two rounds of any follower. So an append costs the same for one follower and for thousands.
Each follower has the number of the next note for it. Notes that all have taken go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from headgate.engine.decisions.names.name_ranges import NameRange, beginning_with, shown_by
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.limits import NOTES_MAX, PATTERN_NOTES_MAX
from headgate.engine.loop.wait_queue import QueueKey
from headgate.engine.patterns.glob import literal_prefix, matcher
from headgate.engine.requests.names import NameFilter, is_shown

_TAKEN_MIN = 256
"""Notes of which it is looked whether all have taken them."""


class Note(NamedTuple):
    """News of a stream."""

    stream: bytes
    before: EntryId | None  # it has new entries behind this place; None: it is gone


class NoteCount:
    """The number of notes of all patterns together."""

    def __init__(self) -> None:
        """Start without notes."""
        self.count = 0


class PatternNotes:
    """A pattern as some may read it, and what has happened to its streams."""

    def __init__(
        self, number: int, pattern: bytes, only: NameFilter | None, total: NoteCount
    ) -> None:
        """Start without notes.

        Args:
            number: is that of no other.
            pattern: the glob.
            only: the names that may be read.
            total: counts the notes of all patterns.
        """
        self.pattern = pattern
        self.only = only
        self.prefix = literal_prefix(pattern)
        # Of the wait queue. An append to a stream of that name only makes its followers look.
        self.key = QueueKey(b"\xff\xffpattern %d" % number, None)
        self.places: dict[int, int] = {}  # of the followers, by number: the next note for each
        self.matches = matcher(pattern)
        own = beginning_with(self.prefix)
        within = (names.within(own) for names in shown_by(only))
        self.ranges: list[NameRange] = [names for names in within if names is not None]
        self._total = total
        self._notes: list[Note] = []
        self._first = 0  # the number of the first of them
        self._numbers: dict[bytes, list[int]] = {}  # of the notes of each stream
        self._latest_place = 0  # where the last round began
        self._look_at_count = _TAKEN_MIN  # of notes: then those go that all have taken

    @property
    def place(self) -> int:
        """Return the number of the next note."""
        return self._first + len(self._notes)

    def concerns(self, name: bytes) -> bool:
        """Tell whether a stream of this name is followed."""
        return is_shown(name, self.only) and self.matches(name)

    def appended(self, name: bytes, before: EntryId) -> None:
        """Note new entries behind a place."""
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
        """Return the places behind which a stream has had new entries."""
        notes = (self._notes[number - self._first] for number in self._numbers.get(name, ()))
        return [note.before for note in notes if note.before is not None]

    def begin(self, place: int) -> Iterable[Note] | None:
        """Return the notes from a place on, as a round begins; None: some are not there any more.

        The round ends here: what is noted later is for the next one.
        """
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
        """Forget all notes: who follows has to look at all names."""
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
