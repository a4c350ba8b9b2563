"""Appends: those of one turn of the loop are decided together, and a long batch is packed before.

Most appends are of one entry and ask for nothing else. To decide a hundred of them at once takes a
fifth of the time, and none is answered later: all of them wait for the journal.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from headgate.engine.decisions import Decision, bulk, entries
from headgate.engine.decisions.tables import then_indexed
from headgate.engine.eager import Completion, EagerCall
from headgate.engine.entry import Draft
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.limits import ROWS_AT_ONCE_MAX, SERVED_AT_ONCE_MAX
from headgate.engine.loop.executor import Executor
from headgate.engine.replies import Added, Committed
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add
from headgate.engine.state.entries.packed import (
    HasPartialIds,
    Packed,
    PackedDrafts,
    is_worth_packing,
    pack,
)
from headgate.engine.state.extent import Missing
from headgate.engine.threads import this_turn

_NOTHING = Added([], is_repeat=False)
"""Stands for the reply to an append that is not decided yet."""


class _Gathered:
    __slots__ = ("answered", "outcome", "position", "request")

    def __init__(self, request: Add) -> None:
        self.request = request
        self.answered: Completion[Added] = Completion()
        self.outcome: Added | Exception = _NOTHING
        self.position = 0  # of the record that has to be durable first

    def answer(self, failure: Unavailable | None) -> None:
        if failure is not None:
            self.answered.fail(failure)
        elif isinstance(self.outcome, Added):
            self.answered.succeed(self.outcome)
        else:
            self.answered.fail(self.outcome)


class Appends:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._gathered: list[_Gathered] = []
        self._unanswered: list[_Gathered] = []  # and decided
        # What is durable, or given up and why; all of it is told in turns.
        self._due: deque[tuple[_Gathered, Unavailable | None]] = deque()

    async def add(self, request: Add) -> Added:
        if is_plain(request):
            try:
                return await self._gather(request)
            except Missing:  # the stream trims itself
                return await self._executor.run(partial(self._decided, request))
        self.decide_gathered()
        executor = self._executor
        if is_worth_packing(request.drafts):
            request = replace(request, drafts=await self._packed(request.drafts))
        adding = executor.run(partial(self._decided, request))
        del request  # free it while the task waits for the disk
        return await adding

    def decide(self, request: Add) -> Decision[Added] | None:
        return None if is_worth_packing(request.drafts) else self._decided(request)

    def _decided(self, request: Add) -> Decision[Added]:
        # Ids follow the wall clock even when it is set. Only keys and times depend on the time that
        # has passed, and an append of one entry mostly has neither.
        executor, drafts = self._executor, request.drafts
        may_depend = len(drafts) != 1 or drafts[0].timing is not None
        may_depend = may_depend or request.idempotent is not None
        now_ms = executor.now_ms() if may_depend else executor.clock.wall_ms()
        decision = entries.add(executor.current(), request, now_ms)
        if len(drafts) > ROWS_AT_ONCE_MAX:
            return then_indexed(decision, request.stream, len(drafts) // ROWS_AT_ONCE_MAX + 1)
        return decision

    # Plain appends

    def _gather(self, request: Add) -> Completion[Added]:
        gathered = _Gathered(request)
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._gathered.append(gathered)
        return gathered.answered

    def decide_gathered(self) -> None:
        """Decide the appends that were gathered, before anything else that was asked for later."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            outcomes = self.add_all([each.request for each in gathered])
            for each, outcome in zip(gathered, outcomes, strict=True):
                each.outcome, each.position = outcome, self._executor.storage.position
            self._unanswered += gathered

    def add_all(self, requests: Sequence[Add]) -> list[Added | Exception]:
        """Carry out plain appends; returns the reply to each of them, or its error.

        The entries of a stream keep their order. They are one decision and one record, unless the
        stream is trimmed as it grows: a read that waits is to see each entry before it goes.
        """
        names = {request.stream for request in requests}
        if len(names) == 1:
            return self._added_to(names.pop(), requests)
        places: dict[bytes, list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            places[request.stream].append(place)
        outcomes: list[Added | Exception] = [_NOTHING] * len(requests)
        for name, taken in places.items():
            alike = [requests[place] for place in taken]
            for place, outcome in zip(taken, self._added_to(name, alike), strict=True):
                outcomes[place] = outcome
        return outcomes

    def _added_to(self, name: bytes, requests: Sequence[Add]) -> list[Added | Exception]:
        stream = self._executor.current().find(name)
        if stream is None:  # the first one creates it
            return [self._added(requests[0]), *self._added_to_existing(name, requests[1:])]
        if stream.config.retains:
            return self._added_in_order(requests)
        at_once = len(requests) if stream.table is None else ROWS_AT_ONCE_MAX
        portions = [requests[at : at + at_once] for at in range(0, len(requests), at_once)]
        return [each for portion in portions for each in self._added_to_existing(name, portion)]

    def _added_to_existing(self, name: bytes, requests: Sequence[Add]) -> list[Added | Exception]:
        if len(requests) > 1:
            drafts = [draft for request in requests for draft in request.drafts]
            together = None if is_worth_packing(drafts) else self._added(Add(name, drafts))
            if isinstance(together, Added):
                return [Added([entry_id], is_repeat=False) for entry_id in together.ids]
            if together is not None and not isinstance(together, StreamError):
                return [together] * len(requests)
        # Large entries are no record together, and what cannot be fails alone.
        return list(map(self._added, requests))

    def _added_in_order(self, requests: Sequence[Add]) -> list[Added | Exception]:
        """Append entries one by one; behind one that has to wait for a read, all wait."""
        outcomes: list[Added | Exception] = []
        for request in requests:
            outcomes.append(self._added(request))
            if isinstance(outcomes[-1], Missing):
                break
        return outcomes + outcomes[-1:] * (len(requests) - len(outcomes))

    def _added(self, request: Add) -> Added | Exception:
        try:
            return self._executor.settle(self._decided(request))
        except Exception as error:  # noqa: BLE001 it is raised where the append waits
            return error.with_traceback(None)

    def _end_turn(self) -> None:
        self.decide_gathered()
        if self._unanswered:
            decided, self._unanswered = self._unanswered, []
            EagerCall(self._wait_for(decided), lambda _: None).start()

    async def _wait_for(self, decided: list[_Gathered]) -> None:
        why = ""
        try:
            await self._executor.until_durable(decided[-1].position)
            durable_position = decided[-1].position
        except Unavailable as error:
            why, durable_position = str(error), self._executor.storage.durable_position
        if not self._due:
            asyncio.get_running_loop().call_soon(self._answer_in_turns)
        for each in decided:
            failure = None if each.position <= durable_position else Unavailable(why)
            self._due.append((each, failure))

    def _answer_in_turns(self) -> None:
        """Answer some that are due, the others in later turns: many may wait for one sync."""
        try:
            for _ in range(min(len(self._due), SERVED_AT_ONCE_MAX)):
                gathered, failure = self._due.popleft()
                gathered.answer(failure)
        finally:  # whoever fails at its answer keeps nobody else waiting
            if self._due:
                asyncio.get_running_loop().call_soon(self._answer_in_turns)

    # Long batches

    async def commit_batch(self, request: CommitBatch) -> Committed:
        """Append a writer's batch. A repeat of the same batch appends nothing."""
        packed = {
            name: await self._packed(drafts) if is_worth_packing(drafts) else drafts
            for name, drafts in request.drafts.items()
        }
        executor, request = self._executor, replace(request, drafts=packed)

        def decide() -> Decision[Committed]:
            return bulk.commit_batch(executor.current(), request, executor.now_ms())

        return await executor.run(decide)

    async def _packed(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        chunks: list[Packed] = []
        with suppress(HasPartialIds):
            for portion in pack(drafts, self._executor.keyspace.defaults.node_limits):
                chunks += portion
                await this_turn().end()
            return PackedDrafts(drafts, chunks)
        return drafts


def is_plain(request: Add) -> bool:
    """Tell whether an append is a plain one of one entry without an id."""
    drafts = request.drafts
    if len(drafts) != 1 or not request.create_stream or not request.is_plain:
        return False
    return drafts[0].id is None and drafts[0].timing is None
