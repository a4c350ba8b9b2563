"""Presence: a long poll lasts as long as its client is there, an answer as its credential."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from headgate.app.http.dependencies import access_of, gateway_of

T = TypeVar("T")


async def while_present(
    request: Request,
    reading: Coroutine[Any, Any, T],
    give_back: Callable[[T], Awaitable[object]] | None = None,
) -> T:
    """Return the result of `reading`, or stop it as soon as the client or its credential is gone.

    Args:
        request: whose client is meant; its body has been read.
        reading: a blocked read.
        give_back: what to do with the reply of a read that ended as the client left.

    Raises:
        ClientDisconnect: nobody is there to be answered.
        Unauthenticated: the credential has ended.
    """
    request.scope["waits"] = True  # how long it takes says nothing of the gateway
    read = asyncio.ensure_future(reading)
    gone = asyncio.ensure_future(_wait_gone(request))
    principal = access_of(request).principal
    forget = gateway_of(request).auth.at_end(principal, gone.cancel)
    try:
        await asyncio.wait({read, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            return await read
        if read.done() and give_back is not None and read.exception() is None:
            await give_back(read.result())
        principal.check_valid()
        raise ClientDisconnect
    finally:
        forget()
        read.cancel()
        gone.cancel()
        await asyncio.gather(read, gone, return_exceptions=True)
        del read  # what it raised knows this frame


async def _wait_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def while_valid(
    request: Request, parts: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a long answer, and let the credential end in time meanwhile."""
    with gateway_of(request).auth.watching(access_of(request).principal):
        async with aclosing(parts):
            async for part in parts:
                yield part
