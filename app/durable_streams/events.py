"""A stream as Server-Sent Events (5.8): `data`, and `control` with the place behind it."""

import asyncio
import codecs
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import chain

import msgspec
import pybase64
from fastapi import Request

from headgate.app.auth.access import Access
from headgate.app.durable_streams.content import body_of, is_json, is_text, whole_count
from headgate.app.durable_streams.protocol import cursor_after, offset_of
from headgate.app.durable_streams.reading import Seen, use
from headgate.app.gateway.gateway import Gateway
from headgate.app.http.streaming import HEARTBEAT
from headgate.app.live import followed
from headgate.app.live.event_connection import EventConnection
from headgate.app.live.subscription import StreamSubscription
from headgate.app.wire.encoding import unbroken
from headgate.engine.entry import Entry, EntryId
from headgate.engine.errors import Draining
from headgate.engine.replies import StreamRead
from headgate.engine.threads import this_turn

CONNECTION_S_MAX = 60.0
"""After so long a connection ends, so that new readers can share one of a cache."""

_PIECE_BYTES = 49_152
"""Of a body, in one piece of an event; three bytes of it become four of base64."""

_encode = msgspec.json.Encoder().encode


class Events:
    def __init__(
        self,
        gateway: Gateway,
        request: Request,
        access: Access,
        subscription: StreamSubscription,
        seen: Seen,
    ) -> None:
        """Send the items of an open subscription; `seen` is the stream when it was requested."""
        self._gateway, self._access, self._seen = gateway, access, seen
        self._subscription = subscription
        self._connection = EventConnection(gateway, request, access, subscription)
        self._asked_cursor = request.query_params.get("cursor")
        self._least_cursor: str | None = None
        self._stream = seen.info.name
        self._sent_through: EntryId | None = None  # up to where everything has come
        self._is_up_to_date = False  # the last control has said so
        self._held: list[Entry] = []  # the last of them ends within a character

    async def parts(self) -> AsyncGenerator[bytes, None]:
        usage, connection = self._access.usage, self._connection
        with connection.listed(), usage.connections.held(), usage.subscriptions.held():
            async with aclosing(self._subscription.follow(until=self._until)) as coming:
                async for item in coming:
                    pieces = await self._pieces(item)
                    if pieces is None:
                        return
                    await use(self._access, self._stream, self._seen)
                    turn = this_turn()
                    for part in in_parts(pieces):
                        yield part
                        await turn.pause()

    async def _until(self) -> None:
        try:
            async with asyncio.timeout(CONNECTION_S_MAX):
                await self._connection.wait_end()
        except TimeoutError:
            raise Draining from None

    async def _pieces(self, item: followed.Followed) -> Iterable[bytes] | None:
        match item:
            case followed.StreamBatch(read) if (
                read.gap is not None and self._sent_through is not None
            ):
                return None  # the client comes again, and is told that entries are missing
            case followed.StreamBatch(read) if read.entries:
                return self._entries(read)
            case followed.StreamBatch():
                return (HEARTBEAT,)
            case followed.State("caught_up"):
                at = await self._subscription.position()
                is_known = bool(self._held) or self._is_up_to_date
                return () if is_known else (self._control(at, at_end=True),)
            case followed.AtEnd(at):
                last = self._data(self._held) if self._held else ()
                return chain(last, (self._control(at, at_end=True, is_closed=True),))
            case followed.Ended():
                return None
        return ()

    def _entries(self, read: StreamRead) -> Iterable[bytes]:
        """Return the events of entries; an incomplete character waits for the rest of it."""
        entries = self._held + read.entries
        whole = whole_count(entries, self._seen.configuration.content_type)
        self._held = entries[whole:]
        if not whole:
            return (HEARTBEAT,)
        data = self._data(entries[:whole])
        if self._held:
            return chain(data, (self._control(entries[whole - 1].id, at_end=False),))
        if read.closed_at_ms is not None:
            return data  # the end says where it is
        at_end = read.next_after >= read.last_id
        return chain(data, (self._control(read.next_after, at_end=at_end),))

    def _data(self, entries: Sequence[Entry]) -> Iterator[bytes]:
        self._connection.sent_entries += len(entries)
        self._gateway.metrics.delivered_counts["sse"] += len(entries)
        content_type = self._seen.configuration.content_type
        body = body_of(entries, content_type)
        if is_json(content_type):
            body = unbroken(body)
        return text_event(body) if is_text(content_type) else base64_event(body)

    def _control(self, at: EntryId, *, at_end: bool, is_closed: bool = False) -> bytes:
        control: dict[str, object] = {"streamNextOffset": offset_of(at)}
        if is_closed:
            control["streamClosed"] = True
        else:
            control["streamCursor"] = self._next_cursor()
        if at_end:
            control["upToDate"] = True
        self._sent_through, self._is_up_to_date = at, at_end
        return b"event: control\ndata:%b\n\n" % _encode(control)

    def _next_cursor(self) -> str:
        """Return a cursor above the client's, and not below the previous one."""
        now_ms, chance = self._gateway.auth.now_ms(), self._gateway.random
        if self._least_cursor is None:
            self._least_cursor = cursor_after(self._asked_cursor, now_ms, chance)
        return max(self._least_cursor, cursor_after(None, now_ms, chance), key=int)


def in_parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces up to a size, so that a short event is sent with its control."""
    together, size_bytes = list[bytes](), 0
    for piece in pieces:
        together.append(piece)
        size_bytes += len(piece)
        if size_bytes >= _PIECE_BYTES:
            yield b"".join(together)
            together, size_bytes = [], 0
    if together:
        yield b"".join(together)


def text_event(body: bytes) -> Iterator[bytes]:
    """Yield a `data` event with a text, in pieces: a body may consist of line ends alone.

    Invalid UTF-8 is replaced. A space behind the colon is no part of the value, so there is one
    more where a line begins with one.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield b"event: data\ndata:"
    begin, is_line_begin = 0, True
    while begin < len(body):
        end = begin + _PIECE_BYTES
        end += body[end - 1 : end + 1] == b"\r\n"
        text = decoder.decode(body[begin:end], final=end >= len(body)).encode()
        lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        piece = lines.replace(b"\n", b"\ndata:").replace(b"\ndata: ", b"\ndata:  ")
        yield b" " + piece if is_line_begin and lines.startswith(b" ") else piece
        is_line_begin = lines.endswith(b"\n") if lines else is_line_begin
        begin = end
    yield b"\n\n"


def base64_event(body: bytes) -> Iterator[bytes]:
    yield b"event: data\ndata:"
    for begin in range(0, len(body), _PIECE_BYTES):
        yield pybase64.b64encode(body[begin : begin + _PIECE_BYTES])
    yield b"\n\n"
