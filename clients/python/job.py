"""Job: a delivery of an entry to a consumer, until it is settled."""

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
"""Maximum length of an error in the gateway, in characters."""


def error_text(error: BaseException | str | None) -> str | None:
    """Return an error as the gateway stores it: `Type: text`, cut to the maximum length."""
    if isinstance(error, BaseException):
        kind, text = type(error).__name__, str(error)
        error = f"{kind}: {text}" if text else kind
    if not error:
        return None
    return error[:_ERROR_LENGTH_MAX].encode(errors="replace").decode()  # JSON has no surrogates


class Job:
    """An entry for this consumer to process.

    As a context manager, it acknowledges the entry when its block ends, and gives it back with the
    error when the block raises. Until the entry is settled, the client restarts its idle time so
    that no other consumer claims it.

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
        """Return the delivery: the entry, and the details of its deliveries."""
        return delivery_of(self._item)

    @property
    def fields(self) -> dict[str, Value]:
        """Return the names and values of the entry."""
        return self.delivery.fields

    @property
    def stream(self) -> str | None:
        """Return the stream of the entry if several are read together, otherwise None."""
        return self._item.get("stream")

    @property
    def deliveries(self) -> int:
        """Return the number of deliveries of the entry, including this one."""
        return int(self._item["deliveries"])

    @property
    def last_error(self) -> str | None:
        """Return the error of the previous delivery, if known."""
        return self._item.get("last_error")

    @property
    def is_lost(self) -> bool:
        """Return whether this consumer has lost the entry: it was claimed, or the connection ended.

        Settling it then does nothing, unless it is delivered to this consumer again.
        """
        return self._key not in self._subscription.held

    def ack(self) -> None:
        """Acknowledge the entry (XACK). Only the first `ack` or `nack` of a job counts.

        A job with steps is acknowledged by `commit`, or at the end of its block.
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
            error: What went wrong. The next delivery has it in `last_error`, and the dead letter in
                `_error`.
            mode: `fail` counts towards `max_deliveries` of the group, `fatal` makes the entry a
                dead letter at once, and `silent` does not count.
            delay_ms: Delay before the next delivery. Default: the policy of the group.
        """
        self._settle(Nack(mode, delay_ms, error_text(error)))

    async def commit(self, *steps: Step) -> list[list[str]]:
        """Execute all steps and acknowledge the entry, or do nothing.

        After a crash, either everything was committed or nothing. If another consumer has claimed
        the entry, nothing is committed: of two consumers that did the same work, only one commits a
        result.

        Args:
            steps: Steps created with `headgate.client.commits`, such as `append("bills", fields)`.

        Returns:
            The ids of the entries that each step appended.

        Raises:
            NotYours: The entry no longer belongs to this consumer. The job is lost, not failed.
            Problem: A step failed. Nothing has changed.
        """
        removed = [] if self._steps is None else self._steps.removed()
        made = await self._commit([*steps, *removed], "ack")
        return made[: len(steps)]

    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Run a function once, even if this program crashes, and return its result.

        The result is stored until the entry is settled. If this program crashes, the next one gets
        the result without calling the function again. If it crashes before the result is stored,
        the function runs again: pass an idempotency key, such as `job.id`, to external services.

        Args:
            name: Name of the step, unique within the handler.
            function: A coroutine function, or a function that runs in a thread. Its result is
                stored as JSON.

        Raises:
            NotYours: The entry no longer belongs to this consumer.
            TypeError: The result is not JSON.
        """
        return await self._remembered.step(name, function)

    async def sleep(self, duration: Duration) -> None:
        """Give the entry back, and run its handler again after this time.

        Meanwhile no consumer holds the entry. In the next run, steps that were done with `step` are
        not repeated, and this sleep returns at once. Raises `Paused`, which ends the handler and
        passes through `async with job`.

        Args:
            duration: Text such as `2d`, `90m` or `10s`, a number of seconds, or a timedelta.
        """
        await self._remembered.sleep(duration)

    async def wait_for(self, key: str, within: Duration) -> Any:
        """Wait until a key is signalled (`Group.signal`), and return the value of the signal.

        Meanwhile the entry is given back, as with `sleep`.

        Args:
            key: The key to wait for, such as `approved:42`.
            within: Maximum time to wait, as in `sleep`.

        Raises:
            TimeoutError: The key was not signalled within this time.
        """
        return await self._remembered.wait_for(key, within)

    @property
    def _remembered(self) -> Steps:
        if self._steps is None:
            table = StepTable(self._calls, self._live, self._stream, self._group)
            self._steps = Steps(table, self.id, self._commit)
        return self._steps

    async def _commit(self, steps: Sequence[Step], settling: Settling) -> list[list[str]]:
        """Execute steps while this consumer has the entry, and settle it in the same commit."""
        subscription, key = self._subscription, self._key
        is_for_later = not isinstance(settling, str)
        while True:
            if self._is_settled:
                raise ValueError("this job is already settled")
            # After a loss of the connection, the entry is delivered again, with another count.
            count = subscription.held.get(key, self.deliveries)
            if is_for_later:  # it may be delivered again before the answer
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
        """Note that the entry is settled, or belongs to another consumer."""
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
        else:  # cancelled, or the program is ending: the entry has not failed
            self.nack(mode="silent")
        return False

    def _settle(self, nack: Nack | None) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._subscription.settle(self._key, nack)
            self._live.say()
