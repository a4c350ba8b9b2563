"""The port for Redis clients, side by side with a Redis server, Webdis and our HTTP."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from hiredis import Reader

from deploy.local_cluster.server import free_ports
from tests.bench import peers
from tests.bench.figures import Figure
from tests.bench.gateway import SINGLE, XADD
from tests.bench.load import Load
from tests.bench.servers import cpu_s, serving_process

ROUNDS = 5
SECONDS = 1.5
CONNECTIONS = 50
PIPELINES = {1: 30_000, 16: 150_000, 64: 300_000, 256: 300_000}
"""Commands sent at once, and how many a round has."""

STREAM_ENTRIES = 10_000
READ = 10
"""Entries of one read."""

_RATE = re.compile(rb"([0-9.]+) requests per second")
_VALUES = ("temp", "39", "hum", "71", "site", "s1")

Rates = defaultdict[str, list[float]]


class _Server(NamedTuple):
    port: int
    process_id: int


async def measure() -> list[Figure]:
    """Return the figures of the port, of rounds in which the servers take turns."""
    rates: Rates = defaultdict(list)
    with _places() as (ours, http_port, redis, webdis_port):
        for number in range(ROUNDS):
            print(f"resp: round {number + 1} of {ROUNDS}", flush=True)
            for name, server in {"ours": ours, "redis": redis}.items():
                await _round(rates, name, server)
            for name, port, request in (("http", http_port, SINGLE), ("webdis", webdis_port, XADD)):
                if port is not None:
                    load = Load("127.0.0.1", port, request, connections=CONNECTIONS)
                    rates[name].append(await load.per_second(SECONDS))
    return _figures(rates)


async def _round(rates: Rates, name: str, server: _Server) -> None:
    for depth, count in PIPELINES.items():
        used_s = cpu_s(server.process_id)
        xadd = ("XADD", "bench", "*", *_VALUES)
        rates[f"{name} -P {depth}"].append(await _benchmark(server.port, depth, count, *xadd))
        used_s = cpu_s(server.process_id) - used_s
        rates[f"{name} µs -P {depth}"].append(used_s / count * 1e6)
    client = await RespClient.open(server.port)
    await client.fill("few", READ)
    xrange = ("XRANGE", "few", "-", "+")
    rates[f"{name} xrange"].append(await _benchmark(server.port, 16, 30_000, *xrange))
    rates[f"{name} group"].append(await client.work_off(STREAM_ENTRIES))
    await client.close()


async def _benchmark(port: int, depth: int, count: int, *command: str) -> float:
    """Return how many commands a second redis-benchmark gets answered."""
    flags = ["-p", str(port), "-P", str(depth), "-c", str(CONNECTIONS), "-n", str(count), "-q"]
    process = await asyncio.create_subprocess_exec(
        "redis-benchmark",
        *flags,
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    return float(_RATE.findall(output)[-1])


class RespClient:
    """A connection that sends pipelines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer, self._parser = reader, writer, Reader()

    @classmethod
    async def open(cls, port: int) -> "RespClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, commands: list[bytes]) -> list[object]:
        """Return the replies to a pipeline."""
        self._writer.write(b"".join(commands))
        replies: list[object] = []
        while len(replies) < len(commands):
            reply = self._parser.gets()
            if reply is False:
                self._parser.feed(await self._reader.read(2**18))
            else:
                assert not isinstance(reply, Exception), reply
                replies.append(reply)
        return replies

    async def fill(self, stream: str, count: int) -> None:
        """Make a stream of so many entries, and a group that has read nothing."""
        await self.ask([command("DEL", stream)])
        for _ in range(0, count, READ):
            await self.ask([command("XADD", stream, "*", *_VALUES)] * READ)
        await self.ask([command("XGROUP", "CREATE", stream, "g", "0")])

    async def work_off(self, count: int) -> float:
        """Return how many entries a second one consumer reads and acknowledges.

        Each pipeline acknowledges what the one before has read, and reads sixteen times.
        """
        await self.fill("work", count)
        loop = asyncio.get_running_loop()
        read = command("XREADGROUP", "GROUP", "g", "c", "COUNT", str(READ), "STREAMS", "work", ">")
        began_s, done, acks = loop.time(), 0, list[bytes]()
        while done < count:
            replies = await self.ask([*acks, *[read] * 16])
            acks = []
            for reply in replies[-16:]:
                if isinstance(reply, list):
                    ids = [entry_id for entry_id, _ in reply[0][1]]
                    acks.append(command("XACK", "work", "g", *ids))
                    done += len(ids)
        await self.ask(acks)
        return done / (loop.time() - began_s)


def command(*words: str | bytes) -> bytes:
    encoded = [word.encode() if isinstance(word, str) else word for word in words]
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


@contextmanager
def _places() -> Iterator[tuple[_Server, int, _Server, int | None]]:
    with ExitStack() as servers:
        redis = servers.enter_context(peers.redis())
        assert redis is not None, "redis-server is missing"
        redis.run([b"CONFIG", b"SET", b"appendonly", b"yes", b"appendfsync", b"everysec"])
        [redis_port] = free_ports(1)
        http_port, process_id = servers.enter_context(
            serving_process("headgate", redis_port=redis_port)
        )
        webdis_port = servers.enter_context(peers.webdis(redis))
        ours = _Server(redis_port, process_id)
        yield ours, http_port, _Server(redis.port, peers.process_id(redis)), webdis_port


def _figures(rates: Rates) -> list[Figure]:
    rounds, unit = Figure.of_rounds, "commands/s"
    figures = []
    for depth in PIPELINES:
        targets: dict[str, float] = {}
        if depth == 1:
            targets = {"at_least": 25e3}
        elif depth == 64:
            targets = {"at_least": 150e3, "ratio_at_least": 0.3}
        work = f"XADD, -P {depth}, {CONNECTIONS} connections"
        ours, theirs = rates[f"ours -P {depth}"], rates[f"redis -P {depth}"]
        figures.append(rounds(work, ours, unit, "redis-server", theirs, **targets))
        ours_us, theirs_us = rates[f"ours µs -P {depth}"], rates[f"redis µs -P {depth}"]
        figures.append(rounds(f"CPU of {work}", ours_us, "µs", "redis-server", theirs_us))
    single = f"XADD, -P 1, {CONNECTIONS} connections"
    target = {"ratio_at_least": 1.5}
    return [
        *figures,
        rounds(single, rates["ours -P 1"], unit, "our append over HTTP", rates["http"], **target),
        rounds(single, rates["ours -P 1"], unit, "Webdis, XADD", rates["webdis"]),
        rounds(
            f"XRANGE of {READ} entries, -P 16, {CONNECTIONS} connections",
            rates["ours xrange"], unit, "redis-server", rates["redis xrange"],
        ),
        rounds(
            f"XREADGROUP COUNT {READ} and XACK, 16 at once, one connection",
            rates["ours group"], "entries/s", "redis-server", rates["redis group"],
        ),
    ]  # fmt: skip
