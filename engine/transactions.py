"""Transactions: requests at one moment, with nothing in between (MULTI, EXEC).

What needs no state comes before that moment, and what makes replies comes behind it, both in turns.
Appends of one entry that stand beside each other are decided together, those of each stream: ten
thousand of them take a hundredth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

from headgate.engine.decisions import Decision
from headgate.engine.decisions.table import decide
from headgate.engine.entry import Draft
from headgate.engine.errors import Invalid, StreamError, StreamsChanged, Unavailable
from headgate.engine.limits import GATHERED_AT_ONCE_MAX
from headgate.engine.loop.appends import Appends, is_plain
from headgate.engine.loop.executor import Executor
from headgate.engine.replies import Added
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup
from headgate.engine.requests.keyspace import CopyStream, RememberKey, RestoreStream
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.threads import this_turn
from headgate.engine.transaction_cost import Cost

Outcome = Any | StreamError
"""The reply to a request, or its error."""


_GROWING = Add | CreateGroup | CopyStream | RestoreStream | RememberKey
"""Requests that add to the streams if they succeed."""


class _Step(NamedTuple):
    """Requests that are decided together: one, or appends of one entry to one stream."""

    request: Request[Any]
    places: list[int]  # in the transaction


class Transactions:
    def __init__(self, executor: Executor, appends: Appends) -> None:
        self._executor = executor
        self._appends = appends

    async def perform(self, requests: Sequence[Request[Any]]) -> list[Outcome]:
        """Carry out requests with nothing in between; none of them waits.

        1. Gather appends that stand beside each other, in turns.
        2. Let reads that came before be served.
        3. Refuse all of it if it would take too long (`transaction_cost.py`), or if it adds to the
           streams and there is no room: Redis refuses such a command when it is queued.
        4. Carry out each step, as parts of one record.
        5. Give each append its reply, in turns, once the record is durable.

        StreamsChanged, TransactionTooLong, MemoryFull: nothing is done.
        """
        executor = self._executor
        steps = await _gathered(requests)
        await executor.waiters.wait_turn()
        self._appends.decide_gathered()
        try:
            outcomes = await executor.cold.until_read(lambda: self._in_one_record(steps))
        except (StreamsChanged, Invalid, Unavailable):
            await executor.durable(None)
            raise
        return await _spread(await executor.durable(outcomes), steps, len(requests))

    def _in_one_record(self, steps: Sequence[_Step]) -> list[list[Outcome]]:
        """Carry out steps as parts of one record; Missing if one needs what is not in memory.

        Then nothing is done: within a record nothing can be waited for, so each step is decided by
        itself before. What a step needs because of those before it is read while all others wait.
        """
        executor = self._executor
        cost = Cost(executor.current())  # exact once what is read is in memory
        for step in steps:
            cost.add(step.request)
        if any(isinstance(step.request, _GROWING) for step in steps):
            executor.require_room()
        for step in steps:
            request = step.request
            if isinstance(request, Add):
                executor.schemas.prepare(executor.current().find(request.stream), request.drafts)
        if executor.keyspace.memory.cold_bytes:
            for step in steps:
                self._require(step.request)
        with executor.one_record():
            return [self._carried_out(step) for step in steps]

    def _require(self, request: Request[Any]) -> None:
        keyspace = self._executor.current()
        stream = keyspace.find(getattr(request, "stream", b""))
        if stream is None or not stream.log.extents:
            return
        if isinstance(request, Add) and request.trim is None and not stream.config.retains:
            return
        with suppress(StreamError):
            keyspace.require(_decide(request, keyspace, self._executor.now_ms()).commands)

    def _carried_out(self, step: _Step) -> list[Outcome]:
        if len(step.places) == 1:
            return [self._executor.stage(partial(_decide, step.request))]
        request = cast("Add", step.request)
        return self._appended(request.stream, request.drafts)

    def _appended(self, stream: bytes, drafts: Sequence[Draft]) -> list[Outcome]:
        """Append entries together, or what can be of them: each is a request of its own.

        If they cannot all be appended, each half is tried. Once one fails for what the state is,
        nothing changes any more, and all behind it fail alike.
        """
        outcome: Outcome = self._executor.stage(partial(_decide, Add(stream, drafts)))
        if isinstance(outcome, Added):
            return [Added([entry_id], is_repeat=False) for entry_id in outcome.ids]
        if len(drafts) == 1:
            return [outcome]
        middle = len(drafts) // 2
        outcomes = self._appended(stream, drafts[:middle])
        if isinstance(outcomes[-1], StreamError) and not isinstance(outcomes[-1], Invalid):
            return outcomes + outcomes[-1:] * (len(drafts) - middle)
        return outcomes + self._appended(stream, drafts[middle:])


async def _gathered(requests: Sequence[Request[Any]]) -> list[_Step]:
    """Return the steps of a transaction, a stream's appends beside each other as one.

    Appends to several streams stand beside each other if nothing but appends is between them: no
    stream is seen by the appends to another one.
    """
    steps: list[_Step] = []
    drafts: dict[bytes, tuple[list[Draft], list[int]]] = {}  # of the appends gathered last
    for place, request in enumerate(requests):
        if type(request) is Add and is_plain(request):
            known = drafts.get(request.stream)
            if known is None:
                known = drafts[request.stream] = [], []
                steps.append(_Step(Add(request.stream, known[0]), known[1]))
            known[0].append(request.drafts[0])
            known[1].append(place)
        else:
            drafts = {}
            steps.append(_Step(request, [place]))
        if not (place + 1) % GATHERED_AT_ONCE_MAX:
            await this_turn().end()
    return steps


async def _spread(
    outcomes: Sequence[list[Outcome]], steps: Sequence[_Step], count: int
) -> list[Outcome]:
    replies: list[Outcome] = [None] * count
    for at, (step, done) in enumerate(zip(steps, outcomes, strict=True), 1):
        for place, outcome in zip(step.places, done, strict=True):
            replies[place] = outcome
        if not at % GATHERED_AT_ONCE_MAX:
            await this_turn().end()
    return replies


def _decide(request: Request[Any], keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    decision: Decision[Any] = decide(keyspace, request, now_ms)
    return decision
