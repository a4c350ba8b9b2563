"""Spark: rows read and written a second, and what a long poll notices while others read in bulk."""

import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from multiprocessing.synchronize import Event
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headgate.client import Cursor
from headgate.client.blocking import Client
from headgate.pipeline.session import session
from tests.bench.servers import serving_process
from tests.bench.table import Figure

ENTRIES = 600_000
"""Read; a third as many are written."""
BATCH = 5_000
ROUNDS = 3
WARMING = 8
"""Rounds until Java has compiled what is measured."""
TASKS = 2
"""One for each core that Spark has."""
POLLS = 300
READERS = 2
PAUSE_S = 0.02
"""Pause between appends: a long poll is there before the next one."""

_JSON = "id string, fields map<string, string>"
_ARROW = "application/vnd.apache.arrow.stream"
_NDJSON = "application/x-ndjson"
_PIECE_BYTES = 256 * 1024


def measure() -> list[Figure]:
    """Return Spark's rates of reading and writing, and the delay of a long poll meanwhile."""
    with serving_process("headgate") as (port, process_id):
        _fill(port)
        quiet = _polls(port)
        with _reading(port, READERS):
            beside = _polls(port)
        if hasattr(os, "sched_setaffinity"):  # Spark takes what cores there are, the gateway too
            everywhere = set(range(os.cpu_count() or 1))
            os.sched_setaffinity(0, everywhere)
            os.sched_setaffinity(process_id, everywhere)
        rates = _rates(f"http://127.0.0.1:{port}")
    arrow, ndjson, written = (statistics.median(samples) for samples in rates)
    return [
        Figure(
            "read into Spark, local[2]", arrow, "rows/s", "NDJSON, spark.read.json", ndjson,
            at_least=400e3,
        ),
        Figure("write from Spark, local[2]", written, "rows/s", at_least=100e3),
        Figure("append → long poll, p50", _at(quiet, 0.5), "ms"),
        Figure("append → long poll, p99", _at(quiet, 0.99), "ms"),
        Figure(f"the same beside {READERS} bulk readers, p50", _at(beside, 0.5), "ms"),
        Figure(f"the same beside {READERS} bulk readers, p99", _at(beside, 0.99), "ms", at_most=50),
    ]  # fmt: skip


def _fill(port: int) -> None:
    control = HTTPConnection("127.0.0.1", port)
    for begin in range(0, ENTRIES, BATCH):
        lines = b"".join(
            b'{"fields":{"temp":"%d.37","hum":"%d","site":"s%d"}}\n' % (n % 50, n % 100, n % 1000)
            for n in range(begin, begin + BATCH)
        )
        _ask(control, "POST", "/v1/streams/bulk/entries/batch", lines, _NDJSON)
    control.close()


# What Spark does.


def _rates(url: str) -> tuple[list[float], list[float], list[float]]:
    """Return rows a second: read as Arrow, read as NDJSON, written; each has its turn."""
    conf = {"spark.log.level": "OFF"}
    spark = session(master="local[2]", app="headgate bench", conf=conf)
    arrow: list[float] = []
    ndjson: list[float] = []
    written: list[float] = []
    for number in range(-WARMING, ROUNDS):
        is_counted = number >= 0
        print(f"spark: round {number + 1} of {ROUNDS}" if is_counted else "spark: warming up")
        measured = [_read(spark, url), _read_ndjson(spark, url), _write(spark, url)]
        if is_counted:
            for rate, rates in zip(measured, (arrow, ndjson, written), strict=True):
                rates.append(rate)
    spark.stop()
    return arrow, ndjson, written


