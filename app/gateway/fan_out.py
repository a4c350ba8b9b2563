"""Fan-out: those at the end of a stream read together, and what comes is sent to each in turn.

Thousands may follow a stream, and nearly all of them are at its end. To wait and read by itself
takes each of them several times as long as to send what came. So one read waits for all that are
at the same place. Whoever cannot send at once reads by itself until it has caught up.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from headgate.app.backends.port import Backend
from headgate.engine.errors import StreamError
from headgate.engine.limits import SERVED_AT_ONCE_MAX
from headgate.engine.replies import StreamRead
from headgate.engine.requests.entries import Read, StreamCursor
from headgate.engine.threads import this_turn


class Recipient(Protocol):
    def take(self, read: StreamRead) -> bool:
        """Send what came; false if that cannot be done at once: then nothing was done."""


class _Group:
    __slots__ = ("request", "task", "waiting")

    task: asyncio.Task[None]

    def __init__(self, request: Read) -> None:
        self.request = request
        self.waiting: dict[Recipient, asyncio.Future[None]] = {}


class FanOut:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._groups: dict[Read, _Group] = {}
        self._group_of: dict[Recipient, _Group] = {}

    @property
    def waiter_count(self) -> int:
        """Return how many wait without a read of their own."""
        return len(self._group_of) - len(self._groups)

    async def wait(self, recipient: Recipient, request: Read) -> None:
        """Give a recipient what comes, and return once it has to read by itself.

        `request` is what it would read, at the end of one stream, with a wait that does not end. It
        has the right to read that, and looks at its rights each time.
        """
        group = self._groups.get(request)
        if group is None:
            group = self._groups[request] = _Group(request)
            group.task = asyncio.create_task(self._follow(group))
        waiting = asyncio.get_running_loop().create_future()
        group.waiting[recipient], self._group_of[recipient] = waiting, group
        try:
            await waiting
        finally:
            self._leave(recipient)

    def _leave(self, recipient: Recipient) -> None:
        group = self._group_of.pop(recipient, None)
        if group is not None:
            del group.waiting[recipient]
            if not group.waiting:
                self._forget(group)
                group.task.cancel()
                del group.task  # it knows its error, whose frames know the group

    async def _follow(self, group: _Group) -> None:
        try:
            with suppress(StreamError):
                while group.waiting:
                    [read] = await self._backend.perform(group.request)
                    self._forget(group)
                    await self._give(group, read if _is_usual(read) else None)
                    self._go_on(group, StreamCursor(read.stream, read.next_after))
            self._forget(group)
            await self._give(group, None)  # each reads by itself, and is told
        finally:
            self._forget(group)
            for recipient in list(group.waiting):  # none, unless the above has failed
                self._send_away(group, recipient)

    async def _give(self, group: _Group, read: StreamRead | None) -> None:
        """Let each take a read; who does not, or all if there is none, are sent away in turns."""
        turn, sent_away = this_turn(), 0
        for recipient in list(group.waiting):
            if sent_away == SERVED_AT_ONCE_MAX:  # each of them reads as soon as the turn ends
                await turn.end()
                sent_away = 0
            elif turn.is_over:
                await turn.pause()
            if recipient in group.waiting and (read is None or not recipient.take(read)):
                self._send_away(group, recipient)
                sent_away += 1

    def _go_on(self, group: _Group, cursor: StreamCursor) -> None:
        """Wait behind what was read, together with those who are there already."""
        group.request = replace(group.request, cursors=(cursor,))
        there = self._groups.setdefault(group.request, group)
        if there is not group:
            there.waiting.update(group.waiting)
            self._group_of.update(dict.fromkeys(group.waiting, there))
            group.waiting.clear()

    def _send_away(self, group: _Group, recipient: Recipient) -> None:
        del self._group_of[recipient]
        waiting = group.waiting.pop(recipient)
        if not waiting.done():
            waiting.set_result(None)

    def _forget(self, group: _Group) -> None:
        if self._groups.get(group.request) is group:
            del self._groups[group.request]


def _is_usual(read: StreamRead) -> bool:
    """Tell whether a read has entries alone, and all that there are."""
    is_whole = read.after <= read.last_id <= read.next_after
    return is_whole and read.gap is None and read.closed_at_ms is None
