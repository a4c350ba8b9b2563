"""Lease: who may write to a bucket, and until when.

A lease is a numbered object. Whoever puts the next number has it: its holder, who renews it so, or
another one, once the newest has stood for `lease_ms` without a next one. Only lengths of time are
compared, each by one monotonic clock, so it does not matter what a clock shows:

- The holder counts from *before* it asks the store, and another from *after* it has seen the
  answer. So a lease is over for its holder before anybody else may take it.
- A renewal counts only if it was asked for while the lease was held. A holder that has paused for
  longer looks first whether its own lease is still the newest, and goes on from there, or ends.
- Old leases are removed, but not the newest `_KEPT_COUNT`: as a renewal takes a third of the time
  of a lease, the number behind one's own cannot have come and gone while one's own is valid.

The *term* is the number under which a holder took the lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeVar

import msgspec

from headgate.engine.bucket.bucket import Bucket, BucketError
from headgate.engine.bucket.manifest import LEASES, number_of, numbered
from headgate.engine.clock import Clock
from headgate.engine.errors import LeaseLost, Unavailable
from headgate.engine.journal.faults import OnEvent, words

RENEWALS = 3
"""A lease is renewed after a third of its time."""

_RETRIES = 4
"""A renewal that did not work is tried again after a quarter of the usual pause."""

_LOOKS = 10
"""A lease that somebody else has is looked at so often during its time."""

_MARGIN = 20
"""Clocks may differ in speed by a twentieth."""

_KEPT_COUNT = 20

_AWAY_MS = 30_000
"""A start waits so long, at least, for a bucket that does not answer."""

T = TypeVar("T")


class WriteLease(msgspec.Struct, frozen=True):
    term: int
    holder: str  # nobody else is called so
    address: str  # where its gateway is reached; empty if it does not say
    lease_ms: int
    is_released: bool = False  # its holder has ended
    is_durable: bool = False  # it answers nothing that the bucket does not have


class SeenLease(NamedTuple):
    number: int
    lease: WriteLease


class _Put(Enum):
    NEW = 1  # just now
    BEFORE = 2  # it was there already: an answer was lost
    NOT = 3  # somebody else's is there


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WriteLease).decode


class LeaseKeeper:
    def __init__(
        self,
        bucket: Bucket,
        clock: Clock,
        *,
        holder: str,
        address: str,
        lease_ms: int,
        is_durable: bool,
        on_event: OnEvent,
    ) -> None:
        """Begin without the lease.

        `holder` is unique, and the same after a restart of this process. `clock.monotonic_ms` goes
        on while the machine sleeps. With `is_durable`, nothing is answered that the bucket lacks.
        """
        self.seen: SeenLease | None = None
        """The newest lease; None: there is none, or nobody has looked."""
        self.is_lost = False
        """Another one has taken it."""
        self.term = 0
        """The term of the lease that was taken; 0 before."""
        self._bucket, self._clock, self._on_event = bucket, clock, on_event
        self.holder, self._lease_ms = holder, lease_ms
        self._own = WriteLease(0, holder, address, lease_ms, is_durable=is_durable)
        self.replaced: WriteLease | None = None
        """The lease before the one that was taken; None: there was none."""
        self._valid_until_ms = 0
        self._is_away = False

    @property
    def is_valid(self) -> bool:
        return self._clock.monotonic_ms() < self._valid_until_ms

    @property
    def left_ms(self) -> int:
        return max(self._valid_until_ms - self._clock.monotonic_ms(), 0)

    async def take(self, patience_ms: int | None = None) -> int:
        """Return the term once the lease is taken, after waiting for its holder.

        `patience_ms` bounds the wait (None: for ever), but it is longer if the bucket does not
        answer; then raises Unavailable.
        """
        began_ms = self._clock.monotonic_ms()
        over_ms = None if patience_ms is None else began_ms + patience_ms
        seen_ms: int | None = None  # since when the newest has been seen, without an interruption
        looked_ms = 0  # the last time
        while True:
            try:
                seen = await self._timely(self._look)
                now_ms = self._clock.monotonic_ms()
                pause_ms = self._lease_ms // _LOOKS
                is_interrupted = now_ms - looked_ms > self._lease_ms // 2
                if seen != self.seen or seen_ms is None or is_interrupted:
                    self.seen, seen_ms = seen, now_ms
                    self._note_before(seen)
                looked_ms = now_ms
                is_free = self._is_free(seen, now_ms - seen_ms)
                if is_free and await self._try(seen):
                    return self.term
                why = self._in_the_way(seen)
                self._note_answer()
            except OSError as error:
                why, pause_ms = f"the bucket does not answer: {words(error)}", self._lease_ms // 10
                self._note_error(error)
            least_ms = began_ms + _AWAY_MS if self._is_away else 0  # a busy store is not gone
            if over_ms is not None and self._clock.monotonic_ms() >= max(over_ms, least_ms):
                raise Unavailable(why)
            await asyncio.sleep(pause_ms / 1000)

    def _note_before(self, seen: SeenLease | None) -> None:
        """Note the lease before this one; an own one may be of an answer that got lost."""
        if seen is not None and (self.replaced is None or seen.lease.holder != self.holder):
            self.replaced = seen.lease

    def _is_free(self, seen: SeenLease | None, stood_ms: int) -> bool:
        if seen is None or seen.lease.is_released or seen.lease.holder == self.holder:
            return True  # of this name there was a process before, which has ended
        return stood_ms >= seen.lease.lease_ms + seen.lease.lease_ms // _MARGIN

    async def _try(self, seen: SeenLease | None) -> bool:
        sent_ms = self._clock.monotonic_ms()
        newest = await self._timely(self._look_at_all)
        if newest != seen:  # more than one has come since it was seen, and the first have gone
            self.seen = None
            return False
        number = 1 if newest is None else newest.number + 1
        taken = msgspec.structs.replace(self._own, term=number)
        if await self._timely(lambda: self._put(number, taken)) is not _Put.NEW:
            return False
        self.term = number
        self._note(SeenLease(number, taken), sent_ms)
        self._on_event("lease taken", {"term": number, "bucket": self._bucket.url})
        return True

    def _in_the_way(self, seen: SeenLease | None) -> str:
        if seen is None:
            return "the lease of the bucket cannot be taken"
        address = f" at {seen.lease.address}" if seen.lease.address else ""
        return f"another gateway{address} writes to {self._bucket.url} (term {seen.lease.term})"

    async def keep(self) -> None:
        """Renew the lease until this is cancelled, or the lease is lost. `take` it before."""
        pause_s = usual_s = self._lease_ms / RENEWALS / 1000
        while True:
            await asyncio.sleep(min(pause_s, self.left_ms / 1000 or usual_s / _RETRIES))
            try:
                await self._renew()
                self._note_answer()
                pause_s = usual_s
            except LeaseLost as lost:
                self._on_event("lease lost", {"reason": str(lost), "term": self.term})
                self._valid_until_ms = 0
                self.is_lost = True
                return
            except OSError as error:
                self._note_error(error)
                pause_s = usual_s / _RETRIES

    async def _renew(self) -> None:
        """Put the next number; raises LeaseLost if somebody else has put it."""
        assert self.seen is not None
        sent_ms = self._clock.monotonic_ms()
        number, lease = self.seen
        if sent_ms >= self._valid_until_ms:
            newest = await self._timely(self._look_at_all)
            if newest is None or newest.lease.holder != self.holder:
                raise LeaseLost(_why_lost(newest))
            number = newest.number
        outcome = await self._timely(lambda: self._put(number + 1, lease))
        if outcome is _Put.NOT:
            raise LeaseLost(_why_lost(await self._timely(self._look_at_all)))
        number += 1
        if outcome is _Put.BEFORE:  # others have counted from then on
            self.seen = SeenLease(number, lease)
            await self._renew()
            return
        self._note(SeenLease(number, lease), sent_ms)
        if number % _KEPT_COUNT == 0:
            await self._timely(self._remove_old)

    async def release(self) -> None:
        if self.seen is None or not self.is_valid:
            return
        self._valid_until_ms = 0
        number, lease = self.seen
        released = msgspec.structs.replace(lease, is_released=True)
        try:
            await self._timely(lambda: self._put(number + 1, released))
        except OSError as error:
            self._note_error(error)

    def _note(self, seen: SeenLease, sent_ms: int) -> None:
        self.seen = seen
        self._valid_until_ms = sent_ms + self._lease_ms

    async def _timely(self, act: Callable[[], T]) -> T:
        """Call a function beside the event loop. It goes on if it takes too long."""
        try:
            async with asyncio.timeout(self._lease_ms / RENEWALS / 1000):
                return await self._bucket.in_thread(act)
        except TimeoutError:
            raise BucketError("it takes too long") from None

    def _look(self) -> SeenLease | None:
        seen = self.seen
        if seen is None:
            return self._look_at_all()
        try:
            self._bucket.read(numbered(LEASES, seen.number + 1))
        except FileNotFoundError:
            return seen
        return self._look_at_all()

    def _look_at_all(self) -> SeenLease | None:
        return newest_lease(self._bucket)

    def _put(self, number: int, lease: WriteLease) -> _Put:
        if self._bucket.put_new(numbered(LEASES, number), _encode(lease)):
            return _Put.NEW
        return _Put.BEFORE if _read(self._bucket, number) == lease else _Put.NOT

    def _remove_old(self) -> None:
        names = sorted(each.name for each in self._bucket.objects(LEASES))
        self._bucket.remove(names[:-_KEPT_COUNT])

    def _note_error(self, error: OSError) -> None:
        if not self._is_away:
            self._is_away = True
            self._on_event("lease not renewed for now", {"reason": words(error)})

    def _note_answer(self) -> None:
        if self._is_away:
            self._is_away = False
            self._on_event("lease can be renewed again", {})


def newest_lease(bucket: Bucket) -> SeenLease | None:
    while True:
        objects = bucket.objects(LEASES)
        numbers = [number for each in objects if (number := number_of(each.name)) is not None]
        if not numbers:
            return None
        try:
            return SeenLease(max(numbers), _read(bucket, max(numbers)))
        except FileNotFoundError:  # it was removed meanwhile: there are newer ones
            continue


def _read(bucket: Bucket, number: int) -> WriteLease:
    name = numbered(LEASES, number)
    try:
        return _decode(bucket.read(name))
    except msgspec.DecodeError as error:
        raise BucketError(f"{name} makes no sense: {error}") from None


def _why_lost(newest: SeenLease | None) -> str:
    if newest is None:
        return "the leases of the bucket were removed"
    address = f" at {newest.lease.address}" if newest.lease.address else ""
    return f"another gateway{address} has taken the lease (term {newest.lease.term})"
