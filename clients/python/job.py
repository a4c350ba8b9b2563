"""Job: one delivery of an entry to a consumer, from its arrival until it is settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from headgate.client.calls import Calls
from headgate.client.commits import Step, ack, commit, extend, nack
from headgate.client.entries import Delivery, Value, delivery_of
from headgate.client.live import Live
from headgate.client.problems import NotYours
from headgate.client.steps import Duration, Paused, Settling, Steps, StepTable
from headgate.client.subscription import Mode, Nack, Subscription, key_of

_ERROR_LENGTH_MAX = 1_000
"""Characters of an error that the gateway keeps."""


def error_text(error: BaseException | str | None) -> str | None:
    """Return an error as the gateway stores it: `Type: text`, cut to the size it accepts."""
    if isinstance(error, BaseException):
        kind, text = type(error).__name__, str(error)
        error = f"{kind}: {text}" if text else kind
    if not error:
        return None
    return error[:_ERROR_LENGTH_MAX].encode(errors="replace").decode()  # JSON has no surrogates


class Job:
    """An entry for this consumer to process.

    As a context it acknowledges the entry when its block ends, and gives it back with the error
    when the block raises. Until it is settled, its idle clock is restarted so that nobody claims
    it.

    Example:
        async for job in group.consume():
            async with job:
                await charge(job.fields["sku"])
    """

    def __init__(
        self, calls: Calls, live: Live, subscription: Subscription, item: Mapping[str, Any]
    ) -> None:
        """See `Group.consume`."""
        self.id: str = item["id"]
        self._calls = calls
        self._key = key_of(item)
        self._live = live
        self._subscription = subscription
        self._item = item
        self._is_settled = False
        self._steps: Steps | None = None

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.fields!r})"

    @cached_property
    def delivery(self) -> Delivery:
        """Return the entry and what is known about its deliveries."""
        return delivery_of(self._item)

    @property
    def fields(self) -> dict[str, Value]:
        """Return names and values."""
        return self.delivery.fields

    @property
    def stream(self) -> str | None:
        """Return the stream of the entry, if several are read together; or else None."""
        return self._item.get("stream")

    @property
    def deliveries(self) -> int:
        """Return the number of deliveries of the entry, this one included."""
        return int(self._item["deliveries"])

    @property
    def last_error(self) -> str | None:
        """Return why the entry was given back before, if that is known."""
        return self._item.get("last_error")

    @property
    def is_lost(self) -> bool:
        """Tell whether the entry is no longer this consumer's: claimed, or the connection ended.

        Settling it then does nothing, unless it is delivered here again.
        """
        return self._key not in self._subscription.held

    def ack(self) -> None:
        """Acknowledge the entry (XACK). Only the first `ack` or `nack` of a job counts.

        A job with steps is acknowledged by `commit`, or by the end of its block.
        """
        self._settle(None)

    def nack(
        self,
        error: BaseException | str | None = None,
        *,
        mode: Mode = "fail",
        delay_ms: int | None = None,
    ) -> None:
        """Give the entry back (XNACK).

        Args:
            error: what went wrong. It comes with the next delivery (`last_error`), and stands in
                the dead letter (`_error`).
            mode: `fail` counts towards the group's `max_deliveries`, `fatal` makes it a dead letter
                at once, and `silent` counts nothing.
            delay_ms: nobody gets it before that; None: as the group's policy has it.
        """
        self._settle(Nack(mode, delay_ms, error_text(error)))

    async def commit(self, *steps: Step) -> list[list[str]]:
        """Carry out steps and acknowledge the entry, together or not at all.

        A crash leaves all of it or nothing. If somebody else has the entry by now, nothing happens:
        of two consumers that did the same work, only one has a result.

        Args:
            steps: as `headgate.client.commits` makes them, such as `append("bills", fields)`.

        Returns:
            The ids that each step has appended.

        Raises:
            NotYours: the entry is no longer this consumer's. The job is lost, not failed.
            Problem: a step failed; nothing has changed.
        """
        removed = [] if self._steps is None else self._steps.removed()
        made = await self._commit([*steps, *removed], "ack")
        return made[: len(steps)]

    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Do something once, whatever becomes of this program, and return its result.

        The result is remembered until the entry is settled. If this program dies, the next one gets
        the result without calling the function again. Only what happens outside may happen twice,
        if the program dies before the result is remembered: pass a key on, such as `job.id`.

        Args:
            name: of the step; a handler has each name once.
            function: a coroutine function, or a plain one, which runs in a thread. Its result is
                kept as JSON.

        Raises:
            NotYours: the entry is no longer this consumer's.
            TypeError: the result is not JSON.
        """
        return await self._remembered.step(name, function)

    async def sleep(self, duration: Duration) -> None:
        """Go on later: the entry is given back, and its handler begins again after that time.

        It holds nothing meanwhile. What was done by `step` is not done again, and this sleep is
        over then. It raises `Paused`, which ends the handler and passes through `async with job`.

        Args:
            duration: such as `2d`, `90m` or `10s`; a number of seconds; or a timedelta.
        """
        await self._remembered.sleep(duration)

    async def wait_for(self, key: str, within: Duration) -> Any:
        """Go on once somebody has signalled a key (`Group.signal`), and return its value.

        The entry is given back meanwhile, as by `sleep`.

        Args:
            key: what is waited for, such as `approved:42`.
            within: how long, as in `sleep`.

        Raises:
            TimeoutError: nobody has signalled the key in that time.
        """
        return await self._remembered.wait_for(key, within)

    @property
    def _remembered(self) -> Steps:
        if self._steps is None:
            table = StepTable(self._calls, self._live, self._stream, self._group)
            self._steps = Steps(table, self.id, self._commit)
        return self._steps

    async def _commit(self, steps: Sequence[Step], settling: Settling) -> list[list[str]]:
        """Carry out steps while the entry is this consumer's, and settle it in the same commit."""
        subscription, key = self._subscription, self._key
        is_for_later = not isinstance(settling, str)
        while True:
            if self._is_settled:
                raise ValueError("this job is settled")
            # Behind a loss of the connection the entry comes again, and has another count.
            count = subscription.held.get(key, self.deliveries)
            if is_for_later:  # it may be here again before the answer
                subscription.part_with(key)
            own = self._own(settling, count)
            try:
                made = await commit(self._calls, [*steps, own], subscription.consumer, None)
            except NotYours:
                if not is_for_later and subscription.held.get(key, count) != count:
                    continue
                self._leave(is_for_later=is_for_later)
                raise
            if settling != "extend":
                self._leave(is_for_later=is_for_later)
            return made[:-1]

    def _own(self, settling: Settling, count: int) -> Step:
        place = self._stream, self._group, [self.id]
        if settling == "ack":
            return ack(*place, deliveries=[count])
        if settling == "extend":
            return extend(*place, deliveries=[count])
        return nack(*place, mode="silent", delay_ms=settling, deliveries=[count])

    def _leave(self, *, is_for_later: bool) -> None:
        """Note that the entry is settled, or somebody else's."""
        self._is_settled = True
        if not is_for_later:
            self._subscription.part_with(self._key)
        self._subscription.settled_elsewhere(self._key)
        self._live.say()

    @property
    def _stream(self) -> str:
        return self.stream or self._subscription.stream

    @property
    def _group(self) -> str:
        return self._subscription.group or ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> bool:
        _, error, _ = raised
        if isinstance(error, Paused):
            return True
        if error is None and self._steps is not None and not self._is_settled:
            await self.commit()
        elif error is None:
            self.ack()
        elif isinstance(error, Exception):
            self.nack(error)
        else:  # cancelled, or the program ends: the entry has not failed
            self.nack(mode="silent")
        return False

    def _settle(self, nack: Nack | None) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._subscription.settle(self._key, nack)
            self._live.say()
