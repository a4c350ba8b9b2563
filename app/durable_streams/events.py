"""Events: a stream as Server-Sent Events (5.8): `data`, and `control` with the place behind it."""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec
from fastapi import Request

from headgate.app.auth.access import Access
from headgate.app.durable_streams.content import body_of, is_text, whole_count
from headgate.app.durable_streams.offsets import cursor_after, offset_of
from headgate.app.durable_streams.reading import Seen, use
from headgate.app.gateway.gateway import Gateway
from headgate.app.http.streaming import HEARTBEAT
from headgate.app.live import followed
from headgate.app.live.event_connection import EventConnection
from headgate.app.live.subscription import StreamSubscription
from headgate.engine.entry import Entry, EntryId
from headgate.engine.errors import Draining
from headgate.engine.replies import StreamRead

CONNECTION_S_MAX = 60.0
"""After so long a connection ends, so that new readers can share one of a cache."""

_LINE_END = re.compile(rb"\r\n|\r|\n")

_encode = msgspec.json.Encoder().encode


class Events:
    """One connection."""

    def __init__(
        self,
        gateway: Gateway,
        request: Request,
        access: Access,
        subscription: StreamSubscription,
        seen: Seen,
    ) -> None:
        """Send the items of an open subscription.

        Args:
            gateway: what serves it.
            request: asks for it.
            access: of whoever asks.
            subscription: of the stream.
            seen: the stream as it was when it was asked for.
        """
        self._gateway, self._access, self._seen = gateway, access, seen
        self._subscription = subscription
        self._connection = EventConnection(gateway, request, access, subscription)
        self._asked_cursor = request.query_params.get("cursor")
        self._least_cursor: str | None = None
        self._stream = seen.info.name
        self._sent_through: EntryId | None = None  # up to where everything has come
        self._held: list[Entry] = []  # the last of them ends within a character

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield events until the stream, the client or the time ends."""
        usage, connection = self._access.usage, self._connection
        with connection.listed(), usage.connections.held(), usage.subscriptions.held():
            async with aclosing(self._subscription.follow(until=self._until)) as coming:
                async for item in coming:
                    part = await self._part(item)
                    if part is None:
                        return
                    await use(self._access, self._stream, self._seen)
                    if part:
                        yield part

    async def _until(self) -> None:
        try:
            async with asyncio.timeout(CONNECTION_S_MAX):
                await self._connection.wait_end()
        except TimeoutError:
            raise Draining from None

    async def _part(self, item: followed.Followed) -> bytes | None:
        """Return the events of an item; None: the connection ends without them."""
        match item:
            case followed.StreamBatch(read) if (
                read.gap is not None and self._sent_through is not None
            ):
                return None  # the client comes again, and is told that entries are missing
            case followed.StreamBatch(read) if read.entries:
                return self._entries(read)
            case followed.StreamBatch():
                return HEARTBEAT
            case followed.State("caught_up"):
                at = await self._subscription.position()
                is_known = bool(self._held) or self._sent_through == at
                return b"" if is_known else self._control(at, at_end=True)
            case followed.AtEnd(at):
                last = self._data(self._held) if self._held else b""
                return last + self._control(at, at_end=True, is_closed=True)
            case followed.Ended():
                return None
        return b""

    def _entries(self, read: StreamRead) -> bytes:
        """Return the events of entries; those within a character wait for the rest of it."""
        entries = self._held + read.entries
        whole = whole_count(entries, self._seen.configuration.content_type)
        self._held = entries[whole:]
        if not whole:
            return HEARTBEAT
        if self._held:
            return self._data(entries[:whole]) + self._control(entries[whole - 1].id, at_end=False)
        if read.closed_at_ms is not None:
            return self._data(entries)  # the end says where it is
        at_end = read.next_after >= read.last_id
        return self._data(entries) + self._control(read.next_after, at_end=at_end)

    def _data(self, entries: Sequence[Entry]) -> bytes:
        self._connection.sent_entries += len(entries)
        self._gateway.metrics.delivered_counts["sse"] += len(entries)
        content_type = self._seen.configuration.content_type
        body = body_of(entries, content_type)
        if is_text(content_type):
            text = body.decode(errors="replace").encode()  # an event is UTF-8
            lines = _LINE_END.split(text)
        else:
            lines = [base64.b64encode(body)]
        # The space behind the colon is no part of the value: one is added where the value has one.
        return b"event: data\n%b\n" % b"".join(
            b"data:%b%b\n" % (b" " if line.startswith(b" ") else b"", line) for line in lines
        )

    def _control(self, at: EntryId, *, at_end: bool, is_closed: bool = False) -> bytes:
        control: dict[str, object] = {"streamNextOffset": offset_of(at)}
        if is_closed:
            control["streamClosed"] = True
        else:
            control["streamCursor"] = self._next_cursor()
        if at_end:
            control["upToDate"] = True
        self._sent_through = at
        return b"event: control\ndata:%b\n\n" % _encode(control)

    def _next_cursor(self) -> str:
        """Return a cursor that is above that of the client, and not below the one before."""
        now_ms, chance = self._gateway.auth.now_ms(), self._gateway.random
        if self._least_cursor is None:
            self._least_cursor = cursor_after(self._asked_cursor, now_ms, chance)
        return max(self._least_cursor, cursor_after(None, now_ms, chance), key=int)
