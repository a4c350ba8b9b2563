"""History: the records of all lives, and the number that nobody may lose any more."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from headgate.engine import commands as c
from headgate.engine.commands import Command
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.storage import GoBack, Holder
from headgate.engine.state.keyspace import Keyspace
from tests.model.snapshot import snapshot
from tests.simulation.platter import Platter
from tests.simulation.sight import seen

Reader = tuple[bytes, bytes]  # group, consumer


class Request:
    """A client's request, and the position that its reply depends on."""

    def __init__(self, name: str, position: int, reader: Reader | None = None) -> None:
        self.name = name
        self.asked_at = position
        self.position = position
        self.reader = reader
        self.task: asyncio.Task[Any] | None = None


asking: ContextVar[Request] = ContextVar("asking")
"""The request on whose behalf something happens."""

DeliveryKey = tuple[bytes, bytes, bytes, EntryId]  # stream, group, consumer


class History:
    """The records of a directory in order, whether they are safe or not."""

    def __init__(self) -> None:
        self.records: list[bytes] = []  # the first has position 1
        self.acknowledged = 0  # the highest position an answer depends on
        self.safe = 0  # the highest position that was recovered, or synced
        self.is_over = False  # a crash came: what is still said is heard by nobody
        self.added_at: dict[Entry, int] = {}  # no two entries have the same fields
        self.records_of: dict[EntryId, set[int]] = {}  # streams may have the same ids
        self.delivered_at: dict[DeliveryKey, list[int]] = {}
        self.answers: list[tuple[float, int]] = []  # in this life: when, and what `answer` notes
        self.open_requests: set[Request] = set()
        self._replayed = Keyspace()
        self._replayed_position = 0
        self._greatest_ids: dict[int, EntryId] = {}  # by epoch

    @property
    def position(self) -> int:
        return len(self.records)

    def append(self, position: int, record: list[Command]) -> None:
        assert position == len(self.records) + 1, "positions have no gaps"
        self.records.append(c.encode(record))
        request = asking.get(None)
        # A timer that a request has set runs on its behalf too, and is no part of its reply.
        if request is not None and request.task is asyncio.current_task():
            request.position = position
        for command in record:
            self._index(position, command)

    def answer(self, position: int, at_s: float) -> None:
        """Note that somebody knows of everything up to a position."""
        if not self.is_over and position > self.acknowledged:
            self.acknowledged = position
            self.answers.append((at_s, position))

    def give_up(self, position: int) -> None:
        """Forget the records that the engine has given up; no client has heard of them."""
        if self.is_over:
            return
        assert self.acknowledged <= position, "what was promised is not given up"
        del self.records[position:]
        self._forget_added(position)
        for key, places in self.delivered_at.items():
            self.delivered_at[key] = [at for at in places if at <= position]
        self.go_back(position)

    def go_back(self, position: int) -> None:
        """Let open requests be answered from an older state: some wait for what is cold."""
        for request in self.open_requests:
            request.asked_at = min(request.asked_at, position)
            request.position = min(request.position, position)

    def recover(self, position: int) -> Keyspace:
        """Forget the records that a crash took, and return the expected state."""
        del self.records[position:]
        self.safe = self.acknowledged = position
        self.is_over = False
        self.answers.clear()
        self._forget_added(position)
        self.delivered_at.clear()
        for record in self.records[self._replayed_position :]:
            for command in c.decode(record):
                self._check_order(command)
                self._replayed.apply(command)
        self._replayed_position = position
        return self._replayed

    def state_at(self, position: int) -> Keyspace:
        """Return the state after the records up to a position."""
        keyspace = Keyspace()
        for record in self.records[:position]:
            for command in c.decode(record):
                keyspace.apply(command)
        return keyspace

    def _forget_added(self, position: int) -> None:
        """Forget the entries that were added behind a position."""
        self.added_at = {key: at for key, at in self.added_at.items() if at <= position}
        self.records_of.clear()
        for entry, at in self.added_at.items():
            self.records_of.setdefault(entry.id, set()).add(at)

    def _index(self, position: int, command: Command) -> None:
        match command:
            case c.EntriesAdded(_, entries):
                for entry in entries:
                    self.added_at[entry] = position
                    self.records_of.setdefault(entry.id, set()).add(position)
            case c.EntriesDelivered(stream, group, consumer, claimed=claimed, delivered=delivered):
                for entry_id in [*claimed, *delivered]:
                    key = stream, group, consumer, entry_id
                    self.delivered_at.setdefault(key, []).append(position)

    def _check_order(self, command: Command) -> None:
        """Ids grow, unless XSETID says otherwise, and no two lives of streams have one epoch."""
        if isinstance(command, c.StreamCreated):
            assert command.epoch > self._replayed.epoch, "the epoch of a stream is above all before"
        if isinstance(command, c.CountersSet):
            self._greatest_ids[self._replayed.streams[command.stream].epoch] = command.last_id
        if isinstance(command, c.EntriesAdded):
            epoch = self._replayed.streams[command.stream].epoch
            for entry in command.entries:
                greatest = self._greatest_ids.get(epoch, MIN_ID)
                assert entry.id > greatest, f"{entry.id} is not above {greatest}"
                self._greatest_ids[epoch] = entry.id


class RecordedJournal(Journal):
    """A journal whose records are also noted in a history."""

    history: History
    platter: Platter
    gone_back_count = 0  # how often the engine was given another state
    _parts: tuple[Command, ...] = ()  # of the record that comes next

    async def run(self, go_back: GoBack, holder: Holder | None = None) -> None:
        def noting(keyspace: Keyspace | None) -> None:
            self.gone_back_count += 1
            if keyspace is not None and not self.history.is_over:
                if self.failure is None:  # or else a restart may find it all the same
                    self.history.give_up(self.position)
                self.history.go_back(self.position)
                expected = self.history.state_at(self.position)
                with seen(keyspace, self.platter):
                    assert snapshot(keyspace) == snapshot(expected), "not what is durable"
            go_back(keyspace)

        await super().run(noting, holder)

    def append(self, record: list[Command]) -> int:
        position = super().append(record)
        self._note(position, record)
        return position

    def stage(self, part: list[Command]) -> None:
        super().stage(part)
        self._parts += tuple(part)

    def append_staged(self) -> None:
        before, record, self._parts = self.position, [*self._parts], ()
        super().append_staged()
        if self.position != before:
            self._note(self.position, record)

    def _note(self, position: int, record: list[Command]) -> None:
        if not self.history.is_over:
            self.history.append(position, record)
