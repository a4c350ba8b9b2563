"""Storage: our gateway with bounded memory beside Redis, which has all in memory, and SQLite.

Every store gets the same entries in batches of the same size, made before the time is taken. Then
all are read in order, then single ones at random while others are appended, and it starts again.
With more than one size a stream grows instead, and only appends, memory and start are measured.
"""

import os
import random
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.plot import plot_storage
from tests.bench.report import FOLDER, keep
from tests.bench.seeded import KINDS, LARGE, SHORT, Kind
from tests.bench.stores import Connection, GatewayStore, RedisStore, SqliteStore, Store
from tests.bench.table import Figure, markdown, p50_p99, short
from tests.model.redis_server import server_path

MEMORY_BYTES_MAX = 512 * 2**20
COUNTS = {SHORT: 1_000_000, LARGE: 100_000}
"""Entries, unless a size is given."""

READ_S = 3.0
APPEND_EVERY_S, APPENDED = 0.01, 10
"""A thousand entries a second beside the reads, ten at a time."""

REDIS_SHARE_MAX = 0.4
"""Of the free memory, for the values in Redis. Names, and a copy while it rewrites, come on top."""


class Measured(NamedTuple):
    """The figures of a store with entries of one kind."""

    append_per_s: float
    append_cpu_us: float
    scan_per_s: float
    scan_mb_per_s: float
    read_p50_ms: float
    read_p99_ms: float
    resident_mib: float
    disk_mb: float
    start_s: float


WORKS = {
    "append_per_s": ("append", "entries/s"),
    "append_cpu_us": ("CPU of one append", "µs"),
    "scan_per_s": ("range scan of all", "entries/s"),
    "scan_mb_per_s": ("range scan of all, values", "MB/s"),
    "read_p50_ms": ("read one at random beside 1000 appends/s, p50", "ms"),
    "read_p99_ms": ("read one at random beside 1000 appends/s, p99", "ms"),
    "resident_mib": ("resident memory", "MiB"),
    "disk_mb": ("files", "MB"),
    "start_s": ("start", "s"),
}


class Growth(NamedTuple):
    """The figures of one store at each size."""

    store: str
    sizes: list[int]
    append_per_s: list[float]
    resident_mib: list[float]
    start_s: list[float]


def measure(sizes: Sequence[int] = (), kind: str = LARGE.name) -> list[Figure]:
    """Return the figures of all stores.

    Args:
        sizes: bytes of the values of a stream; none: the usual counts of each kind. More than one
            makes a table and a picture of their own, and no figures.
        kind: of the entries of a stream that grows.
    """
    if len(sizes) > 1:
        _keep_growth(KINDS[kind], sorted(sizes))
        return []
    figures = []
    for entries, usual_count in COUNTS.items():
        count = round(sizes[0] / entries.entry_bytes) if sizes else usual_count
        measured = {name: _measured(name, entries, count) for name in _stores(entries, count)}
        figures += _figures(f"{short(count)} {entries.name}", measured)
    return figures


def _figures(entries: str, measured: Mapping[str, Measured]) -> list[Figure]:
    here = measured[GatewayStore.name]._asdict()
    peers = {name: there._asdict() for name, there in measured.items() if name != GatewayStore.name}
    return [
        Figure(f"{work}, {entries}", here[field], unit, peer, there[field])
        for field, (work, unit) in WORKS.items()
        for peer, there in peers.items()
    ]


def _stores(kind: Kind, count: int) -> list[str]:
    """Return the names of the stores that can hold so many entries on this machine."""
    has_room = count * kind.entry_bytes < REDIS_SHARE_MAX * _free_bytes()
    redis = [RedisStore.name] if server_path() and has_room else []
    return [GatewayStore.name, *redis, SqliteStore.name]


def _free_bytes() -> int:
    """Return the memory that programs can have, that of cached files included."""
    match = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert match is not None
    return int(match[1]) * 1024


@contextmanager
def _store(name: str, kind: Kind) -> Iterator[tuple[Store, Path]]:
    makers: dict[str, Callable[[Path], Store]] = {
        GatewayStore.name: lambda path: GatewayStore(path, kind, MEMORY_BYTES_MAX),
        RedisStore.name: lambda path: RedisStore(path, kind),
        SqliteStore.name: lambda path: SqliteStore(path, kind),
    }
    with tempfile.TemporaryDirectory() as folder:
        store = makers[name](Path(folder))
        try:
            yield store, Path(folder)
        finally:
            store.stop()


