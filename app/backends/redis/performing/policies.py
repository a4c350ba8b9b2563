"""Relay dead letters to their stream, and send them back.

A function moves a dead letter from the pending entries into the outbox of its stream, in one step.
From there a gateway relays it to the dead letter stream, which may be in another slot. The dead
letter stream knows up to which id of the outbox it has got dead letters, so one that is relayed
twice is appended once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from redis.exceptions import ResponseError

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import (
    Fault,
    Lost,
    NotSent,
    as_stream_errors,
    by_name,
    read_id,
)
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, portions
from headgate.app.backends.redis.performing.entries import range_
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId, Fields
from headgate.engine.errors import Invalid, StreamError, StreamNotFound
from headgate.engine.limits import BLOCK_BYTES_MAX, REDRIVE_SCAN_MAX, REDRIVEN_AT_ONCE_MAX
from headgate.engine.origin import entry_of
from headgate.engine.replies import Redriven, RedriveOutcome
from headgate.engine.requests.deliveries import Redrive
from headgate.engine.requests.entries import Range

log = logging.getLogger("headgate")

_RELAYED_AT_ONCE_MAX = 50
"""Dead letters that are relayed together."""

_PAGES_MAX = 20
"""Pages of an outbox that are looked at in a row, where dead letters cannot leave it."""

_RELAY_S_MAX = 0.25
"""Time that a request waits for its own dead letters."""


_Page = Sequence[tuple[bytes, list[bytes]]]
"""Records of an outbox: ids, and names and values."""


async def relay(client: Client, stream: bytes) -> None:
    """Relay the dead letters in the outbox of a stream.

    Those that a dead letter stream refuses stay in the outbox and do not delay others. Raises
    Fault, Lost, NotSent, ResponseError or StreamError if some of them stay.
    """
    low, kept_pages = b"-", 0
    failure: Exception | None = None
    while kept_pages < _PAGES_MAX:
        page = await _page(client, stream, low)
        gone, refusal = await _relay_some(client, stream, page)
        failure = failure or refusal
        if len(page) < _RELAYED_AT_ONCE_MAX:
            break
        low, kept_pages = b"(" + page[-1][0], kept_pages + (gone < len(page))
    if failure is not None:
        raise failure


async def relay_now(client: Client, stream: bytes) -> None:
    """Relay them before a request is answered if this is quick; otherwise housekeeping will.

    A reply that delivers entries does not wait for it: they are idle meanwhile, and whoever had
    them before may still acknowledge them. Nor does a transaction, which changes nothing after its
    commands.
    """
    with suppress(Fault, Lost, NotSent, ResponseError, StreamError, TimeoutError):
        async with asyncio.timeout(_RELAY_S_MAX):
            await relay(client, stream)


async def _page(client: Client, stream: bytes, low: bytes) -> _Page:
    words = (b"XRANGE", _outbox(client, stream), low, b"+", b"COUNT", _RELAYED_AT_ONCE_MAX)
    page: _Page = await client.execute(stream, *words, changes=False)
    return page


async def _relay_some(client: Client, stream: bytes, page: _Page) -> tuple[int, Exception | None]:
    """Relay dead letters in order; return how many left the outbox, and why others did not.

    Records that are no dead letters, put there by another client, are removed.
    """
    by_target: dict[bytes, list[tuple[bytes, bytes]]] = {}
    gone: list[bytes] = []
    foreign_count = 0
    failure: Exception | None = None
    for outbox_id, words in page:
        record = by_name(words)
        if {b"to", b"fields"} <= record.keys():
            by_target.setdefault(record[b"to"], []).append((outbox_id, record[b"fields"]))
        else:
            gone.append(outbox_id)
            foreign_count += 1
    source = client.names.of(stream).key
    for target, packed in by_target.items():
        try:
            facts = {"source": source, "dead_letters": packed}
            foreign_count += await client.call(Effect.WRITE, "relay", target, **facts)
        except (Fault, ResponseError, StreamError) as error:
            failure = failure or error
        else:
            gone += (outbox_id for outbox_id, _ in packed)
    if gone:
        await client.execute(stream, b"XDEL", _outbox(client, stream), *gone, changes=True)
    if foreign_count:
        extra = {"stream": stream.decode(errors="replace"), "records": foreign_count}
        log.warning("an item that is not a dead letter was removed from an outbox", extra=extra)
    return len(gone), failure


def _outbox(client: Client, stream: bytes) -> bytes:
    return client.names.of(stream).side(b"outbox")


class _DeadLetter(NamedTuple):
    id: EntryId
    origin: EntryId  # its id in the stream of the group
    fields: Fields  # those of the entry


async def redrive(client: Client, request: Redrive) -> list[Redriven]:
    """Send dead letters of a group back, oldest first.

    Each one is first sent back and then deleted, which are two steps, as there may be two slots.
    The group's stream remembers for a day what was sent back, so an interrupted redrive can be
    repeated.
    """
    stream, group = request.stream, request.group
    dead_letters = await client.call(Effect.READ, "dead_letter_stream", stream, group=group)
    if dead_letters is None:
        raise Invalid("the group's policy names no dead_letter_stream")
    if dead_letters == stream:
        return []
    return await _Redrive(client, request, dead_letters).run()


class _Redrive:
    def __init__(self, client: Client, request: Redrive, dead_letters: bytes) -> None:
        self._client = client
        self._request = request
        self._dead_letters = dead_letters
        self._key = client.names.of(dead_letters).key

    async def run(self) -> list[Redriven]:
        redriven: list[Redriven] = []
        if self._request.ids is not None:
            ids = list(dict.fromkeys(self._request.ids))
            for portion in portions(ids, REDRIVEN_AT_ONCE_MAX):
                entries = await self._entries(portion)
                redriven += await self._send_back(entries, len(redriven))
            return redriven
        start, looked_at = MIN_ID, 0
        while looked_at < REDRIVE_SCAN_MAX:
            entries = await self._page(start)
            redriven += await self._send_back(entries, len(redriven))
            is_over = not entries or entries[-1].id == MAX_ID
            if is_over or len(redriven) >= self._request.limit:
                break
            start, looked_at = entries[-1].id.next(), looked_at + len(entries)
        return redriven

    async def _page(self, start: EntryId) -> list[Entry]:
        page = Range(
            self._dead_letters, start, limit=REDRIVEN_AT_ONCE_MAX, size_bytes_max=BLOCK_BYTES_MAX
        )
        try:
            with as_stream_errors(self._dead_letters):
                return await range_(self._client, page)
        except StreamNotFound:
            return []

    async def _entries(self, ids: Sequence[EntryId]) -> list[Entry]:
        replies = await self._client.execute_all(
            self._client.names.of(self._dead_letters).slot,
            [[b"XRANGE", self._key, str(each), str(each)] for each in ids],
            changes=False,
        )
        return [
            Entry(read_id(entry_id), tuple(fields))
            for reply in replies
            for entry_id, fields in reply
        ]

    async def _send_back(self, entries: Sequence[Entry], before: int) -> list[Redriven]:
        """Send back the entries that are dead letters of the group; `before` were sent earlier."""
        request = self._request
        own = (self._own(*entry) for entry in entries)
        sent = [each for each in own if each is not None][: max(request.limit - before, 0)]
        if not sent:
            return []
        facts = {"group": request.group, "source": self._key, "dead_letters": sent}
        reply = await self._client.call(Effect.WRITE, "redrive", request.stream, **facts)
        ids = [str(each.id) for each in sent]
        await self._client.execute(self._dead_letters, b"XDEL", self._key, *ids, changes=True)
        return [
            Redriven(
                each.id,
                RedriveOutcome.RELEASED if is_released else RedriveOutcome.APPENDED,
                read_id(entry_id),
            )
            for each, (is_released, entry_id) in zip(sent, reply, strict=True)
        ]

    def _own(self, entry_id: EntryId, fields: Fields) -> _DeadLetter | None:
        before_death = entry_of(fields, self._request.stream, self._request.group)
        return None if before_death is None else _DeadLetter(entry_id, *before_death)


PERFORMERS: Performers = {Redrive: by_function(redrive)}
