"""Channel: messages that are not stored, and who is present."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

from headgate.client.calls import Calls, segment
from headgate.client.live import Live
from headgate.client.shapes.answers import Members
from headgate.client.stream import OnState, until_ready
from headgate.client.subscription import Subscription


class Message(NamedTuple):
    """A message of a channel."""

    channel: str
    data: Any
    dropped: int  # earlier messages that this program was too slow to read


class Messages:
    """The messages of a channel as they arrive: an iterator, and a context manager that ends it."""

    def __init__(self, live: Live, wanted: Mapping[str, Any], on_state: OnState | None) -> None:
        """See `Channel.subscribe`."""
        self._live = live
        self._wanted = wanted
        self._on_state = on_state
        self._subscription: Subscription | None = None

    async def __aenter__(self) -> Self:
        """Wait until the gateway confirms the subscription. Raise the problem if it refuses."""
        subscription = self._begun()
        while not subscription.is_standing and not subscription.has_ended:
            woken = asyncio.Event()
            subscription.waiters.append(woken.set)
            await woken.wait()
        if subscription.failure is not None:
            raise subscription.failure
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        subscription = self._begun()
        if not subscription.items:
            await until_ready(subscription)
        frame = subscription.next_item()
        dropped, subscription.dropped = subscription.dropped, 0
        return Message(frame["channel"], frame["data"], frame.get("dropped", 0) + dropped)

    def _begun(self) -> Subscription:
        if self._subscription is None:
            self._subscription = self._live.subscribe(self._wanted, credit=1)
            self._subscription.on_state = self._on_state
        return self._subscription

    async def aclose(self) -> None:
        """End the subscription."""
        if self._subscription is not None:
            await self._live.leave(self._subscription)


class Channel:
    """A channel by name. You do not need to create it. Creating this object sends nothing.

    Example:
        room = hg.channel("room-1")
        await room.publish({"text": "hello"})
        async with room.subscribe() as messages:
            async for message in messages:
                print(message.data)
    """

    def __init__(self, calls: Calls, live: Live, name: str) -> None:
        """See `AsyncClient.channel`."""
        self.name = name
        self._calls = calls
        self._live = live
        self._path = f"/v1/channels/{segment(name)}"

    async def publish(self, data: Any) -> int:
        """Publish a message, any JSON, and return the number of subscribers.

        It is delivered at most once and not stored: subscribers that are disconnected or too slow
        miss it. If the answer is lost, the client does not publish it again.
        """
        answer = await self._calls.call("POST", f"{self._path}/messages", body={"data": data})
        return int(answer["receivers"])

    def subscribe(
        self,
        *,
        presence: Mapping[str, Any] | None = None,
        key: str | None = None,
        on_state: OnState | None = None,
    ) -> Messages:
        """Receive the messages that are published from now on.

        As a context manager, it enters when the gateway has confirmed the subscription. It resumes
        after each loss of the connection, but misses messages that are published meanwhile.

        Args:
            presence: Data that others see about this program, at most 1,024 bytes of JSON. None: it
                is not present.
            key: Name of this connection. Another connection with the same name replaces it.
            on_state: Called when messages arrive (`live`), and when the connection is `lost`.
        """
        wanted: dict[str, Any] = {"channel": self.name}
        if presence is not None:
            named = {} if key is None else {"key": key}
            wanted["presence"] = {"data": dict(presence), **named}
        return Messages(self._live, wanted, on_state)

    async def members(self, *, limit: int = 100) -> Members:
        """Return the present members: the first `limit`, and the total number."""
        query = {"limit": limit}
        answer = await self._calls.call("GET", f"{self._path}/presence", query=query)
        return cast(Members, answer)
