"""Replication: the journal and its bucket, from the moment a gateway starts to its end.

1. It *follows*: what another gateway writes is applied, and nothing may be changed here.
2. It takes the lease, applies the rest, and puts a part without bytes: now it is the *leader*.
3. It ships what it writes. It keeps the lease, and ends when another one has it.

What may be answered depends on what was promised. `disk`: what is on disk; but beside a standby
only while the lease is held, as the standby counts on that. `bucket`: what the bucket has, while
the lease is held. Meanwhile changes are refused, and the engine shows what may be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import NamedTuple

from headgate.engine.bucket.attachment import Attached
from headgate.engine.bucket.bucket import Bucket, RequestLimits
from headgate.engine.bucket.curator import Curator, Retention
from headgate.engine.bucket.follower import BucketFollower
from headgate.engine.bucket.lease import RENEWALS, LeaseKeeper
from headgate.engine.bucket.shipper import PAUSE_S_MAX, PAUSE_S_MIN, Shipper
from headgate.engine.clock import Clock
from headgate.engine.entry import MAX_ID, EntryId
from headgate.engine.errors import Corrupt, LeaseLost, NotLeader, Unavailable
from headgate.engine.journal.disk import Disk, is_full
from headgate.engine.journal.faults import PATIENCE_S, Faults, OnEvent, words
from headgate.engine.journal.records import Records
from headgate.engine.journal.storage import GoBack, Holder
from headgate.engine.replies import BucketStatus, LeaderRole

_PATIENCE_MS = 10_000
"""A start waits so long besides the time for which a lease must stand: stores may be slow."""


class ReplicationOptions(NamedTuple):
    is_durable: bool = False  # an answer waits for the bucket
    is_standby: bool = False  # it waits for the lease, and answers nothing without it
    has_reads: bool = False  # while it waits, it can be read
    lease_ms: int = 10_000
    ship_ms: int = 1000
    address: str = ""
    retention: Retention = Retention(86_400_000)


def limits_of_leases(options: ReplicationOptions) -> RequestLimits:
    """Return the bounds of requests for leases: none may last while the lease runs out."""
    share_s = options.lease_ms / 1000 / RENEWALS / 2
    return RequestLimits(connect_s=min(share_s, 5), request_s=share_s, retries_max=1)


def _nothing() -> None:
    """Record nothing: nothing is lost."""


class Replication:
    def __init__(
        self,
        bucket: Bucket,
        directory: Disk,
        attached: Attached,
        clock: Clock,
        options: ReplicationOptions,
        *,
        holder: str,
        on_event: OnEvent,
        lease_bucket: Bucket | None = None,
    ) -> None:
        """Begin as a follower; `lease_bucket` is the same bucket with shorter request limits."""
        if lease_bucket is not None:
            lease_bucket.counts = bucket.counts
        self.leads = asyncio.Event()
        self._bucket, self._attached, self._clock = bucket, attached, clock
        self._options, self._on_event = options, on_event
        self._keeper = LeaseKeeper(
            lease_bucket or bucket,
            clock,
            holder=holder,
            address=options.address,
            lease_ms=options.lease_ms,
            is_durable=options.is_durable,
            on_event=on_event,
        )
        self._follower = BucketFollower(bucket, attached, directory, clock)
        self._shipper = Shipper(
            bucket,
            directory,
            clock,
            writer=attached.marker.writer,
            ship_ms=options.ship_ms,
            on_shipped=self._note_shipped,
            on_error=self._note_error,
        )
        self._curator = Curator(
            *(bucket, attached.disk, directory, clock),
            *(self._shipper, attached.marker, options.retention),
        )
        for mark in attached.unshipped:
            self._shipper.note_written(*mark)
        self._error: str | None = None  # why the bucket does not take parts
        self._error_s: float | None = None  # since when
        self._changed = asyncio.Event()
        self._records: Records | None = None
        self._record_lost: Callable[[], None] = _nothing

    @property
    def held(self) -> AbstractSet[str]:
        return self._shipper.segments

    @property
    def withheld(self) -> Unavailable | None:
        if self.leads.is_set() or self._options.has_reads:
            return None
        return self._not_leader()

    @property
    def status(self) -> BucketStatus:
        shipper, disk = self._shipper, self._attached.disk
        is_leader = self.leads.is_set() and not self._keeper.is_lost
        manifest = self._curator.manifest or self._follower.manifest
        seen = self._keeper.seen
        return BucketStatus(
            url=self._bucket.url,
            role=LeaderRole.LEADER if is_leader else LeaderRole.STANDBY,
            is_durable=self._options.is_durable,
            term=self._keeper.term if is_leader else 0 if seen is None else seen.lease.term,
            leader=self._leader,
            lease_left_ms=self._keeper.left_ms if is_leader else None,
            shipped_position=shipper.shipped.position,
            unshipped_bytes=shipper.waiting_bytes if is_leader else 0,
            unshipped_ms=shipper.waiting_ms if is_leader else None,
            behind_ms=None if is_leader else self._follower.behind_ms,
            error=self._error,
            manifest=0 if manifest is None else manifest.number,
            bucket_bytes=0 if manifest is None else manifest.size_bytes,
            remote_bytes=disk.remote_bytes,
            requests=asdict(self._bucket.counts),
        )

    @property
    def _leader(self) -> str:
        seen = self._keeper.seen
        return "" if seen is None or seen.lease.is_released else seen.lease.address

    def _not_leader(self) -> NotLeader:
        return NotLeader(self._leader)

    def note_writing(self) -> None:
        self._shipper.note_writing()

    def note_written(self, segment: str, end: int, position: int) -> None:
        self._shipper.note_written(segment, end, position)

    def note_snapshot(self, position: int) -> None:
        self._curator.note_snapshot(position)

    async def begin(self, records: Records, faults: Faults, holder: Holder) -> bool:
        """Follow until this gateway leads; false if closed before, Unavailable if no standby."""
        self._records = records
        if self._options.is_durable:  # what an earlier life has not shipped may still be lost
            records.durable_position = self._answerable_at_first()
        records.gate = self._answerable
        faults.set_hold(self._not_leader())
        lease_ms = self._options.lease_ms
        patience_ms = None if self._options.is_standby else lease_ms + max(lease_ms, _PATIENCE_MS)
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(self._keeper.take(patience_ms))
            following = tasks.create_task(self._follow(records, faults, holder))
            closing = tasks.create_task(records.closing.wait())
            await asyncio.wait({taking, closing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (taking, closing, following):
                task.cancel()
        if not taking.done() or taking.cancelled():
            return False
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self._keep_lease())
            leading = tasks.create_task(self._lead(taking.result(), records, holder))
            closing = tasks.create_task(records.closing.wait())
            await asyncio.wait({leading, closing}, return_when=asyncio.FIRST_COMPLETED)
            has_begun = leading.done()
            for task in (keeping, closing, leading):
                task.cancel()
        if not has_begun:
            return False
        faults.set_hold(None)
        self._note_lost(holder)
        self.leads.set()  # whoever waits for it makes changes at once
        return True

    def _note_lost(self, holder: Holder) -> None:
        """Record the loss of entries that a leader before this one has not shipped.

        It was written behind the last part of its journal. What this directory has is not lost.
        """
        before, covered_ms = self._keeper.replaced, self._follower.covered_ms
        if before is None or before.is_released or before.is_durable or not covered_ms:
            return
        if self._follower.last_writer == self._attached.marker.writer:
            return
        last_ms = self._clock.wall_ms() - 1
        if last_ms < covered_ms:  # this clock is behind that one
            last_ms = covered_ms + self._options.lease_ms
        first_id, last_id = EntryId(covered_ms, 0), EntryId(last_ms, MAX_ID.seq)
        self._record_lost = partial(holder.lose_tail, first_id, last_id)
        self._record_lost()
        why = "the leader before may have answered what it had not shipped"
        facts = {"first_id": str(first_id), "last_id": str(last_id), "reason": why}
        self._on_event("entries may be lost", facts)

    async def _follow(self, records: Records, faults: Faults, holder: Holder) -> None:
        pause_s, is_away = min(self._options.ship_ms, 1000) / 1000, False
        while True:
            try:
                await self._follower.catch_up(records, holder)
                await self._follower.look_for_snapshot(records, holder)
                if is_away:
                    self._on_event("bucket answers again", {})
                is_away = False
            except (OSError, Unavailable) as error:
                if not is_away:
                    self._on_event("bucket does not answer", {"reason": words(error)})
                is_away = True
            if str(faults.hold) != str(hold := self._not_leader()):
                faults.set_hold(hold)
            await asyncio.sleep(pause_s)

    async def _lead(self, term: int, records: Records, holder: Holder) -> None:
        """Apply the rest, and put a part that ends what leaders before this one may write."""
        follower, shipper, disk = self._follower, self._shipper, self._attached.disk
        pause_s = PAUSE_S_MIN
        shipper.term = term
        while True:
            try:
                await follower.catch_up(records, holder)
                if follower.last_term > term:
                    raise LeaseLost(f"another gateway leads now, of term {follower.last_term}")
                shipper.covered_ms = follower.covered_ms
                shipper.shipped, shipper.begins = follower.shipped.to_go_on, follower.begins
                if await shipper.fence(follower.next_part) is None:
                    await self._begin_to_curate(holder)
                    break
            except OSError as error:
                self._note_error(error)
                if is_full(error):
                    await disk.in_thread(disk.give_up_reserve)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
        self._note_error(None)
        facts = {"term": term, "position": records.position, "part": shipper.next_number - 1}
        self._on_event("leading", facts)

    async def _begin_to_curate(self, holder: Holder) -> None:
        manifest = await self._follower.look_at_manifest()
        base_needed = self._attached.is_base_needed
        await self._attached.disk.in_thread(
            lambda: self._curator.begin(manifest, holder, is_base_needed=base_needed)
        )

    async def run(self, faults: Faults, go_back: GoBack) -> None:
        """Ship and keep the lease until `end`; LeaseLost if another gateway leads."""
        async with asyncio.TaskGroup() as tasks:
            others = [
                tasks.create_task(self._keep_lease()),
                tasks.create_task(self._curate()),
                tasks.create_task(self._watch(faults, go_back)),
            ]
            await self._shipper.run()
            for task in others:
                task.cancel()

    def end(self) -> None:
        self._shipper.end()

    async def release(self) -> None:
        if self.leads.is_set() and self._shipper.is_idle:
            with suppress(OSError):
                await self._attached.disk.in_thread(self._curator.end)
            await self._keeper.release()

    async def _keep_lease(self) -> None:
        await self._keeper.keep()
        self._changed.set()
        raise LeaseLost(f"another gateway leads now: {self._leader or self._bucket.url}")

    async def _curate(self) -> None:
        pause_s = PAUSE_S_MIN
        while True:
            try:
                await self._curator.do_next()
                pause_s = PAUSE_S_MIN
                self._release()
            except (OSError, Corrupt) as error:
                self._on_event("manifest not put for now", {"reason": words(error)})
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _watch(self, faults: Faults, go_back: GoBack) -> None:
        """Refuse changes while they could not be answered, and accept them again.

        A first record of what is lost may be among those that are dropped: it is made again.
        """
        assert self._records is not None
        first, is_dropped = self._records.position, False
        while True:
            hold = self._hold()
            if hold is not None and faults.hold is None:
                faults.set_hold(hold)
                self._on_event("changes refused for now", {"reason": str(hold)})
            if hold is not None:
                is_dropped = is_dropped or self._records.durable_position < first
                await faults.hide(go_back)
            elif faults.hold is not None:
                self._release()
                await faults.show(go_back)
                faults.set_hold(None)
                self._on_event("changes accepted again", {})
                if is_dropped:
                    self._record_lost()
                    first, is_dropped = self._records.position, False
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_s()):
                    await self._changed.wait()

    def _look_s(self) -> float:
        """Return when to look again, if nothing happens until then."""
        if self._needs_lease and not self._keeper.is_valid:
            return 0.1
        lease_s = (self._keeper.left_ms + 1) / 1000 if self._needs_lease else 3600.0
        return min(lease_s, PATIENCE_S / 2) if self._error_s is not None else lease_s

    @property
    def _needs_lease(self) -> bool:
        return self._options.is_durable or self._options.is_standby

    def _hold(self) -> Unavailable | None:
        if self._needs_lease and not self._keeper.is_valid:
            return NotLeader("", "the lease of the bucket cannot be renewed for now")
        since_s = self._error_s
        if not self._options.is_durable or since_s is None:
            return None
        if asyncio.get_running_loop().time() - since_s < PATIENCE_S:
            return None
        return Unavailable(f"the bucket does not take it for now: {self._error}")

    def _answerable_at_first(self) -> int:
        return 0 if self._attached.is_base_needed else self._attached.shipped.position

    def _answerable(self, written: int) -> int:
        if not self.leads.is_set() or (self._needs_lease and not self._keeper.is_valid):
            return 0
        if not self._options.is_durable:
            return written
        return min(written, self._shipper.shipped.position) if self._curator.has_base else 0

    def _release(self) -> None:
        if self._records is not None:
            self._records.release()

    def _note_shipped(self) -> None:
        self._release()
        self._curator.note_shipped()

    def _note_error(self, error: OSError | None) -> None:
        before, self._error = self._error, None if error is None else words(error)
        if before is None and self._error is not None:
            self._error_s = asyncio.get_running_loop().time()
            self._on_event("bucket does not take the journal", {"reason": self._error})
        elif before is not None and self._error is None:
            self._error_s = None
            self._on_event("bucket takes the journal again", {})
        self._changed.set()
