"""Volume: a stream larger than memory is written, read back as a whole, stopped and started.

`python -m tests.bench.volume --entries 100_000_000 --kind short` starts a gateway of its own in a
fresh directory. `--bytes 20GB --kind large` says the size in place of the number. Entries are made
by number, and compared by number when they are read, so none is kept here. Whatever is not done in
`--seconds` is left out, and the tables say so.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.figures import markdown, p50_p99, short, size_of
from tests.bench.probe import Watch
from tests.bench.seeded import KINDS, Kind
from tests.bench.servers import children_cpu_s, cpu_s
from tests.bench.stores import GatewayConnection, GatewayStore, RefusalError

PARTS = 10
FILL_SHARE = 0.55
"""Of the time, for appends; then everything is read until a last share is left for the starts."""
STARTS_SHARE = 0.15
START_S_MIN = 60.0
_GREETING = "Headgate is at"


class Tenth(NamedTuple):
    """A tenth of the appends."""

    entries: int  # until its end
    per_s: float
    cpu_us: float  # of the gateway, for an entry
    rewrite_cpu_us: float  # of its children, for an entry
    resident_mib: float  # the highest
    files_mb: float


class ReadBack(NamedTuple):
    """A read of the whole stream."""

    entries: int
    differing: int
    seconds: float
    resident_mib: float


class Volume:
    """The measurement of one stream."""

    def __init__(self, store: GatewayStore, kind: Kind, count: int, end_s: float) -> None:
        """Measure `count` entries until a moment of `time.monotonic`."""
        self._store, self._kind = store, kind
        self._batches = -(-count // kind.batch)
        self._began_s, self._end_s = time.monotonic(), end_s
        self.appended = 0
        self.refusal: str | None = None

    def fill(self, connection: GatewayConnection, watch: Watch) -> list[Tenth]:
        """Append as fast as one connection can; the next batch is made while one is sent."""
        tenths: list[Tenth] = []
        size = -(-self._batches // PARTS)
        with ThreadPoolExecutor(1) as maker:
            bodies = self._bodies(maker, connection)
            while self.refusal is None and self.appended < self._batches * self._kind.batch:
                before, cpu, began_s = self.appended, self._cpu_s(), time.perf_counter()
                watch.take_resident_bytes()
                self._append(connection, islice(bodies, size))
                seconds, count = time.perf_counter() - began_s, self.appended - before
                if count:
                    cpu_us, rewrite_cpu_us = (
                        (after - earlier) / count * 1e6
                        for after, earlier in zip(self._cpu_s(), cpu, strict=True)
                    )
                    resident_mib = watch.take_resident_bytes() / 2**20
                    files_mb = connection.journal()["size_bytes"] / 1e6
                    rate = count / seconds
                    tenths.append(
                        Tenth(self.appended, rate, cpu_us, rewrite_cpu_us, resident_mib, files_mb)
                    )
                    print(tenths[-1], flush=True)
        return tenths

    def read_back(self, connection: GatewayConnection, watch: Watch) -> ReadBack:
        """Read everything, and compare each value with the one that was appended."""
        watch.take_resident_bytes()
        began_s, number, differing = time.perf_counter(), 0, 0
        until_s = self._end_s - STARTS_SHARE * (self._end_s - self._began_s)
        for batch in connection.batches():
            differing += differing_count(self._kind, number, batch)
            number += len(batch)
            if time.monotonic() > until_s:
                break
        seconds = time.perf_counter() - began_s
        return ReadBack(number, differing, seconds, watch.take_resident_bytes() / 2**20)

    def restart(self, how: signal.Signals) -> list[str]:
        """Return a row about an end of the gateway and the start behind it."""
        stop_s = self._store.server.stop(how)
        try:
            left_s = max(START_S_MIN, self._end_s - time.monotonic())
            start_s = f"{self._store.start(left_s):.2f}"
        except (TimeoutError, ChildProcessError) as error:
            return [how.name, f"{stop_s:.2f}", str(error), "", ""]
        with closing(self._store.connection()) as connection:
            missing = self.appended - connection.length()
        resident_mib = self._store.resident_bytes() / 2**20
        return [how.name, f"{stop_s:.2f}", start_s, f"{resident_mib:.0f}", str(missing)]

    def _bodies(self, maker: ThreadPoolExecutor, connection: GatewayConnection) -> Iterator[Any]:
        """Yield the bodies of all batches, each made while the one before is on its way."""
        begins = range(0, self._batches * self._kind.batch, self._kind.batch)
        making = maker.submit(connection.prepared, begins[0], self._kind.batch)
        for begin in begins[1:]:
            body = making.result()
            making = maker.submit(connection.prepared, begin, self._kind.batch)
            yield body
        yield making.result()

    def _append(self, connection: GatewayConnection, bodies: Iterable[Any]) -> None:
        """Append batches until the time is over or the gateway refuses one."""
        until_s = self._began_s + FILL_SHARE * (self._end_s - self._began_s)
        for body in bodies:
            if time.monotonic() > until_s:
                self.refusal = "the time for it is over"
                return
            try:
                connection.append(body)
            except RefusalError as error:
                self.refusal = str(error)
                return
            self.appended += self._kind.batch

    def _cpu_s(self) -> tuple[float, float]:
        process_id = self._store.server.process_id
        return cpu_s(process_id), children_cpu_s(process_id)


def differing_count(kind: Kind, number: int, batch: Any) -> int:
    """Return how many entries differ from those that were appended."""
    there, here = batch.column("fields"), kind.record_batch(number, len(batch)).column("fields")
    parts = ((there.offsets, here.offsets), (there.keys, here.keys), (there.items, here.items))
    if all(after.equals(before) for after, before in parts):
        return 0
    pairs = zip(there.to_pylist(), here.to_pylist(), strict=True)
    return sum(after != before for after, before in pairs)


def _measure(asked: argparse.Namespace) -> bool:
    """Print the tables; returns whether everything came back as it was appended."""
    kind = KINDS[asked.kind]
    count = asked.entries or round(asked.bytes / kind.entry_bytes)
    end_s = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory(dir=asked.directory) as folder:
        log, data = Path(folder, "log"), Path(folder, "data")
        store = GatewayStore(data, kind, asked.memory, asked.fsync, log, is_pinned=False)
        try:
            store.start()
            volume = Volume(store, kind, count, end_s)
            with Watch(store) as watch, closing(store.connection()) as connection:
                watch.phase = "append"
                tenths = volume.fill(connection, watch)
                watch.phase = "read"
                read = volume.read_back(connection, watch)
            restarts = [volume.restart(how) for how in (signal.SIGTERM, signal.SIGKILL)]
        finally:
            store.stop()
        warnings = [line for line in log.read_text().splitlines() if _GREETING not in line]
    _show(volume, kind, tenths, watch, read, restarts)
    print(f"warnings in the log: {len(warnings)}", *warnings[:1], sep="\n")
    return not read.differing and all(row[-1] == "0" for row in restarts)


_HEADS = [
    "entries",
    "appended, entries/s",
    "CPU, µs",
    "of rewrites, µs",
    "MiB at most",
    "files, MB",
]


def _cells(tenth: Tenth) -> list[str]:
    return [
        short(tenth.entries),
        short(tenth.per_s),
        f"{tenth.cpu_us:.2f}",
        f"{tenth.rewrite_cpu_us:.2f}",
        f"{tenth.resident_mib:.0f}",
        f"{tenth.files_mb:.0f}",
    ]


def _show(
    volume: Volume,
    kind: Kind,
    tenths: Sequence[Tenth],
    watch: Watch,
    read: ReadBack,
    restarts: Sequence[Sequence[str]],
) -> None:
    print("\n" + markdown(_HEADS, list(map(_cells, tenths))))
    if volume.refusal is not None:
        print(f"no more was appended: {volume.refusal}\n")
    probes = [
        [
            beside.phase,
            "yes" if beside.is_rewriting else "no",
            str(len(times_ms)),
            *map(short, p50_p99(times_ms)),
            short(max(times_ms)),
        ]
        for beside, times_ms in watch.probe_ms.items()
        if len(times_ms) > 1
    ]
    print(
        markdown(
            ["probe beside", "a rewrite", "appends", "p50, ms", "p99, ms", "longest, ms"], probes
        )
    )
    megabytes = read.entries * kind.entry_bytes / 1e6
    cells = [
        f"{read.entries} of {volume.appended}",
        str(read.differing),
        short(read.entries / read.seconds),
        short(megabytes / read.seconds),
        f"{read.resident_mib:.0f}",
    ]
    print(markdown(["read back", "differing", "entries/s", "MB/s", "MiB at most"], [cells]))
    print(markdown(["end by", "end, s", "ready after, s", "MiB then", "entries missing"], restarts))
    print(f"memory, children included: {watch.resident_bytes_max / 2**20:.0f} MiB at most")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--entries", type=size_of, help="number of entries, such as 100M")
    amount.add_argument("--bytes", type=size_of, help="bytes of all values, such as 20GB")
    parser.add_argument("--kind", choices=KINDS, default="short")
    parser.add_argument("--memory", type=size_of, default=size_of("512MiB"), metavar="SIZE")
    parser.add_argument("--fsync", choices=("always", "everysec", "no"), default="everysec")
    parser.add_argument("--directory", help="where the data are made, and removed in the end")
    parser.add_argument("--seconds", type=float, default=600, help="the limit of all together")
    sys.exit(0 if _measure(parser.parse_args()) else 1)


if __name__ == "__main__":
    main()
