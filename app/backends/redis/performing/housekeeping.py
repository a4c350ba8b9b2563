"""Remove what is too old, and do the regular work of the policies of groups.

One gateway does it for all: the one that has the lock. It walks the index of governed streams
(`streams.py`). For each of them it removes entries that are too old, makes dead letters, deletes
consumers that have been away for too long, and relays dead letters that wait. A stream with nothing
to do for a while leaves the index.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from redis.crc import key_slot
from redis.exceptions import ResponseError

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, Lost, NotSent
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing.policies import relay
from headgate.app.backends.redis.performing.streams import execute_at_index
from headgate.app.runtime import periodic
from headgate.engine.errors import StreamError

log = logging.getLogger("headgate")

_FAILURES = (Fault, Lost, NotSent, ResponseError, StreamError)

_INTERVAL_S = 1.0
"""Pause between two rounds."""

_LOCK_MS = 10_000
"""Lifetime of the lock after its last renewal."""

_PAGE = 100
"""Streams of the index that are looked at before the next pause."""

_PAUSE_S = 0.05
"""Pause between two pages, so that requests come first."""

_PARTS_MAX = 20
"""Calls for one stream or group in one round. What is left comes in the next round."""

_CONSUMERS_A_ROUND = 1_000
"""Consumers of a group that are looked at in each round. Each one takes about 1.5 µs."""

_NEEDLESS_ROUNDS = 60
"""A minute: a stream whose policy is changed back and forth stays in the index."""


class Housekeeper:
    def __init__(self, client: Client, *, needless_rounds: int = _NEEDLESS_ROUNDS) -> None:
        """Take the client; after `needless_rounds` with nothing to do a stream leaves the index."""
        self._client = client
        self._needless_rounds = needless_rounds
        self._token = secrets.token_hex(8).encode()
        self._rounds_to_skip: dict[tuple[bytes, bytes], int] = {}  # for consumers of groups
        self._needless: dict[bytes, int] = {}  # streams of the index, and for how many rounds
        self._is_failing = False

    async def run(self) -> None:
        await periodic.repeat("housekeeping at the servers", self._next_round)

    async def _next_round(self) -> None:
        await asyncio.sleep(_INTERVAL_S)
        try:
            await self.round()
        except _FAILURES as error:
            self._note([f"{type(error).__name__}: {error}"])

    async def round(self) -> bool:
        """Look once after all streams of the index, and return whether this gateway has the lock.

        A failure for one stream does not stop the others.
        """
        seen: set[bytes] = set()
        failures: list[str] = []
        has_lock = False
        async for page in self._pages():
            has_lock = True
            for stream in page:
                seen.add(stream)
                try:
                    await self._look_after(stream)
                except _FAILURES as error:
                    name = stream.decode("utf-8", "replace")
                    failures.append(f"{name}: {type(error).__name__}: {error}")
        for stream in self._needless.keys() - seen:
            del self._needless[stream]
        for names in [each for each in self._rounds_to_skip if each[0] not in seen]:
            del self._rounds_to_skip[names]
        self._note(failures)
        return has_lock

    def _note(self, failures: Sequence[str]) -> None:
        """Log failures in one line, however long they last and however many streams they affect."""
        if failures and not self._is_failing:
            facts = {"failures": len(failures), "first": failures[0]}
            log.warning("housekeeping at the servers is incomplete", extra=facts)
        self._is_failing = bool(failures)

    async def _pages(self) -> AsyncIterator[list[bytes]]:
        cursor: bytes | int = 0
        while await self._has_lock():
            cursor, page = await execute_at_index(self._client, b"SSCAN", cursor, b"COUNT", _PAGE)
            yield page
            if int(cursor) == 0:
                return
            await asyncio.sleep(_PAUSE_S)

    async def _has_lock(self) -> bool:
        """Take or renew the lock; return whether this gateway has it."""
        key = self._client.names.side_index(b"housekeeping")
        slot = key_slot(key)
        taken, owner = await self._client.execute_all(
            slot, [[b"SET", key, self._token, b"NX", b"PX", _LOCK_MS], [b"GET", key]], changes=True
        )
        if owner == self._token and taken is None:
            await self._client.execute_together(slot, [[b"PEXPIRE", key, _LOCK_MS]], changes=True)
        return bool(owner == self._token)

    async def _look_after(self, stream: bytes) -> None:
        if await self._needs(stream):
            self._needless.pop(stream, None)
            return
        rounds = self._needless.get(stream, 0) + 1
        self._needless[stream] = rounds
        if rounds < self._needless_rounds:
            return
        del self._needless[stream]
        await execute_at_index(self._client, b"SREM", stream)
        if await self._needs(stream):  # it was configured at this moment
            await execute_at_index(self._client, b"SADD", stream)

    async def _needs(self, stream: bytes) -> bool:
        await self._follow_name(stream)
        needs = await self._keep_ages(stream)
        try:
            groups = await self._client.call(Effect.READ, "group_names", stream)
        except Fault:  # the stream is gone; its outbox may still have dead letters
            groups = []
        needs = await self._act("expire", stream) or needs
        for group in groups:
            needs = await self._keep_policy(stream, group) or needs
        outbox = self._client.names.of(stream).side(b"outbox")
        if await self._client.execute(stream, b"XLEN", outbox, changes=False):
            await relay(self._client, stream)
            return True
        return needs

    async def _follow_name(self, stream: bytes) -> None:
        names = self._client.names
        renamed = names.of(stream).side(b"renamed")
        key = await self._client.execute(stream, b"GET", renamed, changes=False)
        if key is not None:
            await execute_at_index(self._client, b"SADD", names.name(key))
            await self._client.execute(stream, b"DEL", renamed, changes=True)

    async def _keep_ages(self, stream: bytes) -> bool:
        meta = self._client.names.of(stream).side(b"meta")
        bound = await self._client.execute(stream, b"HGET", meta, b"max_age_ms", changes=False)
        if bound is None:
            return False
        with suppress(Fault):  # the stream is gone
            for _ in range(_PARTS_MAX):
                if not await self._client.call(Effect.FREE, "retain", stream):
                    break
        return True

    async def _keep_policy(self, stream: bytes, group: bytes) -> bool:
        needs = await self._act("dead_letters", stream, group=group)
        if needs:
            await self._forget_consumers(stream, group)
        return needs

    async def _act(self, operation: str, stream: bytes, **facts: bytes) -> bool:
        """Run an operation until it has done all, and return whether it is needed again."""
        needs = 0
        facts["stream"] = stream
        for _ in range(_PARTS_MAX):
            has_more, needs = await self._client.call(Effect.FREE, operation, stream, **facts)
            if not has_more:
                break
        return bool(needs)

    async def _forget_consumers(self, stream: bytes, group: bytes) -> None:
        """Delete consumers that stay away; large groups are checked less often."""
        skipped = self._rounds_to_skip.pop((stream, group), 0)
        if skipped:
            left = skipped - 1
        else:
            count = await self._client.call(Effect.FREE, "forget_consumers", stream, group=group)
            left = count // _CONSUMERS_A_ROUND
        if left:
            self._rounds_to_skip[stream, group] = left