def _measured(name: str, kind: Kind, count: int) -> Measured:
    print(f"storage: {short(count)} {kind.name}, {name}", flush=True)
    count = max(2, -(-count // kind.batch)) * kind.batch
    with _store(name, kind) as (store, folder):
        store.start()
        connection = store.connection()
        appends = _append(store, connection, kind, range(0, count, kind.batch))
        scanned = connection.scan()
        assert scanned.result == count, scanned
        resident_bytes, files_bytes = store.resident_bytes(), _files_bytes(folder)
        _drop_cached(folder)
        read_ms = _read_ms(store, connection, kind, count)
        connection.close()
        store.stop()
        start_s = store.start()
    return Measured(
        *appends,
        count / scanned.seconds,
        count * kind.entry_bytes / scanned.seconds / 1e6,
        *p50_p99(read_ms),
        resident_bytes / 2**20,
        files_bytes / 1e6,
        start_s,
    )


class Appends(NamedTuple):
    """The cost of appends."""

    per_s: float
    cpu_us: float


def _append(store: Store, connection: Connection, kind: Kind, begins: range) -> Appends:
    """Append batches that begin at these numbers; the first one does not count: it imports.

    The CPU is that until nothing more is to be done for them.
    """
    connection.append(connection.prepared(begins[0], kind.batch))
    seconds, began_cpu_s = 0.0, store.cpu_s()
    for begin in begins[1:]:
        seconds += connection.append(connection.prepared(begin, kind.batch))
    store.settle()
    count = len(begins[1:]) * kind.batch
    return Appends(count / seconds, (store.cpu_s() - began_cpu_s) / count * 1e6)


def _read_ms(store: Store, connection: Connection, kind: Kind, count: int) -> list[float]:
    """Return the times of reads of single entries while another client appends."""
    ended, other, chance = threading.Event(), store.connection(), random.Random(5)
    begins = range(count, count + round(READ_S / APPEND_EVERY_S) * APPENDED, APPENDED)
    prepared = [other.prepared(begin, APPENDED) for begin in begins]

    def append() -> None:
        began_s = time.perf_counter()
        for turn, entries in enumerate(prepared):
            if ended.wait(max(0.0, began_s + turn * APPEND_EVERY_S - time.perf_counter())):
                return
            other.append(entries)

    appending = threading.Thread(target=append)
    appending.start()
    took_ms, end_s = list[float](), time.perf_counter() + READ_S
    try:
        while time.perf_counter() < end_s:
            number = chance.randrange(count)
            read = connection.read(number)
            took_ms.append(read.seconds * 1e3)
            assert read.result == kind.rows(number, 1)[0], number
    finally:
        ended.set()
        appending.join()
        other.close()
    return took_ms


def _drop_cached(folder: Path) -> None:
    """Have the system forget the pages of files, which are on the disk then."""
    for path in _files(folder):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in _files(folder))


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# A stream that grows.


def _keep_growth(kind: Kind, sizes: Sequence[int]) -> None:
    """Measure each store at each size, and keep a table and a picture."""
    grown = [_grown(name, kind, sizes) for name in _stores(kind, 0)]
    labels = {"append_per_s": "entries/s", "resident_mib": "MiB", "start_s": "start, s"}
    heads = [f"values of {kind.name} entries", *(f"{size / 1e9:g} GB" for size in sizes)]
    rows = [
        [f"{growth.store}, {label}", *map(short, getattr(growth, field))]
        for growth in grown
        for field, label in labels.items()
    ]
    width = len(heads)
    padded = [row + [""] * (width - len(row)) for row in rows]
    text = markdown(heads, padded)
    print(text)
    keep("storage", text, [growth._asdict() for growth in grown])
    plot_storage(grown, FOLDER / "storage.svg")


def _grown(name: str, kind: Kind, sizes: Sequence[int]) -> Growth:
    """Let a stream grow to each size; the rate is that of what came since the size before."""
    growth = Growth(name, [], [], [], [])
    with _store(name, kind) as (store, _):
        store.start()
        begin = 0
        for size in sizes:
            batches = round(size / kind.entry_bytes / kind.batch)
            end = max(batches * kind.batch, begin + 2 * kind.batch)
            if name not in _stores(kind, end - begin):
                print(f"storage: no memory for {short(size)}B in {name}", flush=True)
                break
            print(f"storage: {short(size)}B of {kind.name}, {name}", flush=True)
            connection = store.connection()
            appends = _append(store, connection, kind, range(begin, end, kind.batch))
            connection.close()
            growth.sizes.append(size)
            growth.append_per_s.append(appends.per_s)
            growth.resident_mib.append(store.resident_bytes() / 2**20)
            store.stop()
            growth.start_s.append(store.start())
            begin = end
    return growth
