"""Clients of a gateway with workers: each knows which worker has its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.conditions import WITHIN_S, eventually, moment
from tests.processes.gateway import Gateway
from tests.processes.wire import Wire
from tests.system_sockets import system_sockets

TRIES_MAX = 500
"""A worker that was started anew takes connections a few seconds later."""

TWO: Mapping[str, object] = {"workers": 2, "open_metrics": True}
WORKERS = ("worker 1", "worker 2")


@asynccontextmanager
async def client_of(gateway: Gateway, worker: str | None = None) -> AsyncIterator[Wire]:
    """Yield a connection, with one worker if it is named."""
    others: list[Wire] = []  # kept meanwhile, so that their worker is not tried for ever
    client = await Wire.open(gateway.url)
    try:
        while worker is not None and await worker_of(gateway, client) != worker:
            others.append(client)
            assert len(others) < TRIES_MAX, f"{worker} takes no connection"
            await moment()
            client = await Wire.open(gateway.url)
        for other in others:
            other.close()
        others.clear()
        yield client
    finally:
        for each in (client, *others):
            each.close()


async def worker_of(gateway: Gateway, client: Wire) -> str:
    """Return the name of the worker that has a connection."""
    server_port = urlsplit(gateway.url).port
    async with asyncio.timeout(WITHIN_S):
        while True:  # until it is accepted
            inode = _inode(server_port or 0, client.port)
            for name, process_id in gateway.process_ids().items():
                if inode is not None and f"socket:[{inode}]" in _descriptors(process_id):
                    return name
            await moment()


def _inode(*ports: int) -> int | None:
    return next((each.inode for each in system_sockets() if each[:2] == ports), None)


def _descriptors(process_id: int) -> set[str]:
    links = set()
    folder = Path(f"/proc/{process_id}/fd")
    with suppress(OSError):
        for each in folder.iterdir():
            with suppress(OSError):
                links.add(str(each.readlink()))
    return links


async def until_waiting(gateway: Gateway) -> None:
    """Return once a read is blocked."""
    async with client_of(gateway) as client:

        async def is_blocked() -> bool:
            return b"headgate_waiters 1.0" in (await client.ask("GET", "/metrics")).content

        await eventually(is_blocked, bool)
