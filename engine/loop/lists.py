"""Long lists and ranges: they are read in pages, with other requests in between.

Who runs schedules waits for a list of those that are due.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from headgate.engine.decisions import Decision, entries, schedules, streams
from headgate.engine.decisions.details import group_details, observed
from headgate.engine.decisions.name_ranges import parts_of
from headgate.engine.decisions.table import decide
from headgate.engine.eager import own_task
from headgate.engine.entry import Entry, EntryId
from headgate.engine.limits import LISTED_AT_ONCE_MAX, SPLITS_AT_ONCE_MAX
from headgate.engine.loop.executor import Executor
from headgate.engine.replies import (
    DueSchedules,
    Histogram,
    Observation,
    Split,
    StreamDetail,
    StreamInfo,
)
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import SplitRange
from headgate.engine.requests.entries import CountByTime, Range, TimeBuckets
from headgate.engine.requests.groups import ListConsumers, ListGroups
from headgate.engine.requests.schedules import AwaitSchedules, ListSchedules
from headgate.engine.requests.streams import DetailStream, ListStreams, Observe
from headgate.engine.schedules import ScheduleInfo
from headgate.engine.state.entries.log import Cut, Log
from headgate.engine.threads import this_turn


class _Named(Protocol):
    @property
    def name(self) -> bytes: ...


Named = TypeVar("Named", bound=_Named)


class Lists:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def list_streams(self, request: ListStreams) -> list[StreamInfo]:
        infos: list[StreamInfo] = []
        for at, only in enumerate(parts_of(request.only)):
            if at:
                await this_turn().end()
            limit = request.limit - len(infos)
            infos += await self._pages(replace(request, only=only, limit=limit))
            if len(infos) >= request.limit:
                break
        return await self._executor.durable(infos)

    async def list_named(self, request: ListGroups | ListConsumers) -> list[Named]:
        infos: list[Named] = await self._pages(request)
        return await self._executor.durable(infos)

    async def _pages(self, request: ListStreams | ListGroups | ListConsumers) -> list[Named]:
        infos = list[Named]()
        after, limit = request.after, request.limit
        while True:
            left = LISTED_AT_ONCE_MAX if limit is None else limit - len(infos)
            page_limit = min(left, LISTED_AT_ONCE_MAX)
            page_request = replace(request, after=after, limit=page_limit)
            page: list[Named] = await self._decided(page_request)
            infos += page
            if len(page) < LISTED_AT_ONCE_MAX:
                return infos
            after = page[-1].name
            await this_turn().end()

    async def _decided(self, request: Request[Any]) -> Any:
        executor = self._executor

        def act() -> Decision[Any]:
            return decide(executor.current(), request, executor.now_ms())

        return (await executor.cold.until_read(act)).reply

    async def detail_stream(self, request: DetailStream) -> StreamDetail:
        executor, stream = self._executor, request.stream
        wanted = Range(stream, limit=request.count, size_bytes_max=request.size_bytes_max)

        def look() -> tuple[StreamInfo, list[Entry]]:
            keyspace = executor.current()
            info = streams.stream_info(keyspace, stream)
            return info, entries.range_(keyspace, wanted, 0).reply

        info, listed = await executor.cold.until_read(look)
        await this_turn().end()
        details = group_details(executor.current(), request, executor.now_ms())
        return await executor.durable(StreamDetail(info, listed, details))

    async def observe(self, request: Observe) -> Observation:
        executor, after, room = self._executor, request.after, request.limit
        page = Observation([], 0)
        streams = page.streams
        while room > 0:
            part = replace(request, after=after, limit=room)
            page = observed(executor.current(), part, executor.now_ms())
            if not page.streams:
                break
            streams += page.streams
            after = streams[-1].name
            room -= len(page.streams) + sum(len(stream.groups) for stream in page.streams)
            await this_turn().end()
        return await executor.durable(Observation(streams, page.streams_left_out))

    async def await_schedules(self, request: AwaitSchedules) -> DueSchedules:
        await own_task()  # timeouts need one
        executor, changed = self._executor, self._executor.schedules_changed
        over_ms = executor.clock.monotonic_ms() + request.wait_ms
        while True:
            changed.clear()
            keyspace = executor.current()
            due = schedules.due_schedules(keyspace, request, executor.now_ms()).reply
            wait_ms = over_ms - executor.clock.monotonic_ms()
            if due.schedules or wait_ms <= 0:
                return await executor.durable(due)
            if due.next_ms is not None:
                wait_ms = min(wait_ms, due.next_ms - due.now_ms)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await changed.wait()

    async def list_schedules(self, request: ListSchedules) -> list[ScheduleInfo]:
        infos: list[ScheduleInfo] = []
        while True:
            part = schedules.list_schedules(self._executor.current(), request)
            infos += part.infos
            left = request.limit - len(part.infos)
            if part.last is None or left <= 0:
                return await self._executor.durable(infos)
            request = replace(request, after=part.last, limit=left)
            await this_turn().end()

    async def split_range(self, request: SplitRange) -> list[Split]:
        """Cut a range into equal parts; the last are smaller if entries are trimmed meanwhile."""
        stream, after, through = request.stream, request.after, request.through
        until_read = self._executor.cold.until_read
        total = await until_read(lambda: self._log(stream).count(after, through))
        count_min, larger_count = divmod(total, request.parts)
        splits: list[Split] = []
        for at in range(min(request.parts, total)):
            if at % SPLITS_AT_ONCE_MAX == SPLITS_AT_ONCE_MAX - 1:
                await this_turn().end()
            count = count_min + (at < larger_count)
            cut = await until_read(partial(self._portion, stream, after, through, count))
            if cut is None:
                break
            splits.append(Split(after, cut.through, cut.length))
            after = cut.through
        return await self._executor.durable(splits)

    def _log(self, stream: bytes) -> Log:
        return self._executor.current().stream(stream).log

    def _portion(self, stream: bytes, after: EntryId, through: EntryId, count: int) -> Cut | None:
        return self._log(stream).portion(after, through, count)

    def _count_part(self, stream: bytes, after: EntryId, through: EntryId) -> Cut:
        return self._log(stream).count_part(after, through)

    async def count_by_time(self, request: CountByTime) -> Histogram:
        """Count entries by time from the counts of chunks; only bucket ends are looked into."""
        executor, stream = self._executor, request.stream
        info = streams.stream_info(executor.current(), stream)
        buckets = TimeBuckets.of(request, info.first_id if info.length else None, info.last_id)
        turn = this_turn()
        counts: list[int] = []
        for after, through in buckets.ranges():
            counts.append(0)
            part = Cut(after, 0, is_whole=False)
            while not part.is_whole:
                if turn.is_over:
                    await turn.end()
                look = partial(self._count_part, stream, part.through, through)
                part = await executor.cold.until_read(look)
                counts[-1] += part.length
        return await executor.durable(buckets.counted(counts))
