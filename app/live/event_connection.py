"""Event connection: a stream of events, as the list of connections has it and as it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager

from fastapi import Request

from headgate.app.auth.access import Access
from headgate.app.auth.usage import Usage
from headgate.app.gateway.gateway import Gateway
from headgate.app.live.followed import Followed
from headgate.app.live.subscription import Subscription
from headgate.app.runtime.connections import OpenConnection
from headgate.app.transport.exchange import unsent_bytes
from headgate.app.transport.proxies import client_address
from headgate.app.transport.scopes import path_of, request_id_of
from headgate.app.wire.events import event
from headgate.app.wire.problems import GatewayError, problem_of
from headgate.app.wire.schemas.operations import Draining
from headgate.engine import errors
from headgate.engine.errors import StreamError

EVENT_STREAM_TYPE = "text/event-stream"


class EventConnection:
    def __init__(
        self,
        gateway: Gateway,
        request: Request,
        access: Access,
        subscription: Subscription | None = None,
    ) -> None:
        """Without `subscription` it follows the history of the gateway."""
        self._gateway = gateway
        self._request = request
        self._principal = access.principal
        self._subscription = subscription
        self._id = f"{gateway.random.getrandbits(64):016x}"
        self._since_ms = gateway.auth.now_ms()
        self._ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.sent_entries = 0

    @contextmanager
    def listed(self) -> Iterator[None]:
        with self._gateway.metrics.connection("sse"):
            self._gateway.connections.add(self._id, self)
            try:
                yield
            finally:
                self._gateway.connections.remove(self._id)

    async def events(
        self, first: bytes, usage: Usage, encoded: Callable[[Followed], Awaitable[bytes]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield a first event, and what the items of the subscription are encoded to."""
        assert self._subscription is not None
        with self.listed():
            try:
                with usage.connections.held(), usage.subscriptions.held():
                    yield first
                    coming = self._subscription.follow(until=self.wait_end)
                    async with aclosing(coming):
                        async for item in coming:
                            part = await encoded(item)
                            if part:
                                yield part
            except (StreamError, GatewayError) as error:
                yield self.last_event(error)

    async def wait_end(self) -> None:
        """Return when the connection must end. See `Gateway.wait_connection_end`."""
        await self._gateway.wait_connection_end(self._principal, self._ended)

    def describe(self, subscriptions_max: int) -> OpenConnection:
        followed = [] if self._subscription is None else [self._subscription.describe()]
        return OpenConnection(
            self._id,
            "events",
            client_address(self._request.scope),
            self._principal.id,
            self._since_ms,
            unsent_bytes(self._request.receive),
            self.sent_entries,
            len(followed),
            followed[:subscriptions_max],
        )

    def cut_off(self) -> None:
        if not self._ended.done():
            self._ended.set_result(True)

    def last_event(self, error: StreamError | GatewayError) -> bytes:
        if isinstance(error, errors.Draining):
            return event(
                "draining", Draining(reconnect_after_ms=self._gateway.reconnect_after_ms())
            )
        problem = problem_of(error, path_of(self._request.scope))
        problem.request_id = request_id_of(self._request.scope)
        return event("problem", problem)


def check_is_asked_for(request: Request) -> None:
    """Refuse requests that a page of another site may have made the browser send.

    On a plain address that is not loopback, a browser sends neither `Origin` nor `Sec-Fetch-Site`
    with what a page embeds or fetches with `no-cors`. An image cannot ask for events. A script can,
    but it cannot claim to be a page of ours.
    """
    sent = request.headers
    types = sent.get("accept", "").lower().split(",")
    if EVENT_STREAM_TYPE not in (media_type.partition(";")[0].strip() for media_type in types):
        text = "this operation delivers entries: send the header Accept: text/event-stream"
        raise GatewayError("not_acceptable", text, pointer="/header/Accept")
    if (
        "origin" in sent
        or "sec-fetch-site" in sent
        or "mozilla/" not in sent.get("user-agent", "").lower()
    ):
        return
    page = sent.get("referer", "").lower().partition("://")[2].partition("/")[0]
    if page != sent.get("host", "").lower():
        text = "The browser does not confirm that a page of this gateway sent the request."
        raise GatewayError("origin_refused", text, pointer="/header/Referer")
