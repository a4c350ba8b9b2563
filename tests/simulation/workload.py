"""Workload: what clients ask, chosen by a seed. Everything the engine can be asked is asked.

A request is made of what the engine holds at the moment, so that most of them mean something.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from headgate.engine import commands as c
from headgate.engine.decisions import Decision, Step
from headgate.engine.decisions.table import decide
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import StreamError
from headgate.engine.journal.journal import Journal
from headgate.engine.requests import Request, deliveries, entries, groups, keyspace, streams
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.state.keyspace import Keyspace
from tests.journals.workload import Ask, Requests
from tests.simulation.platter import Platter
from tests.simulation.sight import seen


class StepError(Exception):
    """A mistake in a step: nothing that the engine knows of."""


class Workload(Requests):
    """Chooses requests, and what else is asked of an engine."""

    waits_ms: Sequence[int | None] = [0, 0, 5, 200, 1_500, None]
    poison_chance = 0.0
    """Share of transactions with commands that cannot be applied."""

    def __init__(self, engine: Engine, random: Random, serial: int, platter: Platter) -> None:
        super().__init__(engine, random, serial)
        self._platter = platter
        kinds = self.kinds() | {
            "perform_all": (8, self.perform_all),
            "read_group_plainly": (2, self.read_group_plainly),
            "range": (4, self.range),
            "look": (5, self.look),
            "start_rewrite": (self._random.choice([3, 10]), self.start_rewrite),
        }
        self._kinds = [
            (name, make) for name, (weight, make) in kinds.items() for _ in range(weight)
        ]

    def next(self) -> tuple[str, Ask]:
        """Return what is asked, and its name."""
        self.reader = None
        is_first = not self.serial and self._random.random() < 0.7  # small chunks: many are sealed
        first = "set_defaults", self.set_defaults
        name, make = first if is_first else self._random.choice(self._kinds)
        made = make()
        ask = partial(self._engine.perform, made) if isinstance(made, Request) else made
        return name, ask

    def _live_ids(self, stream: bytes) -> list[EntryId]:
        with seen(self._engine.keyspace, self._platter):
            return super()._live_ids(stream)

    def perform_all(self) -> Ask:
        requests = [self._part() for _ in range(self._random.randint(1, 4))]
        steps: list[Step[Any]] = [partial(_decided, request) for request in requests]
        if self._random.random() < 0.1:
            steps.insert(self._random.randint(0, len(steps)), _mistaken)
        if self._random.random() < self.poison_chance:
            steps.append(_poisonous)
        if len(steps) == len(requests):
            return lambda: self._engine.perform_all(requests)
        return lambda: self._engine._executor.run_all(steps)

    def _part(self) -> Request[Any]:
        stream, group = self._names()
        ids, drafts, consumer = self._pending(stream, group), self._drafts(), self._consumer()
        to = self._random.choice([b"a", b"b", b"c", b"d"])
        return self._random.choice(
            [
                entries.Add(stream, drafts),
                entries.Add(stream, drafts),
                deliveries.Ack(stream, group, ids),
                ReadGroup(group, consumer, [GroupCursor(stream)], limit=2),
                entries.Delete(stream, ids),
                keyspace.RenameStream(stream, to),
                keyspace.ExpireStream(stream, 100),
                streams.DeleteStream(stream),
            ]
        )

    def read_group_plainly(self) -> Request[Any]:
        stream, group = self._names()
        consumer, wait_ms = self._consumer(), self._random.choice(self.waits_ms)
        cursors = [GroupCursor(stream)]
        return ReadGroup(group, consumer, cursors, limit=2, wait_ms=wait_ms, by_policy=False)

    def range(self) -> Request[Any]:
        return entries.Range(self._stream(), limit=20, reverse=self._random.choice([False, True]))

    def look(self) -> Request[Any]:
        stream, group = self._names()
        return self._random.choice(
            [
                streams.ListStreams(),
                streams.DescribeStream(stream),
                streams.DetailStream(stream, count=None),
                groups.ListGroups(stream),
                groups.DescribeGroup(stream, group),
                groups.ListConsumers(stream, group),
                groups.DescribeConsumer(stream, group, self._consumer()),
                deliveries.ListPending(stream, group),
                deliveries.SumPending(stream, group),
                keyspace.InspectStream(stream),
            ]
        )

    def start_rewrite(self) -> Ask:
        async def start() -> bool:
            journal = self._engine.storage
            assert isinstance(journal, Journal)
            return journal.start_rewrite()

        return start


def _decided(request: Request[Any], keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    return decide(keyspace, request, now_ms)


def _mistaken(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    raise StepError("a mistake in a step")


def _poisonous(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    return Decision(None, [c.StreamTrimmed(b"missing", MIN_ID)])


def name_of(error: StreamError) -> str:
    """Return an error as a trace shows it."""
    return f"{type(error).__name__}: {error}"
