"""Redelivery: from a consumer's end to its entry at the next one, who is waiting already."""

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.bench.figures import Figure
from tests.bench.servers import serving
from tests.processes.raw_socket import RawSocket
from tests.processes.wire import AT_ONCE, Wire, connected

TRIES = 200
SILENT_TRIES = 20
PING_MS = 500
"""Interval between pings of a socket, and time for its answer; by default 20 s and 10 s."""

AT_MOST_MS = 100.0
GROUP = "/v1/streams/jobs/groups/workers"

End = Callable[[], Awaitable[None]]
"""The end of a consumer."""

Hold = Callable[[int], Awaitable[tuple[str, End, End]]]
"""Makes a consumer that is given the one entry; returns its id, and how to close and to kill."""


async def measure() -> list[Figure]:
    """Return the middle and the worst of many tries, by transport and by how the consumer ends."""
    figures = []
    with serving("headgate", fsync="always") as port:
        control = await Wire.open(f"http://127.0.0.1:{port}")
        await control.request("PUT", GROUP, {"start": "0", "create_stream": True})
        for transport, hold in (("events", _hold_by_events), ("WebSocket", hold_by_socket)):
            for ending, is_killed in (("connection closed", False), ("process killed (RST)", True)):
                print(f"redelivery: {transport}, {ending}", flush=True)
                took = [
                    await redelivery_ms(control, port, hold, is_killed=is_killed)
                    for _ in range(TRIES)
                ]
                p99 = statistics.quantiles(took, n=100)[98]
                for name, value in (("p50", statistics.median(took)), ("p99", p99)):
                    work = f"{transport}, {ending}, {name} of {TRIES}"
                    figures.append(Figure(work, value, "ms", at_most=AT_MOST_MS))
        control.close()
    return figures + await _measure_silence()


async def _measure_silence() -> list[Figure]:
    """Return the same for sockets that are open, and answer no ping any more."""
    print("redelivery: WebSocket, gone silent", flush=True)
    pings = {"ping_interval_ms": PING_MS, "pong_wait_ms": PING_MS}
    with serving("headgate", "always", **pings) as port:
        control = await Wire.open(f"http://127.0.0.1:{port}")
        await control.request("PUT", GROUP, {"start": "0", "create_stream": True})
        took = [await _try_silence(control, port) for _ in range(SILENT_TRIES)]
        control.close()
    noticed, in_all = (statistics.median(each) for each in zip(*took, strict=True))
    work = f"WebSocket, gone silent, %s, p50 of {SILENT_TRIES}"
    pinged = f"in all (pinged every {PING_MS} ms, {PING_MS} ms to answer)"
    return [
        Figure(work % "once noticed", noticed, "ms", at_most=AT_MOST_MS),
        Figure(work % pinged, in_all, "ms", at_most=2 * PING_MS + AT_MOST_MS),
    ]


async def redelivery_ms(
    control: Wire, port: int, hold: Hold, *, is_killed: bool, next_port: int | None = None
) -> float:
    """Return how many milliseconds an entry takes from one consumer to the next.

    Args:
        control: appends the entry.
        port: the gateway of the consumer that ends.
        hold: makes that consumer.
        is_killed: whether it is killed, or closes its connection.
        next_port: the gateway of the next consumer, if it is another one.
    """
    await control.request("POST", "/v1/streams/jobs/entries", {"fields": {"job": "1"}})
    entry_id, close, kill = await hold(port)
    async with connect(_socket_url(next_port or port, "next")) as waiting:
        frame = await _frame(waiting, "state")
        assert frame["state"] == "caught_up", frame
        started = time.perf_counter()
        await (kill if is_killed else close)()
        frame = await _frame(waiting, "entries")
        took_ms = (time.perf_counter() - started) * 1000
        assert [entry["id"] for entry in frame["entries"]] == [entry_id]
        await waiting.send(json.dumps({"type": "ack", "rid": "a", "ids": [entry_id]}))
        await _frame(waiting, "acked")
    return took_ms


async def _try_silence(control: Wire, port: int) -> tuple[float, float]:
    """Return the ms until a redelivery, from the gateway's giving up and from the silence."""
    await control.request("POST", "/v1/streams/jobs/entries", {"fields": {"job": "1"}})
    end = await connected(f"http://127.0.0.1:{port}")
    silent = await RawSocket.open(end, f"{GROUP}/ws?consumer=first")
    [entry] = (await silent.next("entries"))["entries"]
    async with connect(_socket_url(port, "next")) as waiting:
        await _frame(waiting, "state")
        started = time.perf_counter()
        noticing = asyncio.create_task(_given_up_at(silent))
        frame = await _frame(waiting, "entries")
        arrived = time.perf_counter()
        assert [entry["id"] for entry in frame["entries"]] == [entry["id"]]
        await waiting.send(json.dumps({"type": "ack", "rid": "a", "ids": [entry["id"]]}))
        await _frame(waiting, "acked")
        noticed = await noticing
    silent.close()
    return (arrived - noticed) * 1000, (arrived - started) * 1000


async def _given_up_at(silent: RawSocket) -> float:
    assert await silent.close_code() == 1011
    return time.perf_counter()


async def hold_by_socket(port: int) -> tuple[str, End, End]:
    """Make a consumer on a WebSocket."""
    socket = await connect(_socket_url(port, "first"))
    frame = await _frame(socket, "entries")

    async def close() -> None:
        socket.transport.close()

    async def kill() -> None:
        end = socket.transport.get_extra_info("socket")
        end.setsockopt(SOL_SOCKET, SO_LINGER, AT_ONCE)
        socket.transport.abort()

    [entry] = frame["entries"]
    return entry["id"], close, kill


async def _hold_by_events(port: int) -> tuple[str, End, End]:
    wire = await Wire.open(f"http://127.0.0.1:{port}")
    await wire.send("GET", f"{GROUP}/events?consumer=first")

    async def close() -> None:
        wire.close()

    async def kill() -> None:
        wire.drop()

    async for events in wire.events():
        for kind, entry in events:
            if kind == "entry":
                return entry["id"], close, kill
    raise EOFError


def _socket_url(port: int, consumer: str) -> str:
    return f"ws://127.0.0.1:{port}{GROUP}/ws?consumer={consumer}"


async def _frame(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """Return the next frame of this type."""
    async for text in socket:
        frame: dict[str, Any] = json.loads(text)
        if frame["type"] == kind:
            return frame
    raise EOFError
