"""Served: a gateway in its own process, which stands whatever it is sent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path

from tests.fuzz import rounds
from tests.processes.gateway import Gateway
from tests.processes.wire import Wire, connected

AT_ONCE = 4
GROWTH_BYTES_MAX = 24 * 2**20
"""Of a minute or an hour: what leaks grows on. The allocator takes some in the first rounds."""

HEALTH_S_MAX = 60.0
ANSWER_S_MAX = 0.2
"""Time to read on without data: half a request has no answer."""

_BAD_STATUS = re.compile(rb"HTTP/1\.1 5\d\d[^\r]*")

Attack = Callable[[Gateway, int], Awaitable[None]]


@asynccontextmanager
async def gateway(data_dir: Path, **more: object) -> AsyncIterator[Gateway]:
    """Run a gateway with a stream, a group and a short patience."""
    settings = {"log_level": "warning", "fsync": "no", "request_ms_max": 2000, "wait_ms_max": 100}
    started = await Gateway.start(data_dir, {**settings, **more})
    try:
        await _begin_anew(started)
        yield started
        await started.stop()
    finally:
        await started.kill()


async def withstand(gateway: Gateway, attack: Attack, count: int) -> None:
    """Attack so often, or for as long as there is time.

    Others are served meanwhile, nothing is logged as an error, and memory does not grow.
    """
    done, before_bytes = 0, 0
    for seeds in batched(rounds.seeds(count), AT_ONCE):
        await asyncio.gather(*(_reporting_seed(attack, gateway, seed) for seed in seeds))
        await _is_well(gateway)
        done += len(seeds)
        if done % (25 * AT_ONCE) == 0:
            await _begin_anew(gateway)
            before_bytes = before_bytes or gateway.memory_bytes()
    await _begin_anew(gateway)
    assert not before_bytes or gateway.memory_bytes() - before_bytes < GROWTH_BYTES_MAX
    assert gateway.complaints() == []


def batched(seeds: Iterator[int], size: int) -> Iterator[list[int]]:
    while batch := list(islice(seeds, size)):
        yield batch


async def _reporting_seed(attack: Attack, gateway: Gateway, seed: int) -> None:
    with rounds.reporting_seed(seed):
        await attack(gateway, seed)


async def exchanged(
    url: str, sent: bytes, then: bytes = b"", *, leaves_at_once: bool = False
) -> bytes:
    """Return the answer to some bytes before the gateway closes, or says no more.

    Args:
        url: of the gateway.
        sent: what is said first.
        then: what is said once something was answered.
        leaves_at_once: do not wait for the end of the answer.
    """
    reader, writer = await asyncio.open_connection(sock=await connected(url))
    answer = b""
    writer.write(sent)
    with suppress(TimeoutError, ConnectionError):
        while True:
            async with asyncio.timeout(ANSWER_S_MAX):
                part = await reader.read(2**18)
            if not part:
                break
            answer += part
            if then:
                writer.write(then)
                then = b""
            if leaves_at_once:
                break
    writer.transport.abort()
    bad = _BAD_STATUS.search(answer)
    assert bad is None, answer[bad.start() : bad.start() + 1000]
    return answer


async def _is_well(gateway: Gateway) -> None:
    async with asyncio.timeout(HEALTH_S_MAX):
        wire = await Wire.open(gateway.url)
        assert await wire.request("GET", "/healthz") == {"status": "ok"}
        wire.close()


async def _begin_anew(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.url)
    await wire.request("POST", "/v1/commands", ["FLUSHALL"])
    await wire.request("POST", "/v1/streams/s/entries", {"fields": {"v": "1"}})
    await wire.request("PUT", "/v1/streams/s/groups/g", {"start": "0"})
    wire.close()
