"""Commits of a result and an ack, beside transactions of Redis and of PostgreSQL.

Every worker takes work, and settles one entry at a time: its result is appended and the entry is
acknowledged, together and synced. The peers are asked in their own protocols, by plain clients.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from typing import Any, Protocol

from tests.bench.consume import prepare
from tests.bench.figures import Figure, p50_p99
from tests.bench.gateway import SINGLE
from tests.bench.load import Load, post
from tests.bench.postgres import Postgres, postgres
from tests.bench.resp import RespClient, command
from tests.bench.servers import serving
from tests.bench.table import synced_redis

ROUNDS = 3
SECONDS = 2.0
WORKERS = 32
ENTRIES = 50_000
TAKEN = 100
"""Entries that a worker of a stream takes at once; a transaction of PostgreSQL takes one."""

STEADY_PER_S = 1_000

_GROUPS = [f"g{number}" for number in range(2 * ROUNDS)]
_FIELDS = {"temp": "21.37", "hum": "64", "site": "s123"}
_WORDS = [word for field in _FIELDS.items() for word in field]
_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (id bigint PRIMARY KEY, temp text, hum text, site text);
CREATE TABLE IF NOT EXISTS results (id bigserial PRIMARY KEY, temp text, hum text, site text);
TRUNCATE jobs, results;
INSERT INTO jobs SELECT at, '21.37', '64', 's123' FROM generate_series(1, {count}) at
"""


class _Worker(Protocol):
    @classmethod
    async def open(cls, port: int, number: int, group: str) -> "_Worker": ...

    async def take(self) -> Sequence[str]:
        """Return the ids of some work; there is no more if there are none."""
        ...

    async def settle(self, entry_id: str) -> None: ...

    async def close(self) -> None: ...


async def measure() -> list[Figure]:
    """Return commits in a second and their times, in rounds in which the peers take turns."""
    rates: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    with ExitStack() as servers:
        port = servers.enter_context(serving("headgate", "always"))
        await asyncio.to_thread(prepare, port, ENTRIES, _GROUPS)
        redis_port = servers.enter_context(synced_redis())
        await _prepare_redis(redis_port)
        places: dict[str, tuple[type[_Worker], int]] = {
            "headgate": (_Commits, port),
            "Redis": (_Transactions, redis_port),
        }
        postgres_port = servers.enter_context(postgres())
        if postgres_port is not None:
            places["PostgreSQL"] = _Jobs, postgres_port
        groups = iter(_GROUPS)
        for number in range(ROUNDS):
            print(f"commit: round {number + 1} of {ROUNDS}", flush=True)
            load = Load("127.0.0.1", port, SINGLE, connections=WORKERS)
            rates.setdefault("append", []).append(await load.per_second(SECONDS))
            times.setdefault("append", []).extend(load.taken_ms)
            for rate in (None, STEADY_PER_S):
                group = next(groups)
                for name, (kind, at) in places.items():
                    if kind is _Jobs:
                        await _prepare_jobs(at)
                    async with _workers(kind, at, group) as workers:
                        done = await _settled(workers, rate)
                    key = name if rate is None else f"{name}, steady"
                    rates.setdefault(key, []).append(len(done) / SECONDS)
                    times.setdefault(key, []).extend(done)
    return _figures(rates, times, list(places)[1:])


async def _settled(workers: Sequence[_Worker], per_second: float | None) -> list[float]:
    """Settle entries for a while; returns the milliseconds of each.

    At a rate, each has its moment, and what it waits for those before it counts as well. The first
    work is taken before that.
    """
    first = await asyncio.gather(*(worker.take() for worker in workers))
    began_s = time.perf_counter()
    end_s, numbers, taken_ms = began_s + SECONDS, count(), list[float]()

    async def work(worker: _Worker, taken: Sequence[str]) -> None:
        entries = list(taken)
        while (now_s := time.perf_counter()) < end_s:
            due_s = now_s if per_second is None else began_s + next(numbers) / per_second
            await asyncio.sleep(max(due_s - now_s, 0))
            if not entries and not (entries := list(await worker.take())):
                return
            from_s = time.perf_counter() if per_second is None else due_s
            await worker.settle(entries.pop())
            taken_ms.append((time.perf_counter() - from_s) * 1e3)

    await asyncio.gather(*map(work, workers, first))
    return taken_ms


@asynccontextmanager
async def _workers(kind: type[_Worker], port: int, group: str) -> AsyncIterator[list[_Worker]]:
    workers = [await kind.open(port, number, group) for number in range(WORKERS)]
    try:
        yield workers
    finally:
        for worker in workers:
            await worker.close()


