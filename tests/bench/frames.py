"""Frames: rows that `read_pandas` makes of a stream in a second, beside NDJSON lines."""

import asyncio
import json
import os
import time
from http.client import HTTPConnection

import pandas as pd

from headgate.client import AsyncClient
from tests.bench.figures import Figure
from tests.bench.servers import serving_process

ENTRIES = 1_000_000
LINES = 100_000
"""Read as NDJSON, which takes longer."""
BATCH = 10_000
ROUNDS = 3
_NDJSON = "application/x-ndjson"


async def measure() -> list[Figure]:
    """Return the rates of both ways, each in its turn, with all cores for both sides."""
    frames: list[float] = []
    line_rates: list[float] = []
    with serving_process("headgate") as (port, process_id):
        if hasattr(os, "sched_setaffinity"):
            everywhere = set(range(os.cpu_count() or 1))
            os.sched_setaffinity(0, everywhere)
            os.sched_setaffinity(process_id, everywhere)
        await asyncio.to_thread(_fill, port)
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            stream = client.stream("bulk")
            await stream.read_pandas()  # what is imported then takes a while
            for number in range(ROUNDS):
                print(f"frames: round {number + 1} of {ROUNDS}", flush=True)
                began_s = time.perf_counter()
                assert len(await stream.read_pandas()) == ENTRIES
                frames.append(ENTRIES / (time.perf_counter() - began_s))
                line_rates.append(await asyncio.to_thread(_without_client, port))
    return [
        Figure.of_rounds(
            "read_pandas, three fields", frames, "rows/s", "NDJSON, json.loads", line_rates,
            at_least=1e6,
        )
    ]  # fmt: skip


def _fill(port: int) -> None:
    control = HTTPConnection("127.0.0.1", port)
    for begin in range(0, ENTRIES, BATCH):
        lines = b"".join(
            b'{"fields":{"temp":"%d.37","hum":"%d","site":"s%d"}}\n' % (n % 50, n % 100, n % 1000)
            for n in range(begin, begin + BATCH)
        )
        control.request("POST", "/v1/streams/bulk/entries/batch", lines, {"Content-Type": _NDJSON})
        answer = control.getresponse()
        assert answer.status < 300, answer.read()
        answer.read()
    control.close()


def _without_client(port: int) -> float:
    control = HTTPConnection("127.0.0.1", port)
    began_s = time.perf_counter()
    path = f"/v1/streams/bulk/entries?limit={LINES}"
    control.request("GET", path, headers={"Accept": _NDJSON})
    rows = [json.loads(line) for line in control.getresponse().read().splitlines()]
    frame = pd.DataFrame([row["fields"] for row in rows], index=[row["id"] for row in rows])
    frame = frame.astype({"temp": "float64", "hum": "int64"})
    elapsed_s = time.perf_counter() - began_s
    control.close()
    assert len(frame) == LINES
    return LINES / elapsed_s