def _read(spark: SparkSession, url: str) -> float:
    began_s = time.perf_counter()
    reader = spark.read.format("headgate").options(url=url, subscribe="bulk")
    _drain(reader.option("maxRecordsPerPartition", ENTRIES // TASKS).load())
    return ENTRIES / (time.perf_counter() - began_s)


def _read_ndjson(spark: SparkSession, url: str) -> float:
    """Return the rate of rows that Spark makes of NDJSON from the gateway."""
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.perf_counter()
        with Client(url) as client:
            [plan] = client.plan([Cursor("bulk", "0-0")])
            bulk = client.stream("bulk")
            splits = bulk.splits(after=plan.after, to=plan.end, parts=TASKS)
        with ThreadPoolExecutor(2) as threads:
            fetch = partial(_fetch_ndjson, url, folder)
            list(threads.map(fetch, [(split.after, split.to) for split in splits]))
        _drain(spark.read.schema(_JSON).json(folder))
        return ENTRIES / (time.perf_counter() - began_s)


def _fetch_ndjson(url: str, folder: str, ids: tuple[str, str]) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    connection = HTTPConnection(host, int(port))
    path = f"/v1/streams/bulk/entries?start=({ids[0]}&end={ids[1]}&limit={ENTRIES}"
    connection.request("GET", path, headers={"Accept": _NDJSON})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    with Path(folder, f"{ids[0]}.json").open("wb") as file:
        while data := answer.read(_PIECE_BYTES):
            file.write(data)
    connection.close()


def _write(spark: SparkSession, url: str) -> float:
    rows = spark.range(0, ENTRIES // 3, 1, TASKS).selectExpr(
        "concat(id % 50, '.37') as temp", "cast(id % 100 as string) as hum",
        "concat('s', id % 1000) as site",
    )  # fmt: skip
    began_s = time.perf_counter()
    writing = rows.write.format("headgate").mode("append")
    writing.options(url=url, stream="written").save()
    return ENTRIES // 3 / (time.perf_counter() - began_s)


def _drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


# What others notice of it.


def _polls(port: int) -> list[float]:
    """Return the delays from an append to a long poll, in ms, sorted."""
    polling, appending = (HTTPConnection("127.0.0.1", port) for _ in range(2))
    body = b'{"fields":{"n":"1"}}'
    path = "/v1/streams/live/entries"
    last = json.loads(_ask(appending, "POST", path, body, "application/json"))["id"]
    delays_ms = []
    for _ in range(POLLS):
        polling.request("GET", f"{path}?after={last}&wait_ms=10000")
        time.sleep(PAUSE_S)
        began_s = time.perf_counter()
        append = threading.Thread(
            target=_ask, args=(appending, "POST", path, body, "application/json")
        )
        append.start()
        answer = json.loads(polling.getresponse().read())
        delays_ms.append((time.perf_counter() - began_s) * 1e3)
        append.join()
        last = answer["entries"][-1]["id"]
    for connection in (polling, appending):
        connection.close()
    return sorted(delays_ms)


@contextmanager
def _reading(port: int, count: int) -> Iterator[None]:
    """Read everything in bulk, again and again, in processes of their own."""
    context = multiprocessing.get_context("spawn")
    begun = [context.Event() for _ in range(count)]
    readers = [context.Process(target=read_on, args=(port, event)) for event in begun]
    for reader in readers:
        reader.start()
    try:
        assert all(event.wait(30) for event in begun)
        yield
        assert all(reader.is_alive() for reader in readers)
    finally:
        for reader in readers:
            reader.kill()
            reader.join()


def read_on(port: int, begun: Event) -> None:
    """Take the stream as Arrow and throw it away, until killed."""
    request = (
        "GET /v1/streams/bulk/entries?start=-&end=%2B&compression=none HTTP/1.1\r\n"
        f"Host: 127.0.0.1\r\nAccept: {_ARROW}\r\nConnection: close\r\n\r\n"
    )
    while True:
        with socket.create_connection(("127.0.0.1", port)) as probe:
            probe.sendall(request.encode())
            assert probe.recv(_PIECE_BYTES).startswith(b"HTTP/1.1 200")
            begun.set()
            while probe.recv(_PIECE_BYTES):
                pass


def _at(delays_ms: list[float], share: float) -> float:
    return delays_ms[int(len(delays_ms) * share)]


def _ask(control: HTTPConnection, method: str, path: str, body: bytes, media_type: str) -> bytes:
    control.request(method, path, body, {"Content-Type": media_type})
    answer = control.getresponse()
    assert answer.status < 300, answer.read()
    return answer.read()
