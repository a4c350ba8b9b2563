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
from headgate.engine.journal.storage import GoBack, Holder, Nobody
from headgate.engine.journal.writer import FsyncPolicy, Shipping, Writer
from headgate.engine.periodic import Watch, repeat, unwatched
from headgate.engine.replies import JournalStatus
from headgate.engine.state.extent import Damaged, OpenedExtent
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

        `position` is that of the last record loaded; `replay_us` is about what it took to apply
        those. `torn` is the end of the last segment, which is cut off first. `chance` makes the
        salts of segments. Nobody else writes to `disk`.
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
        return self._records.position

    @property
    def durable_position(self) -> int:
        return self._records.durable_position

    @property
    def failure(self) -> str | None:
        return self._faults.end

    @property
    def refusal(self) -> str | None:
        return self._faults.refusal

    @property
    def unavailable(self) -> Unavailable:
        return self._faults.unavailable

    @property
    def withheld(self) -> Unavailable | None:
        return None if self.shipping is None else self.shipping.withheld

    async def until_open(self) -> None:
        if self.shipping is not None:
            await self.shipping.leads.wait()

    @property
    def is_scarce(self) -> bool:
        shortage = self._faults.shortage
        return shortage is not None and shortage.is_scarce

    @property
    def unsaved_count(self) -> int:
        return self.change_count - self._rewrites.saved.change_count

    @property
    def status(self) -> JournalStatus:
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
        if self._faults.refusal is not None:
            self._faults.check(record)
        return self._records.append(commands.encode(record))

    def stage(self, part: list[Command]) -> None:
        self._faults.check(part)
        self._records.stage(commands.encode_each(part))

    def append_staged(self) -> None:
        self._records.append_staged()

    def abandon(self, reason: str) -> None:
        self._faults.fail("journal abandoned", reason)

    async def wait_durable(self, position: int) -> None:
        if position <= self._records.durable_position:
            return
        if self._faults.end is not None or self._faults.is_given_up:
            raise self._faults.unavailable
        await self._records.wait(position)

    async def read_extents(self, places: Sequence[ExtentPlace]) -> list[OpenedExtent | OSError]:
        return await self._disk.read_in_thread(lambda: extent_files.read_span(self._disk, places))

    def read_extent_now(self, place: ExtentPlace) -> OpenedExtent:
        return extent_files.read(self._disk, place)

    def note_damage(self, damaged: Damaged) -> None:
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
        if self.shipping is not None:
            return None
        limit_bytes = self._bounds.size_bytes_max
        return None if limit_bytes is None else limit_bytes * DATA_PERCENTAGE // 100

    @property
    def freezable_bytes(self) -> int:
        return 0 if self._tasks is None else self._rewrites.freezable_bytes

    async def until_frozen(self) -> bool:
        rewrites = self._rewrites
        if not (rewrites.has_failed or rewrites.is_stuck):
            with suppress(Unavailable):
                self.start_rewrite()
            await rewrites.until_done(FREEZING_S)
        return not (rewrites.has_failed or rewrites.is_stuck)

    async def run(self, go_back: GoBack, holder: Holder | None = None) -> None:
        """Write appended records, until closed.

        `go_back` gets the durable state when records behind it were given up. Raises LeaseLost if
        another gateway leads, so this process has to end, and Unavailable if the disk has failed.
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
        self._records.close()
        await self._faults.closed.wait()
        await self._disk.wait_idle()
        self._disk.close()

    def start_rewrite(self) -> bool:
        """Begin to replace history by a snapshot; false if a rewrite is running already."""
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
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error
