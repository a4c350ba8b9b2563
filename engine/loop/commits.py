"""Commits: one decision, and with it the dead letters that its steps make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from headgate.engine.decisions import Decision, Step, commits
from headgate.engine.decisions.group_reads import settling
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.loop.executor import Executor
from headgate.engine.loop.group_reads import GroupReads
from headgate.engine.replies import CommittedSteps
from headgate.engine.requests.commits import CommitSteps
from headgate.engine.requests.deliveries import Nack
from headgate.engine.state.keyspace import Keyspace


class Commits:
    def __init__(self, executor: Executor, group_reads: GroupReads) -> None:
        self._executor = executor
        self._group_reads = group_reads

    async def commit(self, request: CommitSteps) -> CommittedSteps:
        executor = self._executor
        nacks = [step for step in request.steps if isinstance(step, Nack) and step.by_policy]
        if not nacks:
            return await executor.run(partial(self._decide, request))
        await executor.waiters.wait_turn()

        counts: list[dict[EntryId, int]] = []  # of each nack

        def decide(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
            counts[:] = [settling.counts_of(keyspace, nack) for nack in nacks]
            return commits.commit_steps(keyspace, request, now_ms)

        def act() -> Any:
            # Within a record nothing can be waited for, so what is needed is asked for before.
            for nack in nacks:
                self._group_reads.require_spent(nack)
            decided = self._decide(request)  # raises what is wrong, before anything happens
            executor.keyspace.require(decided.commands)
            steps = [_settling(nack, counts, at) for at, nack in enumerate(nacks)]
            return executor.record_all([decide, *steps])[0]

        done: CommittedSteps | StreamError = await executor.cold.until_read(act)
        if isinstance(done, StreamError):
            raise done
        return await executor.durable(done)

    def _decide(self, request: CommitSteps) -> Decision[CommittedSteps]:
        executor = self._executor
        return commits.commit_steps(executor.current(), request, executor.now_ms())


def _settling(nack: Nack, counts: Sequence[Mapping[EntryId, int]], at: int) -> Step[Any]:
    """Return the step that settles what was delivered too often, or is over."""

    def settle(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
        names = nack.stream, nack.group
        settled = settling.settle(
            keyspace, *names, None, now_ms, released=nack.ids, counts=counts[at]
        )
        return Decision(None, settled.commands)

    return settle
