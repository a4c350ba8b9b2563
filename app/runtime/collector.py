"""Collector: when the process collects garbage, and when it gives free memory back.

A full collection looks at every object, which takes a second with a million pending entries. So a
collection looks at new objects only. Objects that have survived two collections are frozen: later
collections skip them. Connections and streams leave no reference cycles behind, so reference counts
free them. If a frozen object becomes part of a cycle, memory grows that the streams do not account
for. When this is far more than ever before, one full collection runs.

Python starts a collection when many more objects were made than freed since the last one. Where new
objects take the place of frozen ones, this is never so: each append that wakes a thousand blocked
reads makes their waiters anew, and frees those before. The new ones added up, until one collection
looked at all of them, which held the loop for 240 ms. So how many new objects there are is counted
now and then, and a collection starts by this number, too.

Few objects can hold much memory, so not only their number starts a collection, but also growth of
memory.

glibc keeps freed memory for later: 800 MiB of deleted entries stayed. So a thread makes it give
that memory back. Every allocation waits meanwhile, 0.2 ms for each MiB, so the thread does so
often.
"""

import asyncio
import ctypes
import gc
import logging
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from headgate.app.runtime import machine, periodic

log = logging.getLogger("headgate")

_LOOK_S = 0.2

GROWTH_SHARE = 0.25
GROWTH_BYTES_MIN = 32 * 2**20
"""Memory has grown if it has by this share and by so much: then there may be garbage."""

UNACCOUNTED_SHARE = 0.5
UNACCOUNTED_BYTES_MIN = 512 * 2**20
UNACCOUNTED_LOOKS = 300
"""Likewise for unaccounted memory, if it stays so for a minute: then everything is
looked at, which takes a second where a million entries are pending."""

_ESTIMATE = 1.3
"""Factor on the memory of the streams, which is an estimate."""

FREE_BYTES_MIN = 8 * 2**20
"""Less that is free is left to the allocator: it will be needed again."""

_THRESHOLDS = (5_000, 1, 1_000)
"""New objects that are looked at for the first time; and how often before they are a second time,
which is the last: fifteen thousand take 3 to 7 ms, and 15 if they are entries of 250 fields."""


_COUNT_S = 0.025
"""Interval between counts of new objects. A count of a few hundred takes a microsecond."""

_NEW_MAX = 2_000
"""New objects that were counted, from which on they are looked at: this takes 2 to 5 ms."""


class MemoryUse(NamedTuple):
    """The resident memory of the process, its free part, and the part of the streams."""

    resident_bytes: int
    free_bytes: int
    streams_bytes: int = 0

    @property
    def unaccounted_bytes(self) -> int:
        """Return the memory of everything but streams: connections, answers, garbage."""
        return self.resident_bytes - self.free_bytes - int(_ESTIMATE * self.streams_bytes)


class Keeper:
    def __init__(self, usage: MemoryUse) -> None:
        self._collected_at_bytes = usage.resident_bytes
        self._unaccounted_bytes_max = usage.unaccounted_bytes  # when all was looked at
        self._unaccounted_looks = 0  # that have found far more, one after the other
        self._given_back_bytes = usage.free_bytes  # of what is free: the system has it already

    def must_collect(self, usage: MemoryUse) -> bool:
        before = self._collected_at_bytes
        if usage.resident_bytes < before + max(GROWTH_BYTES_MIN, GROWTH_SHARE * before):
            self._collected_at_bytes = min(before, usage.resident_bytes)
            return False
        self._collected_at_bytes = usage.resident_bytes
        return True

    def must_look_at_all(self, usage: MemoryUse) -> bool:
        before, now = self._unaccounted_bytes_max, usage.unaccounted_bytes
        if now < before + max(UNACCOUNTED_BYTES_MIN, UNACCOUNTED_SHARE * before):
            self._unaccounted_looks = 0  # it was work that has ended
            return False
        self._unaccounted_looks += 1
        if self._unaccounted_looks < UNACCOUNTED_LOOKS:
            return False
        self._unaccounted_bytes_max, self._unaccounted_looks = now, 0
        return True

    def must_give_back(self, usage: MemoryUse) -> bool:
        if usage.free_bytes < self._given_back_bytes + FREE_BYTES_MIN:
            # What was given back and is used again can be given back again.
            self._given_back_bytes = min(self._given_back_bytes, usage.free_bytes)
            return False
        self._given_back_bytes = usage.free_bytes
        return True


class _Allocation(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            [
                "arena",
                "ordblks",
                "smblks",
                "hblks",
                "hblkhd",
                "usmblks",
                "fsmblks",
                "uordblks",
                "fordblks",
                "keepcost",
            ]
        )
    ]


async def keep_low(streams_bytes: Callable[[], int]) -> None:
    """Collect garbage and return memory until cancelled; does nothing without glibc."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return
    libc.mallinfo2.restype = _Allocation
    look = partial(_look, libc.mallinfo2, streams_bytes)
    keeper: Keeper | None = None

    async def keep_lower() -> None:
        nonlocal keeper
        usage = await asyncio.to_thread(look)
        if keeper is None:
            keeper = Keeper(usage)
        elif keeper.must_look_at_all(usage):
            gc.unfreeze()
            _collect("all looked at for garbage")
        elif keeper.must_collect(usage):
            _collect("garbage collected")
        if keeper.must_give_back(usage):
            await asyncio.to_thread(libc.malloc_trim, 0)
        await asyncio.sleep(_LOOK_S)

    await periodic.repeat("memory given back", keep_lower)


def _look(mallinfo: Callable[[], _Allocation], streams_bytes: Callable[[], int]) -> MemoryUse:
    return MemoryUse(machine.resident_bytes(), mallinfo().fordblks, streams_bytes())


async def keep_few_new() -> None:
    """Collect when there are many new objects, unless Python just did, until cancelled."""
    collections = _collection_count()

    async def count() -> None:
        nonlocal collections
        await asyncio.sleep(_COUNT_S)
        before, collections = collections, _collection_count()
        if collections == before and len(gc.get_objects(generation=0)) >= _NEW_MAX:
            _, looked_at_count, _ = gc.get_count()
            gc.collect(min(looked_at_count, 1))
            collections = _collection_count()

    await periodic.repeat("new objects counted", count)


def _collection_count() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def look_at_the_new_only() -> None:
    """Freeze all present objects, and later those that survive two collections."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(_spare)


def _spare(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()


def _collect(event: str) -> None:
    began_s = time.perf_counter()
    count = gc.collect()
    took_s = time.perf_counter() - began_s
    facts = {"objects": count, "took_ms": round(took_s * 1000, 1)}
    log.debug(event, extra=facts)
