"""Delivery by rules, in process: order by key, filters, patterns. Storage keeps nothing."""

import asyncio
import gc
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from headgate.engine.clock import SystemClock
from headgate.engine.config import NO_POLICY, FieldName, GroupPolicy
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, Timing
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.replies import GroupRead, GroupState
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Ack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add, From, Read, ReadPattern, StreamCursor
from headgate.engine.requests.groups import CreateGroup, DestroyGroup, GroupStart
from tests.bench import fairness
from tests.bench.figures import Figure

ENTRIES = 1_000_000
BATCH = 1_000
PAGE = 100
ROUNDS = 3
STREAMS = 10_000
S, G, C = b"s", b"g", b"c"

BY_KEY = GroupPolicy(key_field=FieldName(b"site"))
NOTHING = GroupPolicy(
    filters='[{"exact":{"kind":"order"}},{"prefix":{"site":"9"}},{"not":{"present":["test"]}}]'
)
"""Three conditions that let nothing through."""


SUBSCRIPTION = Read([StreamCursor(b"other", From.NOW)], wait_ms=None, missing_ok=True)
PATTERNS = [ReadPattern(b"s.%05d?*" % number, wait_ms=None) for number in range(STREAMS)]
"""One for each stream, with its name as literal prefix. None of them matches a name."""


async def measure() -> list[Figure]:
    """Return rates of consumers with rules, and without them in turns."""
    filled = {"1 M keys": await _filled(lambda at: at), "pairs": await _filled(lambda at: at // 2)}
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(ROUNDS):
        print(f"delivery: round {number + 1} of {ROUNDS}", flush=True)
        for name, engine in filled.items():
            rates[name].append(await _consumed_per_s(engine, BY_KEY))
            rates[f"{name}, no key"].append(await _consumed_per_s(engine, NO_POLICY))
        delayed = await _delayed()
        rates["due"].append(await _due_per_s(*delayed))
        rates["not delayed"].append(rates["1 M keys, no key"][-1])
        rates["passed by"].append(await _passed_per_s(filled["1 M keys"]))
        rates["one"].append(await _appended_per_s([SUBSCRIPTION]))
        rates["patterns"].append(await _appended_per_s(PATTERNS))
    unit, work, peer = "entries/s", f"read_group + ack, {PAGE} a call", "without key_field"
    of_rounds = Figure.of_rounds
    return [
        of_rounds(
            f"{work}, 1 M keys", rates["1 M keys"], unit, peer, rates["1 M keys, no key"],
            ratio_at_least=0.8,
        ),
        of_rounds(
            f"{work}, every other entry held back", rates["pairs"], unit, peer,
            rates["pairs, no key"],
        ),
        of_rounds(
            f"appends to {STREAMS:,} streams, as many patterns", rates["patterns"], unit,
            "one subscription", rates["one"], ratio_at_least=0.5,
        ),
        of_rounds(
            f"{work}, each was delayed, all are due", rates["due"], unit, "no delay",
            rates["not delayed"],
        ),
        of_rounds("passed by three conditions", rates["passed by"], unit, at_least=1e6),
        *await fairness.measure(),
    ]  # fmt: skip


class _Clock(SystemClock):
    """The machine's clock, and how much time has passed besides."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


async def _delayed() -> tuple[Engine, _Clock]:
    """Return an engine in which a group has passed by a million entries that are due in an hour."""
    clock = _Clock()
    engine = Engine(MemoryStorage(records_max=0), clock=clock)
    due_ms = clock.wall_ms() + 3_600_000
    for start in range(0, ENTRIES, BATCH):
        page = [
            Draft(None, (b"site", b"%d" % at), Timing(deliver_at_ms=due_ms + at // 1000))
            for at in range(start, start + BATCH)
        ]
        await engine.perform(Add(S, page))
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.perform(ReadGroup(G, C, [GroupCursor(S)], PAGE, claim_released=True))
    return engine, clock


async def _due_per_s(engine: Engine, clock: _Clock) -> float:
    """Return the rate at which entries are delivered and acknowledged that are due."""
    clock.ahead_ms += 7_200_000
    gc.collect()
    started, count = time.perf_counter(), 0
    request = ReadGroup(G, C, [GroupCursor(S)], PAGE, claim_released=True)
    while ids := [each.id for each in (await engine.perform(request))[0].deliveries]:
        await engine.perform(Ack(S, G, ids))
        count += len(ids)
    assert count == ENTRIES
    return count / (time.perf_counter() - started)


async def _filled(key_of: Callable[[int], int]) -> Engine:
    engine = Engine(MemoryStorage(records_max=0))
    for start in range(0, ENTRIES, BATCH):
        numbers = range(start, start + BATCH)
        await engine.perform(Add(S, [_draft(key_of(number), number) for number in numbers]))
    return engine


def _draft(key: int, number: int) -> Draft:
    fields = (b"temp", b"%d.5" % (number % 40), b"kind", b"reading", b"site", b"%d" % key)
    return Draft(None, fields)


async def _consumed_per_s(engine: Engine, policy: GroupPolicy) -> float:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=policy))
    request = ReadGroup(G, C, [GroupCursor(S)], limit=PAGE, by_policy=True)
    count = 0
    gc.collect()
    started_s = time.perf_counter()
    while deliveries := (await _read(engine, request)).deliveries:
        await engine.perform(Ack(S, G, [each.id for each in deliveries], consumer=C))
        count += len(deliveries)
    elapsed_s = time.perf_counter() - started_s
    assert count == ENTRIES
    await engine.perform(DestroyGroup(S, G))
    return count / elapsed_s


async def _passed_per_s(engine: Engine) -> float:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=NOTHING))
    request = ReadGroup(G, C, [GroupCursor(S)], limit=PAGE, by_policy=True)
    gc.collect()
    started_s = time.perf_counter()
    while (read := await _read(engine, request)).state is not GroupState.CAUGHT_UP:
        assert not read.deliveries
    elapsed_s = time.perf_counter() - started_s
    await engine.perform(DestroyGroup(S, G))
    return ENTRIES / elapsed_s


async def _appended_per_s(followed: Sequence[Request[Any]]) -> float:
    """Return the rate of appends beside reads that wait, and that none of them concerns."""
    engine = Engine(MemoryStorage(records_max=0), waiters_max=len(followed))
    reads = [asyncio.ensure_future(engine.perform(request)) for request in followed]
    while engine.waiter_count < len(reads):
        await asyncio.sleep(0)
    appends = [Add(b"s.%05d" % number, [_draft(number, number)]) for number in range(STREAMS)]
    for append in appends:  # the streams are there, and it is known whom they concern
        await engine.perform(append)
        await asyncio.sleep(0)
    gc.collect()
    started_s = time.perf_counter()
    for append in appends:
        await engine.perform(append)
    elapsed_s = time.perf_counter() - started_s
    for read in reads:
        read.cancel()
    await asyncio.wait(reads)
    return STREAMS / elapsed_s


async def _read(engine: Engine, request: ReadGroup) -> GroupRead:
    reads: Sequence[GroupRead] = await engine.perform(request)
    return reads[0]
