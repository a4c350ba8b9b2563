"""Fair groups: whoever waits behind a backlog, and what the index of it costs. In process."""

import gc
import tempfile
import time
import tracemalloc
from collections import defaultdict
from pathlib import Path

from headgate.app.backends.port import Backend
from headgate.app.gateway.backends import open_backend
from headgate.app.runtime import collector
from headgate.app.settings import Settings
from headgate.engine.config import NO_POLICY, FieldName, GroupPolicy
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.deliveries import Ack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.state.ahead import Ahead
from headgate.engine.state.memory import Memory
from tests.bench.figures import Figure
from tests.running import running

ENTRIES = 1_000_000
BATCH = 1_000
SINGLES = 20_000
PAGE = 100
ROUNDS = 3
S, G, C = b"s", b"g", b"c"
WHO = FieldName(b"who")
FAIR = GroupPolicy(fair_field=WHO)
IN_ORDER = GroupPolicy(fair_field=WHO, key_field=WHO)


async def measure() -> list[Figure]:
    """Return what fairness costs beside a group without it, and how soon the next tenant comes."""
    collector.look_at_the_new_only()  # as `serve` does
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(ROUNDS):
        print(f"fairness: round {number + 1} of {ROUNDS}", flush=True)
        for name, policy in (("none", NO_POLICY), ("fair", FAIR), ("in order", IN_ORDER)):
            engine = await _with_group(policy)
            rates[f"append, {name}"].append(await _appended_per_s(engine))
            rates[f"read, {name}"].append(await _consumed_per_s(engine))
    behind_ms, after_start_ms = await _times_behind()
    work, append = f"read_group + ack, {PAGE} a call, 1 M keys", "append, one entry a call"
    of_rounds, peer = Figure.of_rounds, "no fair_field"
    figures = [
        of_rounds(
            f"{work}, {name}", rates[f"read, {name}"], "entries/s", peer, rates["read, none"],
            ratio_at_least=0.8,
        )
        for name in ("fair", "in order")
    ]  # fmt: skip
    figures += [
        of_rounds(
            f"{append}, {name}", rates[f"append, {name}"], "entries/s", peer,
            rates["append, none"], ratio_at_least=1 / 1.3,
        )
        for name in ("fair", "in order")
    ]  # fmt: skip
    behind = "the next tenant's entry behind 1 M of another"
    return [
        *figures,
        Figure(behind, behind_ms, "ms", at_most=5),
        Figure(f"{behind}, after a start", after_start_ms, "ms", at_most=5),
        Figure("memory of an entry ahead, one key", _ahead_bytes(1), "bytes", at_most=24),
        Figure("memory of an entry ahead, 1 M keys", _ahead_bytes(ENTRIES), "bytes"),
    ]


async def _with_group(policy: GroupPolicy) -> Engine:
    engine = Engine(MemoryStorage(records_max=0))
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True, policy=policy))
    for start in range(0, ENTRIES - SINGLES, BATCH):
        await engine.perform(Add(S, [_draft(at) for at in range(start, start + BATCH)]))
    return engine


def _draft(key: int) -> Draft:
    return Draft(None, (b"temp", b"%d.5" % (key % 40), b"kind", b"reading", b"who", b"%d" % key))


async def _appended_per_s(engine: Engine) -> float:
    appends = [Add(S, [_draft(at)]) for at in range(ENTRIES - SINGLES, ENTRIES)]
    gc.collect()
    started_s = time.perf_counter()
    for append in appends:
        await engine.perform(append)
    return SINGLES / (time.perf_counter() - started_s)


async def _consumed_per_s(engine: Engine) -> float:
    request = ReadGroup(G, C, [GroupCursor(S)], limit=PAGE)
    count = 0
    gc.collect()
    started_s = time.perf_counter()
    while ids := [each.id for each in (await engine.perform(request))[0].deliveries]:
        await engine.perform(Ack(S, G, ids, consumer=C))
        count += len(ids)
    assert count == ENTRIES
    return count / (time.perf_counter() - started_s)


async def _times_behind() -> tuple[float, float]:
    """Return how long a read takes that brings the entry behind a backlog (ms), on disk."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder))
        async with running(open_backend(settings)) as backend:
            await backend.perform(
                CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True, policy=FAIR)
            )
            for _ in range(0, ENTRIES, BATCH):
                await backend.perform(Add(S, [Draft(None, (b"who", b"a"))] * BATCH))
            await backend.perform(Add(S, [Draft(None, (b"who", b"b"))]))
            behind_ms = await _read_both(backend)
            await backend.perform(Add(S, [Draft(None, (b"who", b"c"))]))
        async with running(open_backend(settings)) as backend:
            return behind_ms, await _read_both(backend)


async def _read_both(backend: Backend) -> float:
    gc.collect()
    started_s = time.perf_counter()
    [reply] = await backend.perform(ReadGroup(G, C, [GroupCursor(S)], limit=2))
    elapsed_ms = (time.perf_counter() - started_s) * 1000
    assert {each.fields[1] for each in reply.deliveries if each.fields} != {b"a"}
    return elapsed_ms


def _ahead_bytes(key_count: int) -> float:
    """Return what an entry of the index takes, beside the ids and keys that others hold."""
    tracemalloc.start()
    ahead = Ahead(b"who", None, Memory())
    for at in range(ENTRIES):
        ahead.add(EntryId(1_700_000_000_000 + at, 0), b"%d" % (at % key_count))
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(ahead) == ENTRIES
    return size_bytes / ENTRIES
