"""Transaction: requests that one server carries out with nothing in between (MULTI, EXEC).

1. Perform each request with a client that holds its commands back.
2. When each request waits for its replies, send the commands of all together.
3. Give each request its replies. What has more to read then, reads it; what has more to change
   fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.node import Words
from headgate.engine.errors import Invalid, SeveralSlots, StreamError
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import IfUnchanged

Perform = Callable[[Client, Request[Any]], Coroutine[Any, Any, Any]]

_TOO_MUCH = "this changes too much for a transaction: run it by itself"


class _Held(NamedTuple):
    """Commands that are held back, and the future of their replies."""

    slot: int
    commands: Sequence[Words]
    replies: asyncio.Future[list[Any]]


class _Step:
    """One request of a transaction."""

    def __init__(self, perform: Perform, client: Client, request: Request[Any]) -> None:
        self.held: list[_Held] = []
        self._send = client.send
        self._holds = asyncio.get_running_loop().create_future()
        self._is_sent = False
        self.task = asyncio.create_task(self._run(perform, client, request))

    async def _run(self, perform: Perform, client: Client, request: Request[Any]) -> Any:
        stream, group = getattr(request, "stream", b""), getattr(request, "group", b"")
        try:
            with as_stream_errors(stream, group):
                return await perform(client.sending(self._hold), request)
        except StreamError as error:
            return error.with_traceback(None)  # or its frames lead back to it

    async def _hold(
        self, slot: int, make: Callable[[], Sequence[Words]], changes: bool
    ) -> list[Any]:
        if self._is_sent:
            if changes:
                raise Invalid(_TOO_MUCH)
            return await self._send(slot, make, changes)
        replies: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.held.append(_Held(slot, make(), replies))
        if not self._holds.done():
            self._holds.set_result(None)
        return await replies

    async def until_held(self) -> None:
        """Wait until the request has an outcome, or waits for replies."""
        await asyncio.wait({self.task, self._holds}, return_when=asyncio.FIRST_COMPLETED)

    def send(self) -> list[_Held]:
        """Return the held commands; from now on no more are taken."""
        self._is_sent = True
        return self.held


async def perform_together(
    client: Client, perform: Perform, requests: Sequence[Request[Any]]
) -> list[Any | StreamError]:
    """Carry out requests with nothing in between; return their replies or errors.

    Args:
        client: sends the commands.
        perform: performs one request with a client, and does not wait.
        requests: the requests, for streams of one slot. The first may be a condition.

    Raises:
        StreamsChanged: the condition does not hold.
        SeveralSlots: the streams are in several slots of a cluster.
        StreamError: the server carried out none of the requests.
    """
    with as_stream_errors(b""):
        await client.known()
    condition = requests[0] if requests and isinstance(requests[0], IfUnchanged) else None
    if condition is not None:
        requests = requests[1:]
    steps = [_Step(perform, client, request) for request in requests]
    try:
        for step in steps:
            await step.until_held()
        held = [each for step in steps for each in step.send()]
        slots = [each.slot for each in held]
        if condition is not None:
            slots += [client.names.of(stream).slot for stream in condition.streams]
        if client.is_cluster and len(set(slots)) > 1:
            raise SeveralSlots("transactions")
        if slots:
            with as_stream_errors(b""):
                replies = await client.transact(
                    slots[0],
                    lambda: [words for each in held for words in each.commands],
                    condition,
                )
            _give_out(held, replies)
        outcomes = [await step.task for step in steps]
        return outcomes if condition is None else [None, *outcomes]
    finally:
        for step in steps:
            step.task.cancel()


def _give_out(held: Sequence[_Held], replies: Sequence[Any]) -> None:
    at = 0
    for each in held:
        end = at + len(each.commands)
        each.replies.set_result(list(replies[at:end]))
        at = end
