"""The gateway over HTTP, side by side with the bare server it stands on."""

import statistics

from tests.bench.load import Load, post
from tests.bench.servers import serving
from tests.bench.table import Figure

BATCH = 1000
ROUNDS = 3
SECONDS = 3.0


async def measure() -> list[Figure]:
    """Return the gateway's figures: the median of rounds in which the servers take turns."""
    body = b'{"fields":{"temp":"39","hum":"71","site":"s1"}}'
    lines = b"\n".join([body] * BATCH)
    single = post("/v1/streams/bench/entries", body)
    batch = post("/v1/streams/bench/entries/batch", lines, "application/x-ndjson")
    measured: dict[str, list[float]] = {"bare": [], "append": [], "batch": []}
    with serving("bare uvicorn") as bare, serving("headgate") as headgate:
        for number in range(ROUNDS):
            print(f"gateway: round {number + 1} of {ROUNDS}", flush=True)
            for name, port, request, connections in (
                ("bare", bare, single, 32),
                ("append", headgate, single, 32),
                ("batch", headgate, batch, 4),
            ):
                load = Load("127.0.0.1", port, request, connections=connections)
                measured[name].append(await load.per_second(SECONDS))
    limit, append, batches = (statistics.median(measured[name]) for name in measured)
    return [
        Figure(
            "one append per request, 32 connections",
            append,
            "requests/s",
            "bare uvicorn",
            limit,
            ratio_at_least=0.6,
        ),
        Figure(
            f"NDJSON, {BATCH} per request, 4 connections",
            batches * BATCH,
            "entries/s",
            at_least=200e3,
        ),
    ]
