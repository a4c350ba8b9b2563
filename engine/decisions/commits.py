"""Decisions about commits: steps that are carried out together, or not at all.

Each step is decided on the state before the commit, so nothing ever has to be undone. What would
depend on another step is decided together with it, as all appends to a stream, or is refused, as an
entry that is settled twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from headgate.engine.commands import Command, DuplicateCounted, KeyRemembered, StreamCreated
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.decisions.deliveries import ack, extend, nack
from headgate.engine.decisions.entries import append, check_last_id
from headgate.engine.decisions.keys import keys_max, made_before
from headgate.engine.decisions.schedules import delete_schedule, set_schedule
from headgate.engine.decisions.tables import check_row, fields_put, fields_removing, table_of
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import (
    EntryHolder,
    Invalid,
    Location,
    NotYours,
    StreamError,
    StreamNotFound,
    TableBehind,
)
from headgate.engine.limits import COMMIT_ITEMS_MAX, COMMIT_STEPS_MAX, LOOKUPS_AT_ONCE_MAX
from headgate.engine.replies import CommittedSteps
from headgate.engine.requests.commits import CommitStep, CommitSteps, Settling
from headgate.engine.requests.deliveries import Ack, Nack
from headgate.engine.requests.entries import Add
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.schedules import DeleteSchedule, SetSchedule
from headgate.engine.requests.tables import DeleteRow, PutRow
from headgate.engine.state.idempotency import Made
from headgate.engine.state.keyspace import Keyspace

Appending = Add | PutRow | DeleteRow

IdsMade = dict[bytes, list[EntryId]]
"""What a commit has appended to each stream."""


def commit_steps(keyspace: Keyspace, request: CommitSteps, now_ms: int) -> Decision[CommittedSteps]:
    steps, idempotent = request.steps, request.idempotent
    _check_size(steps)
    names = () if idempotent is None else _remembering(steps)
    before: IdsMade = {}
    for name in names:
        made = made_before(keyspace, keyspace.find(name), idempotent, now_ms)
        if made is not None:
            before[name] = made.ids()[: made.length]
    if before:
        commands: list[Command] = [DuplicateCounted(name) for name in before]
        return Decision(CommittedSteps(_by_step(steps, before), is_repeat=True), commands)
    commit = _Commit(keyspace, now_ms)
    for number, step in enumerate(steps):
        try:
            commit.take(number, step)
        except StreamError as error:
            error.location = ("steps", number, *error.location)
            raise
    made_now = commit.append_all()
    if idempotent is not None:
        commit.remember(idempotent, {name: made_now.get(name, []) for name in names})
    return Decision(CommittedSteps(_by_step(steps, made_now)), commit.commands)


def _check_size(steps: Sequence[CommitStep]) -> None:
    if not 0 < len(steps) <= COMMIT_STEPS_MAX:
        raise Invalid(f"a commit has 1 to {COMMIT_STEPS_MAX} steps", location=("steps",))
    if sum(map(_size_of, steps)) > COMMIT_ITEMS_MAX:
        text = f"the steps of a commit have at most {COMMIT_ITEMS_MAX} entries and ids together"
        raise Invalid(text, location=("steps",))
    if sum(len(step.ids) for step in steps if isinstance(step, Nack)) > LOOKUPS_AT_ONCE_MAX:
        text = f"the steps of a commit give back at most {LOOKUPS_AT_ONCE_MAX} entries together"
        raise Invalid(text, location=("steps",))


def _size_of(step: CommitStep) -> int:
    if isinstance(step, Add):
        return len(step.drafts)
    return len(step.ids) if isinstance(step, Settling) else 1


def _remembering(steps: Sequence[CommitStep]) -> list[bytes]:
    """Return the streams that keep the key: those appended to, or else the first that is named.

    Timers alone need none: to set or delete one again changes nothing.
    """
    appended = [step.stream for step in steps if isinstance(step, Appending)]
    settled = [step.stream for step in steps if isinstance(step, Settling)]
    return list(dict.fromkeys(appended or settled[:1]))


def _by_step(steps: Sequence[CommitStep], ids: IdsMade) -> list[list[EntryId]]:
    """Return the ids that each step has appended: those of a stream are in order of its steps."""
    left = {name: iter(made) for name, made in ids.items()}
    return [
        list(islice(left.get(step.stream, ()), _size_of(step)))
        if isinstance(step, Appending)
        else []
        for step in steps
    ]


class _Commit:
    """What the steps change, gathered."""

    def __init__(self, keyspace: Keyspace, now_ms: int) -> None:
        self.commands: list[Command] = []
        self._keyspace = keyspace
        self._now_ms = now_ms
        self._drafts: dict[bytes, list[Draft]] = {}
        self._places: dict[bytes, list[Location]] = {}  # of each draft
        self._settled: set[tuple[bytes, bytes, EntryId]] = set()
        self._schedules: set[bytes] = set()

    def take(self, number: int, step: CommitStep) -> None:
        match step:
            case Add():
                self._take_entries(number, step)
            case PutRow() | DeleteRow():
                self._take_row(number, step)
            case SetSchedule() | DeleteSchedule():
                self._schedule(step)
            case _:
                self._settle(step)

    def _take_entries(self, number: int, step: Add) -> None:
        stream = self._keyspace.find(step.stream)
        if stream is None and not step.create_stream:
            raise StreamNotFound(step.stream)
        check_last_id(stream, step.expected_last_id)
        for index, draft in enumerate(step.drafts):
            place = ("steps", number, "drafts", index)
            if draft.id is not None:
                text = "in a commit the stream chooses the id: leave it out"
                raise Invalid(text, location=("drafts", index, "id"))
            self._take(step.stream, draft, place)

    def _take_row(self, number: int, step: PutRow | DeleteRow) -> None:
        stream, table = table_of(self._keyspace, step.stream)
        if stream.is_behind(table):
            raise TableBehind(step.stream, table.through)
        check_row(stream, table, step)
        if isinstance(step, PutRow):
            fields = fields_put(table, step)
        else:
            fields = fields_removing(table, step.key)
        self._take(step.stream, Draft(None, fields), ("steps", number))

    def _take(self, stream: bytes, draft: Draft, place: Location) -> None:
        self._drafts.setdefault(stream, []).append(draft)
        self._places.setdefault(stream, []).append(place)

    def _settle(self, step: Settling) -> None:
        for index, entry_id in enumerate(step.ids):
            settled = step.stream, step.group, entry_id
            if settled in self._settled:
                raise Invalid("a commit settles an entry once", location=("ids", index))
            self._settled.add(settled)
        self._check_fence(step)
        if isinstance(step, Ack):
            decision = ack(self._keyspace, step, self._now_ms)
        elif isinstance(step, Nack):
            decision = nack(self._keyspace, step, self._now_ms)
        else:
            decision = extend(self._keyspace, step, self._now_ms)
        assert decision.next_part is None
        self.commands += decision.commands

    def _check_fence(self, step: Settling) -> None:
        pel = self._keyspace.group(step.stream, step.group).pel.by_id
        counts = step.counts
        others: list[EntryHolder] = []
        for entry_id in step.ids:
            pending = pel.get(entry_id)
            if pending is None:
                others.append(EntryHolder(entry_id, None, None))
                continue
            owner = None if pending.owner is None else pending.owner.name
            count = pending.delivery_count
            if owner != step.consumer or (counts is not None and counts.get(entry_id) != count):
                others.append(EntryHolder(entry_id, owner, count))
        if others:
            raise NotYours(others)

    def _schedule(self, step: SetSchedule | DeleteSchedule) -> None:
        if step.schedule in self._schedules:
            raise Invalid("a commit sets or deletes a schedule once", location=("schedule",))
        self._schedules.add(step.schedule)
        if isinstance(step, DeleteSchedule):
            self.commands += delete_schedule(self._keyspace, step, self._now_ms).commands
            return
        setting = set_schedule(self._keyspace, step, self._now_ms)
        if setting.reply.is_new:
            self._keyspace.bounds.check_another_schedule(
                len(self._keyspace.schedules.by_name) + len(self._schedules) - 1
            )
        self.commands += setting.commands

    def append_all(self) -> IdsMade:
        """Append everything, the entries of a stream together."""
        made: IdsMade = {}
        epoch, stream_count = self._keyspace.next_epoch(self._now_ms), len(self._keyspace.streams)
        for name, drafts in self._drafts.items():
            stream = self._keyspace.find(name)
            try:
                if stream is None:
                    self._keyspace.bounds.check_another_stream(stream_count)
                    stream_count += 1
                    stream = self._keyspace.drafted(name, epoch)
                    self.commands.append(StreamCreated(name, epoch, stream.config))
                    epoch += 1  # the next stream gets a greater epoch
                appending = append(self._keyspace, stream, drafts, self._now_ms)
            except StreamError as error:
                _point_at(error, self._places[name])
                raise
            self.commands += appending.commands
            written = appending.reply
            assert written is not None
            made[name] = Made(written.first_id, written.entries, b"", 0).ids()
        return made

    def remember(self, idempotent: Idempotent, ids: IdsMade) -> None:
        """Keep the key in streams, with what was appended there."""
        producer, key, digest = idempotent
        for name, made in ids.items():
            stream = self._keyspace.find(name)
            if stream is None:
                stream = self._keyspace.drafted(name, 0)
            self._keyspace.bounds.check_producer(stream, producer)
            first_id = made[0] if made else MIN_ID
            kept = Made(first_id, len(made), digest, self._now_ms)
            count_max = keys_max(self._keyspace, stream)
            self.commands.append(KeyRemembered(name, producer, key, kept, count_max))


def _point_at(error: StreamError, places: Sequence[Location]) -> None:
    """Let an error about the appends to a stream point at the step that it is about."""
    match error.location:
        case ("drafts", int(index), *inner):
            error.location = (*places[index], *inner)
        case _:
            error.location = places[0][:2]


DECISIONS: Decisions = {CommitSteps: commit_steps}
