"""The cost of idle subscriptions: memory for each of many sockets, and CPU."""

import asyncio
import json
import resource
import time

from websockets.asyncio.client import ClientConnection, connect

from tests.bench.figures import Figure
from tests.bench.load import Load, post
from tests.bench.servers import cpu_s, resident_bytes, serving_process

SOCKETS = 5_000
AT_ONCE = 100
QUIET_S = 5.0


async def measure() -> list[Figure]:
    """Return memory and CPU of idle WebSocket subscriptions, all to one stream."""
    allow_files(2 * SOCKETS + 1000)
    with serving_process("headgate") as (port, process_id):
        entry = post("/v1/streams/idle/entries", b'{"fields":{"a":"b"}}')
        await Load("127.0.0.1", port, entry, connections=1).per_second(0.2)
        before = resident_bytes(process_id)
        sockets = await _connected(port, 100)
        warm = resident_bytes(process_id)
        print(f"idle: {SOCKETS} sockets", flush=True)
        sockets += await _connected(port, SOCKETS - 100)
        after = resident_bytes(process_id)
        before_s = cpu_s(process_id)
        await asyncio.sleep(QUIET_S)
        busy = (cpu_s(process_id) - before_s) / QUIET_S
        delivered_s = await _delivered_s(port, sockets)
        await asyncio.gather(*(socket.close() for socket in sockets))
    print(f"idle: {before / 2**20:.0f} MiB before, {after / 2**20:.0f} MiB with all", flush=True)
    each = (after - warm) / (SOCKETS - 100)
    return [
        Figure(f"idle WebSocket subscription, {SOCKETS} open", each / 1024, "KiB", at_most=30),
        Figure("CPU while nothing comes", busy * 100, "% of a core"),
        Figure("one append until the last of them has it", delivered_s * 1000, "ms"),
    ]


async def _connected(port: int, count: int) -> list[ClientConnection]:
    room = asyncio.Semaphore(AT_ONCE)

    async def connected() -> ClientConnection:
        async with room:
            socket = await connect(
                f"ws://127.0.0.1:{port}/v1/streams/idle/ws",
                ping_interval=None,
                compression=None,
                open_timeout=60,
            )
            kinds = [json.loads(await socket.recv())["type"] for _ in range(2)]
            assert kinds == ["welcome", "subscribed"], kinds
            assert json.loads(await socket.recv())["type"] == "state"
            return socket

    return await asyncio.gather(*(connected() for _ in range(count)))


async def _delivered_s(port: int, sockets: list[ClientConnection]) -> float:
    """Return the delay from an append to the last socket."""
    receiving = [asyncio.create_task(socket.recv()) for socket in sockets]
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(post("/v1/streams/idle/entries", b'{"fields":{"a":"b"}}'))
    await asyncio.gather(*receiving)
    elapsed_s = time.perf_counter() - started
    await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return elapsed_s


def allow_files(count: int) -> None:
    """Let this process and those that it starts have so many open files, if the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, count), hard), hard))
