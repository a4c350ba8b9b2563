"""Progress: a schedule with its due times so far."""

from __future__ import annotations

from typing import NamedTuple

from headgate.engine.entry import EntryId, Fields
from headgate.engine.schedules.definition import DUE_FIELD, SCHEDULE_FIELD, Definition


class Refusal(NamedTuple):
    """The last append of a schedule that was refused."""

    code: str  # of the problem
    detail: str
    at_ms: int


class Progress(NamedTuple):
    """The progress of a schedule."""

    next_due_ms: int | None  # None: never, or it is paused
    retry_at_ms: int = 0  # the due time is not tried before, as it was refused
    last_due_ms: int | None = None
    last_id: EntryId | None = None  # of the entry that was appended last
    missed_count: int = 0
    refused_count: int = 0
    refusal: Refusal | None = None  # None: the last append was not refused

    @property
    def wake_ms(self) -> int | None:
        """Return when something is to be done; None: never, as the schedule is paused."""
        return None if self.next_due_ms is None else max(self.next_due_ms, self.retry_at_ms)


class ScheduleInfo(NamedTuple):
    """A schedule with its progress. Its methods return it as it is afterwards."""

    name: bytes
    epoch: int  # identity of this life of the name
    revision: int  # how often it was set
    definition: Definition
    progress: Progress

    def entry_fields(self, due_ms: int) -> Fields:
        """Return the fields of the entry of a due time: it says why it is there."""
        due = (SCHEDULE_FIELD, self.name, DUE_FIELD, b"%d" % due_ms)
        return self.definition.fields + due

    def awaits(self, revision: int, due_ms: int) -> bool:
        """Tell whether it still has this revision and waits for this due time."""
        return (self.revision, self.progress.next_due_ms) == (revision, due_ms)

    def set_to(self, definition: Definition, next_due_ms: int | None) -> ScheduleInfo:
        """Return it with another definition. What was refused before says nothing of that."""
        progress = self.progress._replace(next_due_ms=next_due_ms, retry_at_ms=0, refusal=None)
        return self._replace(revision=self.revision + 1, definition=definition, progress=progress)

    def ran(
        self, due_ms: int, next_due_ms: int | None, entry_id: EntryId, missed: int
    ) -> ScheduleInfo:
        """Return it after the entry of a due time was appended."""
        before = self.progress
        progress = Progress(
            next_due_ms,
            last_due_ms=due_ms,
            last_id=entry_id,
            missed_count=before.missed_count + missed,
            refused_count=before.refused_count,
        )
        return self._replace(progress=progress)

    def passed(
        self, next_due_ms: int | None, retry_at_ms: int, missed: int, refusal: Refusal | None
    ) -> ScheduleInfo:
        """Return it after due times went by without an entry, or after one was refused."""
        before = self.progress
        progress = before._replace(
            next_due_ms=next_due_ms,
            retry_at_ms=retry_at_ms,
            missed_count=before.missed_count + missed,
            refused_count=before.refused_count + (refusal is not None),
            refusal=refusal or before.refusal,
        )
        return self._replace(progress=progress)
