"""Listening sockets of servers in a test's own loop."""

import asyncio

_TURNS = 3
"""One accepts, one makes the transport, one tells the protocol."""


async def accepted() -> None:
    """Wait until what has connected so far is accepted.

    asyncio drops a connection that it has accepted when its server closes before the transport is
    made: the socket stays open until it is collected as garbage, with a warning, in another test.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)
