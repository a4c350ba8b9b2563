"""Workers with all their sockets in use: siblings serve new clients, as long as one has room."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from headgate.app.transport.sockets import FILES_RESERVED
from tests.conditions import WITHIN_S, eventually, until
from tests.processes.gateway import Gateway
from tests.processes.wire import Wire
from tests.workers.clients import TWO, WORKERS, client_of, worker_of

EACH_MAX = 32
"""Connections of a worker: the system lets it open so many files."""

TURNS = 10


class Callers:
    """The connections of a test; all end with it."""

    def __init__(self, gateway: Gateway, stack: AsyncExitStack) -> None:
        self.gateway = gateway
        self._stack = stack

    async def come(self, count: int, *, to_redis: bool = False) -> list[Wire]:
        """Return so many connections; the gateway need not have accepted them."""
        place = self.gateway.redis_url if to_redis else self.gateway.url
        clients = []
        for _ in range(count):
            clients.append(await Wire.open(place))
            self._stack.callback(clients[-1].close)
        return clients


@pytest.fixture
async def callers(tmp_path: Path) -> AsyncIterator[Callers]:
    settings = {**TWO, "redis_port": 0}
    gateway = await Gateway.start(tmp_path, settings, files_max=FILES_RESERVED + EACH_MAX)
    await until_workers_know_each_other(gateway)
    async with AsyncExitStack() as stack:
        yield Callers(gateway, stack)
    await gateway.stop()


async def until_workers_know_each_other(gateway: Gateway) -> None:
    """Wait for two samples of all workers: between them a worker says twenty times what it has."""
    async with client_of(gateway) as client:

        async def have_said_it() -> bool:
            history = await client.ask("GET", "/v1/admin/history")
            return history.status == 200 and len(history.value["times_ms"]) > 1

        await eventually(have_said_it, bool)


async def is_served(client: Wire) -> bool:
    """Tell whether a request is answered; waits until it is, or is refused."""
    try:
        async with asyncio.timeout(WITHIN_S):
            return (await client.ask("GET", "/healthz")).status == 200
    except (EOFError, OSError):
        return False


async def is_served_as_redis(client: Wire) -> bool:
    """Likewise, at the port for Redis clients."""
    client.writer.write(b"PING\r\n")
    try:
        async with asyncio.timeout(WITHIN_S):
            return await client.reader.readuntil(b"\r\n") == b"+PONG\r\n"
    except (EOFError, OSError):
        return False


async def are_served(clients: Sequence[Wire]) -> bool:
    return all(await asyncio.gather(*map(is_served, clients)))


@contextmanager
def stopped(gateway: Gateway, worker: str) -> Iterator[None]:
    """Let a worker accept nothing meanwhile. To its siblings it is there, and has room."""
    process_id = gateway.process_ids()[worker]
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # the test has killed it
            os.kill(process_id, signal.SIGCONT)


async def until_done(serving: Sequence[asyncio.Task[bool]], count: int) -> None:
    await until(lambda: sum(each.done() for each in serving) >= count, WITHIN_S)


def refusals(gateway: Gateway) -> list[str]:
    return [line for line in gateway.log_lines if "too many connections" in line]


async def test_a_full_worker_leaves_connections_to_a_sibling(callers: Callers) -> None:
    gateway = callers.gateway
    with stopped(gateway, WORKERS[1]):
        clients = await callers.come(EACH_MAX)
        others = await callers.come(8, to_redis=True)
        serving = [asyncio.create_task(is_served(each)) for each in clients]
        serving += [asyncio.create_task(is_served_as_redis(each)) for each in others]
        await until_done(serving, EACH_MAX)
        served = [client for client, task in zip(clients, serving, strict=False) if task.done()]
        for _ in range(TURNS):  # meanwhile it would accept more
            assert await is_served(served[0])
        assert sum(each.done() for each in serving) <= EACH_MAX + 1  # one more at the other port
    assert all(await asyncio.gather(*serving))
    assert refusals(gateway) == []


async def test_a_full_worker_accepts_again_when_some_have_left(callers: Callers) -> None:
    gateway = callers.gateway
    with stopped(gateway, WORKERS[1]):
        clients = await callers.come(EACH_MAX + 8)
        serving = [asyncio.create_task(is_served(each)) for each in clients]
        await until_done(serving, EACH_MAX)
    assert all(await asyncio.gather(*serving))
    clients[0].writer.transport.abort()
    with stopped(gateway, WORKERS[1]):
        [late] = await callers.come(1)
        assert await is_served(late)
        assert await worker_of(gateway, late) == WORKERS[0]
    assert refusals(gateway) == []


async def test_a_connection_is_closed_at_once_when_all_workers_are_full(callers: Callers) -> None:
    gateway = callers.gateway
    clients = await callers.come(EACH_MAX)
    others = await callers.come(EACH_MAX, to_redis=True)
    assert await are_served(clients)
    assert all(await asyncio.gather(*map(is_served_as_redis, others)))
    for _ in range(TURNS):
        [late] = await callers.come(1)
        assert not await is_served(late)
        [late] = await callers.come(1, to_redis=True)
        assert not await is_served_as_redis(late)
    assert 1 <= len(refusals(gateway)) <= len(WORKERS)

    clients[0].writer.transport.abort()
    async with asyncio.timeout(WITHIN_S):
        while not await is_served((await callers.come(1))[0]):
            pass


async def test_a_full_worker_does_not_wait_for_a_sibling_that_ends(callers: Callers) -> None:
    gateway = callers.gateway
    with stopped(gateway, WORKERS[1]):
        clients = await callers.come(EACH_MAX + 8)
        serving = [asyncio.create_task(is_served(each)) for each in clients]
        await until_done(serving, EACH_MAX)
        os.kill(gateway.process_ids()[WORKERS[1]], signal.SIGKILL)
        await until_done(serving, EACH_MAX + 8)
