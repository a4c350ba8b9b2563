"""Appends: a long batch is packed before it is decided, with other requests in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from headgate.engine.decisions import Decision, entries, writes
from headgate.engine.entry import Draft
from headgate.engine.loop.executor import Executor
from headgate.engine.replies import Added, Committed
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add
from headgate.engine.state.packed import HasPartialIds, Packed, PackedDrafts, is_worth_packing, pack


class Appends:
    """Appends entries."""

    def __init__(self, executor: Executor) -> None:
        """Use this executor to change the state."""
        self._executor = executor

    async def add(self, request: Add) -> Added:
        """Append entries (XADD). A repeat under the same idempotency key appends nothing."""
        executor = self._executor
        if is_worth_packing(request.drafts):
            request = replace(request, drafts=await self._packed(request.drafts))
        adding = executor.run(self._decided(request))
        del request  # free it while the task waits for the disk
        return await adding

    def decide(self, request: Add) -> Decision[Added] | None:
        """Return the decision about an append; None if it is to be packed first."""
        return None if is_worth_packing(request.drafts) else self._decided(request)

    def _decided(self, request: Add) -> Decision[Added]:
        # Ids follow the wall clock even when it is set. Only keys depend on the time that passed.
        executor, has_key = self._executor, request.idempotent is not None
        now_ms = executor.now_ms() if has_key else executor.clock.wall_ms()
        return entries.add(executor.current(), request, now_ms)

    async def commit_batch(self, request: CommitBatch) -> Committed:
        """Append a writer's batch. A repeat of the same batch appends nothing."""
        packed = {
            name: await self._packed(drafts) if is_worth_packing(drafts) else drafts
            for name, drafts in request.drafts.items()
        }
        executor, request = self._executor, replace(request, drafts=packed)
        return await executor.run(
            writes.commit_batch(executor.current(), request, executor.now_ms())
        )

    async def _packed(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Return the drafts packed into chunks, or unchanged if they cannot be packed."""
        chunks: list[Packed] = []
        with suppress(HasPartialIds):
            for portion in pack(drafts, self._executor.keyspace.defaults.node_limits):
                chunks += portion
                await asyncio.sleep(0)
            return PackedDrafts(drafts, chunks)
        return drafts
