"""Sizing: how much memory one more of each thing takes, to plan a machine with.

Each kind is made in a process of its own, in two steps. What the second step adds to the resident
memory, divided by its count, is the figure: what the process has anyway does not count.
"""

import asyncio
import multiprocessing
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from headgate.engine.config import FieldName, GroupPolicy
from headgate.engine.engine import Engine
from headgate.engine.entry import Draft, EntryId, Timing
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import KEY_AHEAD_MAX
from headgate.engine.replies import GroupRead
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, GroupStart
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.streams import CreateStream
from tests.bench.entries import drafts
from tests.bench.figures import Figure

PAGE = 1_000
PER_OWNER = 500
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Step = Callable[[Engine, int, int], Awaitable[None]]
"""Makes the things from one number up to another."""


async def entries(engine: Engine, first: int, last: int) -> None:
    """Append entries of three short fields."""
    source = drafts(last)[first:]
    for at in range(0, len(source), PAGE):
        await engine.perform(Add(b"s", source[at : at + PAGE]))


async def noise(engine: Engine, first: int, last: int) -> None:
    """Append entries of 256 random bytes, which no compression makes smaller."""
    chance = random.Random(first)
    for _ in range(first, last, PAGE):
        page = [Draft(None, (b"v", chance.randbytes(256))) for _ in range(PAGE)]
        await engine.perform(Add(b"s", page))


async def pending(engine: Engine, first: int, last: int) -> None:
    """Append entries, and deliver them to a consumer."""
    if first == 0:
        await engine.perform(CreateStream(b"s"))
        await engine.perform(CreateGroup(b"s", b"g", GroupStart(EntryId(0, 0))))
    await entries(engine, first, last)
    for _ in range(first, last, PAGE):
        request = ReadGroup(b"g", b"c", [GroupCursor(b"s")], limit=PAGE)
        reads: list[GroupRead] = await engine.perform(request)
        assert len(reads[0].deliveries) == PAGE


async def _keyed(engine: Engine, first: int, last: int, keys: range) -> None:
    """Append entries with these keys in turns, and deliver or hold back all of them."""
    if first == 0:
        policy = GroupPolicy(key_field=FieldName(b"site"), key_ahead_max=KEY_AHEAD_MAX)
        await engine.perform(CreateStream(b"s"))
        await engine.perform(CreateGroup(b"s", b"g", GroupStart(EntryId(0, 0)), policy=policy))
    request = ReadGroup(b"g", b"c", [GroupCursor(b"s")], by_policy=True)
    for at in range(0, last - first, PAGE):
        page = [
            Draft(None, (*draft.fields[:4], b"site", b"%d" % keys[(at + number) % len(keys)]))
            for number, draft in enumerate(drafts(PAGE))
        ]
        await engine.perform(Add(b"s", page))
        await engine.perform(request)


async def keyed(engine: Engine, first: int, last: int) -> None:
    """Append entries with a key each, and deliver them to a consumer."""
    await _keyed(engine, first, last, range(first, last))


async def held(engine: Engine, first: int, last: int) -> None:
    """Append entries of some hundreds of keys, all but one of each held back."""
    await _keyed(engine, first, last, range(PER_OWNER))


async def delayed(engine: Engine, first: int, last: int) -> None:
    """Append entries with a delay, and let a group pass them by."""
    if first == 0:
        await engine.perform(CreateStream(b"s"))
        await engine.perform(CreateGroup(b"s", b"g", GroupStart(EntryId(0, 0))))
    request = ReadGroup(b"g", b"c", [GroupCursor(b"s")], by_policy=True)
    for at in range(0, last - first, PAGE):
        later = Timing(delay_ms=86_400_000 + at)
        page = [Draft(None, draft.fields, later) for draft in drafts(PAGE)]
        await engine.perform(Add(b"s", page))
        await engine.perform(request)


async def streams(engine: Engine, first: int, last: int) -> None:
    """Create streams, with an entry each."""
    for number, draft in zip(range(first, last), drafts(last)[first:], strict=True):
        await engine.perform(Add(b"device-%d" % number, [draft]))


async def groups(engine: Engine, first: int, last: int) -> None:
    """Create groups, some hundreds of a stream."""
    for number in range(first, last):
        request = CreateGroup(
            b"device-%d" % (number // PER_OWNER),
            b"group-%d" % number,
            GroupStart(None),
            create_stream=True,
        )
        await engine.perform(request)


async def consumers(engine: Engine, first: int, last: int) -> None:
    """Create consumers, some hundreds of a group."""
    for number in range(first, last):
        group = number // PER_OWNER * PER_OWNER
        if number == group:
            await groups(engine, group, group + 1)
        stream = b"device-%d" % (group // PER_OWNER)
        await engine.perform(CreateConsumer(stream, b"group-%d" % group, b"worker-%d" % number))


async def keys(engine: Engine, first: int, last: int) -> None:
    """Append entries, each under an idempotency key, some hundreds of a producer."""
    for number, draft in zip(range(first, last), drafts(last)[first:], strict=True):
        producer = b"producer-%d" % (number // PER_OWNER)
        key = Idempotent(producer, b"request-%d" % number, b"%032d" % number)
        await engine.perform(Add(b"s", [draft], key))


KINDS: dict[str, tuple[Step, int]] = {
    "entry of three short fields": (entries, 400_000),
    "entry of 256 random bytes": (noise, 100_000),
    "pending entry, its entry included": (pending, 200_000),
    "pending entry with a key of its own, its entry included": (keyed, 200_000),
    "entry held back for its key, its entry included": (held, 50_000),
    "entry with a delay that a group has passed by, its entry included": (delayed, 100_000),
    "stream with an entry": (streams, 20_000),
    "group": (groups, 20_000),
    "consumer": (consumers, 20_000),
    "idempotency key, its entry included": (keys, 50_000),
}


def measure() -> list[Figure]:
    """Return the memory of one more of each kind."""
    figures = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name in KINDS:
            print(f"sizing: {name}", flush=True)
            figures.append(Figure(f"memory of one {name}", pool.apply(_bytes_each, [name]), "B"))
    return figures


def _bytes_each(name: str) -> float:
    return asyncio.run(_measured(*KINDS[name]))


async def _measured(step: Step, count: int) -> float:
    engine = Engine(MemoryStorage(records_max=0))
    running = asyncio.create_task(engine.run())
    await step(engine, 0, count)
    before = _resident_bytes()
    await step(engine, count, 2 * count)
    after = _resident_bytes()
    running.cancel()
    return (after - before) / count


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