class _Commits:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, group: str
    ) -> None:
        self._reader, self._writer, self._name, self._group = reader, writer, name, group

    @classmethod
    async def open(cls, port: int, number: int, group: str) -> "_Commits":
        return cls(*await asyncio.open_connection("127.0.0.1", port), f"w{number}", group)

    async def take(self) -> Sequence[str]:
        path = f"/v1/streams/bench/groups/{self._group}/read?consumer={self._name}"
        answer = await self._ask(path, {"limit": TAKEN})
        return [entry["id"] for entry in answer["entries"]]

    async def settle(self, entry_id: str) -> None:
        settled = {"stream": "bench", "group": self._group, "ids": [entry_id], "deliveries": [1]}
        append = {"stream": "results", "entries": [{"fields": _FIELDS}]}
        body = {"consumer": self._name, "steps": [{"append": append}, {"ack": settled}]}
        await self._ask("/v1/commit", body)

    async def _ask(self, path: str, body: object) -> Any:
        self._writer.write(post(path, json.dumps(body).encode()))
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 2"), head
        size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return json.loads(await self._reader.readexactly(size))

    async def close(self) -> None:
        self._writer.close()


class _Transactions:
    """MULTI, XADD, XACK, EXEC: nobody checks whose the entry is."""

    def __init__(self, client: RespClient, name: str, group: str) -> None:
        self._client, self._name, self._group = client, name, group

    @classmethod
    async def open(cls, port: int, number: int, group: str) -> "_Transactions":
        return cls(await RespClient.open(port), f"w{number}", group)

    async def take(self) -> Sequence[str]:
        words = ("GROUP", self._group, self._name, "COUNT", str(TAKEN), "STREAMS", "bench", ">")
        [reply] = await self._client.ask([command("XREADGROUP", *words)])
        return [] if not isinstance(reply, list) else [each[0].decode() for each in reply[0][1]]

    async def settle(self, entry_id: str) -> None:
        add = command("XADD", "results", "*", *_WORDS)
        ack = command("XACK", "bench", self._group, entry_id)
        await self._client.ask([command("MULTI"), add, ack, command("EXEC")])

    async def close(self) -> None:
        await self._client.close()


class _Jobs:
    """A table of jobs; a worker has the lock of the row that it works on."""

    def __init__(self, connection: Postgres) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, port: int, number: int, group: str) -> "_Jobs":
        return cls(await Postgres.open(port))

    async def take(self) -> Sequence[str]:
        query = "BEGIN; SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
        return [job.decode() for [job] in await self._connection.ask(query)]

    async def settle(self, entry_id: str) -> None:
        values = ", ".join(f"'{value}'" for value in _FIELDS.values())
        await self._connection.ask(
            f"INSERT INTO results (temp, hum, site) VALUES ({values}); "
            f"DELETE FROM jobs WHERE id = {entry_id}; COMMIT"
        )

    async def close(self) -> None:
        await self._connection.close()


async def _prepare_redis(port: int) -> None:
    client = await RespClient.open(port)
    add = command("XADD", "bench", "*", *_WORDS)
    for _ in range(0, ENTRIES, TAKEN):
        await client.ask([add] * TAKEN)
    await client.ask([command("XGROUP", "CREATE", "bench", group, "0") for group in _GROUPS])
    await client.close()


async def _prepare_jobs(port: int) -> None:
    connection = await Postgres.open(port)
    await connection.ask(_TABLES.format(count=ENTRIES))
    await connection.close()


def _figures(
    rates: dict[str, list[float]], times: dict[str, list[float]], peers: Sequence[str]
) -> list[Figure]:
    work, steady = f"append and ack, {WORKERS} workers", f"at {STEADY_PER_S} a second"
    here = rates["headgate"]
    figures = [Figure.of_rounds(work, here, "commits/s", "an append alone", rates["append"])]
    figures += [Figure.of_rounds(work, here, "commits/s", peer, rates[peer]) for peer in peers]
    for key, text, others in (
        ("headgate", work, ["append", *peers]),
        ("headgate, steady", f"{work}, {steady}", [f"{peer}, steady" for peer in peers]),
    ):
        for at, name in enumerate(("p50", "p99")):
            ours = p50_p99(times[key])[at]
            for other in others:
                theirs = p50_p99(times[other])[at]
                peer = "an append alone" if other == "append" else other.partition(",")[0]
                figures.append(Figure(f"{name} of {text}", ours, "ms", peer, theirs))
    return figures
