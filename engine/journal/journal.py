"""Journal: every record on disk, in segments that only grow.

It is put together of parts, each of which owns its state:

- `Records` has the records that are not durable yet, and those who wait for them.
- `Writer` writes them to the segments.
- `Faults` says why records are refused, and what becomes of those that the disk does not take.
- `Rewrites` replaces history by a snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from random import Random, SystemRandom

from headgate.engine import commands
from headgate.engine.commands import Command
from headgate.engine.errors import LeaseLost, StreamError, Unavailable
from headgate.engine.journal import extents as extent_files
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.faults import CLOSED, Faults, OnEvent, words
from headgate.engine.journal.names import extents_name
from headgate.engine.journal.records import Records
from headgate.engine.journal.recovery import Torn
from headgate.engine.journal.rewrites import REDIS_GROWTH, Growth, Rewriter, Rewrites
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.shipping import Shipping
from headgate.engine.journal.storage import GoBack, Holder, Nobody
from headgate.engine.journal.writer import FsyncPolicy, Writer
from headgate.engine.periodic import Watch, repeat, unwatched
from headgate.engine.replies import JournalStatus
from headgate.engine.state.extents.extent import Damaged, OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace

DATA_PERCENTAGE = 60
"""Share of `disk_bytes_max` for entries: the rest is for the journal and for what is dead."""

FREEZING_S = 1.0
"""A request that needs memory looks so often whether there is some."""

SHIPPING_S_MAX = 10.0
"""The end of a journal waits so long for what is not shipped yet."""

LOOK_INTERVAL_S = 1.0
"""Interval between looks for room."""


class Journal:
    """Keeps records on a disk. It is a `Storage`."""

    def __init__(
        self,
        disk: Disk,
        policy: FsyncPolicy,
        rewriter: Rewriter,
        *,
        position: int = 0,
        replay_us: int = 0,
        torn: Torn | None = None,
        growth: Growth = REDIS_GROWTH,
        bounds: DiskBounds = DiskBounds(),  # noqa: B008  a value
        shipping: Shipping | None = None,
        chance: Random | None = None,
        on_event: OnEvent = lambda event, facts: None,  # noqa: ARG005
        watch: Watch = unwatched,
    ) -> None:
        """Go on behind what was loaded.

        Args:
            disk: where the files are; nobody else writes there.
            policy: when what is written is forced to disk.
            rewriter: who writes snapshots.
            position: of the last record loaded.
            replay_us: what it took to apply the records loaded, about.
            torn: the end of the last segment, which is cut off first.
            growth: when a rewrite starts by itself.
            bounds: how much room there is.
            shipping: takes what is written to another place.
            chance: where the salts of segments come from; the system's unless given.
            on_event: is called with what happens, for the log.
            watch: returns what is told of the failures of periodic work.
        """
        self.change_count, self.replay_us = 0, replay_us
        self._damage_count = 0  # chunks, or whole extents
        self._damage: str | None = None  # what was wrong with the last one
        self._on_event = on_event
        self._disk, self._watch, self._bounds = disk, watch, bounds
        self._records = records = Records(position)
        self._faults = faults = Faults(
            disk, bounds, records, lambda: self._writer.disk_bytes, on_event
        )
        self._writer = writer = Writer(
            disk,
            policy,
            records,
            faults,
            torn=torn,
            salt=partial((chance or SystemRandom()).getrandbits, 64),
            counts=lambda: (self.change_count, self.replay_us),
            on_event=on_event,
            on_written=self._rewrite_if_worthwhile,
        )
        self.shipping = writer.shipping = shipping
        self.syncs, self.commits = writer.syncs, writer.commits
        self._rewrites = Rewrites(disk, rewriter, growth, writer, faults, on_event)
        self._tasks: asyncio.TaskGroup | None = None  # while `run` lasts

    @property
    def position(self) -> int:
        """Return the position of the last record appended."""
        return self._records.position

    @property
    def durable_position(self) -> int:
        """Return the position up to which nothing can be lost any more."""
        return self._records.durable_position

    @property
    def failure(self) -> str | None:
        """Return why no record is accepted any more; None if all is well."""
        return self._faults.end

    @property
    def refusal(self) -> str | None:
        """Return why some or all records are refused, for now or for ever; None if all is well."""
        return self._faults.refusal

    @property
    def unavailable(self) -> Unavailable:
        """Return the error that says why records are refused."""
        return self._faults.unavailable

    @property
    def withheld(self) -> Unavailable | None:
        """Return why nothing may even be read here; None if it may."""
        return None if self.shipping is None else self.shipping.withheld

    async def until_open(self) -> None:
        """Return once records may be appended at all: at once, unless another gateway leads."""
        if self.shipping is not None:
            await self.shipping.leads.wait()

    @property
    def is_scarce(self) -> bool:
        """Tell whether room is so short that nothing may become pending."""
        shortage = self._faults.shortage
        return shortage is not None and shortage.is_scarce

    @property
    def unsaved_count(self) -> int:
        """Return how many changes no snapshot of this journal has yet; a few more at most."""
        return self.change_count - self._rewrites.saved.change_count

    @property
    def status(self) -> JournalStatus:
        """Return the state of the journal."""
        faults, rewrites = self._faults, self._rewrites
        return JournalStatus(
            self.position,
            self.durable_position,
            self._writer.size_bytes,
            faults.free_bytes,
            faults.failure,
            faults.fault,
            None if faults.shortage is None else faults.shortage.why,
            rewrites.is_running,
            rewrites.count,
            rewrites.failure,
            self._writer.synced_position,
            rewrites.done_s,
            damage_count=self._damage_count,
            damage=self._damage,
            extents_bytes=self._writer.extents_bytes,
            cold_bytes=rewrites.holder.memory.cold_bytes,
            bucket=None if self.shipping is None else self.shipping.status,
        )

    def append(self, record: list[Command]) -> int:
        """Append a record; returns its position.

        Raises:
            Unavailable: the disk does not take it, or the journal is closed.
        """
        if self._faults.refusal is not None:
            self._faults.check(record)
        return self._records.append(commands.encode(record))

    def stage(self, part: list[Command]) -> None:
        """Take commands as the next part of one record, which `append_staged` ends.

        Raises:
            Unavailable: the disk does not take it, or the journal is closed.
        """
        self._faults.check(part)
        self._records.stage(commands.encode_each(part))

    def append_staged(self) -> None:
        """Take the parts that were staged as one record, behind all others."""
        self._records.append_staged()

    def abandon(self, reason: str) -> None:
        """Accept no records any more, and give up those that are not being written."""
        self._faults.fail("journal abandoned", reason)

    async def wait_durable(self, position: int) -> None:
        """Return once everything up to `position` is as safe as the policy asks.

        Raises:
            Unavailable: the disk does not take it, and it never will be.
        """
        if position <= self._records.durable_position:
            return
        if self._faults.end is not None or self._faults.is_given_up:
            raise self._faults.unavailable
        await self._records.wait(position)

    async def read_extents(self, places: Sequence[ExtentPlace]) -> list[OpenedExtent | OSError]:
        """Read extents that lie behind each other in one file, while the event loop goes on.

        Returns:
            each of them, or why it cannot be read.
        """
        return await self._disk.read_in_thread(lambda: extent_files.read_span(self._disk, places))

    def read_extent_now(self, place: ExtentPlace) -> OpenedExtent:
        """Read an extent, while everything waits.

        Raises:
            OSError: it cannot be read.
        """
        return extent_files.read(self._disk, place)

    def note_damage(self, damaged: Damaged) -> None:
        """Note damage, for the log and the state of the journal."""
        self._damage_count, self._damage = self._damage_count + len(damaged.lost), damaged.why
        facts = {
            "stream": damaged.stream.decode(errors="replace"),
            "file": extents_name(damaged.place.file),
            "byte": damaged.place.offset,
            "reason": damaged.why,
            "lost": [f"{chunk.first_id} to {chunk.last_id}" for chunk in damaged.lost],
        }
        self._on_event("entries lost", facts)

    @property
    def data_bytes_max(self) -> int | None:
        """Return the room for entries, in bytes; None: no bound, or they go to a bucket."""
        if self.shipping is not None:
            return None
        limit_bytes = self._bounds.size_bytes_max
        return None if limit_bytes is None else limit_bytes * DATA_PERCENTAGE // 100

    @property
    def freezable_bytes(self) -> int:
        """Return the bytes in memory that can leave it; 0 if they are few."""
        return 0 if self._tasks is None else self._rewrites.freezable_bytes

    async def until_frozen(self) -> bool:
        """Wait until a rewrite has frozen what is hot, or takes long; false if it has failed."""
        rewrites = self._rewrites
        if not (rewrites.has_failed or rewrites.is_stuck):
            with suppress(Unavailable):
                self.start_rewrite()
            await rewrites.until_done(FREEZING_S)
        return not (rewrites.has_failed or rewrites.is_stuck)

    async def run(self, go_back: GoBack, holder: Holder | None = None) -> None:
        """Write appended records, until closed.

        Args:
            go_back: is called with the durable state when records behind it were given up.
            holder: takes over what a rewrite has frozen.

        Raises:
            LeaseLost: another gateway leads, so this process has to end.
            Unavailable: the disk has failed; nothing is taken any more.
        """

        def count_and_go_back(keyspace: Keyspace | None) -> None:
            if keyspace is not None:
                self.replay_us = keyspace.replay_us
                self._rewrites.go_back()
            go_back(keyspace)

        self._rewrites.holder = holder or Nobody()
        lost: LeaseLost | None = None
        try:
            try:
                if await self._may_write():
                    await self._write(count_and_go_back)
            except* OSError as errors:
                reason = f"the journal cannot be written: {words(_first(errors))}"
                self._faults.fail("journal failed", reason)
                await self._faults.give_up(reason, count_and_go_back)
            except* StreamError as errors:
                lost = LeaseLost(str(_first(errors)))
                self._faults.fail("gateway ends", str(lost))
        finally:
            self._tasks = None
            self._faults.close()
        if lost is not None:
            raise lost
        if self._faults.failure is not None:
            raise Unavailable(self._faults.failure)

    async def _may_write(self) -> bool:
        """Wait until nobody else may write; false if the journal closes before."""
        if self.shipping is None:
            return True
        return await self.shipping.begin(self._records, self._faults, self._rewrites.holder)

    async def _write(self, go_back: GoBack) -> None:
        """Write appended records, and let them be shipped, until closed."""
        shipping, watch = self.shipping, self._watch
        async with asyncio.TaskGroup() as self._tasks:
            others = [
                self._tasks.create_task(self._writer.keep_syncing()),
                self._tasks.create_task(repeat(self._look_for_room, watch("room of the disk"))),
            ]
            ships = None
            if shipping is not None:
                ships = self._tasks.create_task(shipping.run(self._faults, go_back))
            await self._writer.run(go_back)
            for task in others:
                task.cancel()
            self._rewrites.cancel()
            if shipping is not None and ships is not None:
                shipping.end()
                await asyncio.wait({ships}, timeout=SHIPPING_S_MAX)
                await shipping.release()
                ships.cancel()

    async def _look_for_room(self) -> None:
        await asyncio.sleep(LOOK_INTERVAL_S)
        with suppress(OSError):  # the writer meets it as well
            await self._writer.look_at_waiting()
        await self._faults.look_for_room()
        self._rewrite_if_worthwhile()

    async def close(self) -> None:
        """Write the records left, sync them under every policy, end `run`, and close the files."""
        self._records.close()
        await self._faults.closed.wait()
        await self._disk.wait_idle()
        self._disk.close()

    def start_rewrite(self) -> bool:
        """Begin to replace history by a snapshot; false if a rewrite is running already.

        Raises:
            Unavailable: the disk has failed, or is not written to.
        """
        failure = self._faults.failure
        if failure is not None or self._tasks is None or self._records.closing.is_set():
            raise Unavailable(failure or CLOSED)
        return self._rewrites.start(self._tasks)

    def _rewrite_if_worthwhile(self) -> None:
        if self._records.closing.is_set() or self._faults.fault is not None:
            return
        if self._rewrites.is_worthwhile(self._records.durable_position, self.replay_us):
            self.start_rewrite()


def _first(error: BaseException) -> Exception:
    """Return the first error of a group, which may be in groups itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error
