"""Asking: one connection to one server, for a diagnosis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.exceptions import RedisError, ResponseError

from headgate.app.backends.redis.address import Address, Servers
from headgate.app.backends.redis.faults import NotSent
from headgate.app.backends.redis.features import Ask
from headgate.app.backends.redis.node import connection_to


@asynccontextmanager
async def asking(
    servers: Servers, address: Address, timeout_s: float, protocol: int = 2
) -> AsyncIterator[Ask]:
    """Connect to a server; yields what sends it commands.

    Args:
        servers: how connections are made.
        address: the server.
        timeout_s: how long each answer may take, in seconds.
        protocol: the version of RESP.

    Raises:
        NotSent: it does not answer, or refuses the connection.
    """
    connection = connection_to(servers, address, protocol=protocol, timeout_s=timeout_s)

    async def ask(*words: bytes | str | int) -> Any:
        async with asyncio.timeout(timeout_s):
            await connection.send_command(*words, check_health=False)
            return await connection.read_response()

    try:
        async with asyncio.timeout(timeout_s):
            await connection.connect()  # type: ignore[no-untyped-call]
        yield ask
    except ResponseError as error:
        raise NotSent(f"{address}: {error}") from None
    except (OSError, RedisError, TimeoutError) as error:
        raise NotSent(f"{address}: {str(error) or type(error).__name__}") from None
    finally:
        with suppress(OSError, RedisError):
            await connection.disconnect(nowait=True)
