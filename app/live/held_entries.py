"""Held entries: what a connection holds of a stream as a consumer, and how it is settled."""

from collections.abc import Sequence

from headgate.app.auth.access import Access
from headgate.app.live.followed import Held
from headgate.app.live.subscriber import Subscriber
from headgate.app.live.subscription import Credit
from headgate.engine.entry import EntryId
from headgate.engine.replies import Outcome, Takeover
from headgate.engine.requests.deliveries import Ack, Extend, ListPending, Nack, NackMode

PENDING_PAGE = 5_000
"""Pending entries that are asked for at once."""


class HeldEntries:
    __slots__ = ("_access", "_credit", "held", "names", "subscriber")

    def __init__(self, access: Access, subscriber: Subscriber, credit: Credit | None) -> None:
        """Hold nothing; what is held no more gives its credit back, if there is `credit`."""
        self._access = access
        self._credit = credit
        self.subscriber = subscriber
        self.names = subscriber.stream, subscriber.group
        self.held = Held()

    async def ack(self, ids: Sequence[EntryId]) -> list[Outcome]:
        request = Ack(*self.names, ids, consumer=self.subscriber.consumer)
        return self._settled(ids, await self._access.perform(request))

    async def nack(
        self,
        ids: Sequence[EntryId],
        mode: NackMode,
        delay_ms: int | None,
        error: bytes | None = None,
    ) -> list[Outcome]:
        """Give entries back, available to others after `delay_ms`."""
        consumer = self.subscriber.consumer
        request = Nack(*self.names, ids, mode, delay_ms, error, consumer=consumer)
        return self._settled(ids, await self._access.perform(request))

    async def extend(self, ids: Sequence[EntryId]) -> list[Outcome]:
        """Restart the idle time of entries."""
        request = Extend(*self.names, ids, consumer=self.subscriber.consumer)
        return self._settled(ids, await self._access.perform(request))

    def _settled(self, ids: Sequence[EntryId], outcomes: list[Outcome]) -> list[Outcome]:
        self._give_back_credit(self.held.settle(ids, outcomes))
        return outcomes

    def settled(self, step: Ack | Nack) -> None:
        """Hold no more what a commit has settled, if it is of this consumer."""
        if (step.stream, step.group, step.consumer) == (*self.names, self.subscriber.consumer):
            self._settled(step.ids, [Outcome.ACKED] * len(step.ids))

    def take_away(self, takeover: Takeover) -> list[EntryId]:
        """Hold no more what another consumer has claimed; return which entries were held."""
        lost = self.held.take_away(takeover.counts)
        self._give_back_credit(len(lost))
        return lost

    def _give_back_credit(self, count: int) -> None:
        if self._credit is not None:
            self._credit.add(count)

    async def forget_settled(self) -> None:
        """Forget entries that are no longer pending: they were settled elsewhere."""
        start, end = min(self.held.counts), max(self.held.counts)
        pending: list[EntryId] = []
        while True:
            consumer = self.subscriber.consumer
            request = ListPending(*self.names, start, end, PENDING_PAGE, consumer)
            page = await self._access.perform(request)
            pending += [item.id for item in page]
            if len(page) < PENDING_PAGE or pending[-1] == end:
                break
            start = pending[-1].next()
        self.held.keep(pending)

    async def leave(self, *, has_failed: bool) -> None:
        await self.subscriber.leave(self._access.backend, self.held.counts, has_failed=has_failed)
