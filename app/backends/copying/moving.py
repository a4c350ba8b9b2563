"""Moving: all chosen streams of one backend to another, to be repeated until it is complete.

1. Each stream is copied and compared. Nothing acts on the copies: they have no bounds of age or
   length and no policies yet, and a group (`MARK`) says that they are not complete.
2. When all of them are there, each copy gets its configuration, its policies and its expiry, and
   loses its mark. A dead letter stream is complete before the first policy writes to it.

A second run finds marked copies and goes on with them, or begins them anew. A copy has the epoch of
its stream, so a stream of the same name that is something else is recognized, and is refused. A
server of Redis has no epochs: there a stream of the same name that differs in anything is left
alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from headgate.app.backends.copying.contents import (
    MARK,
    PLACEHOLDER,
    StreamStore,
    differences,
    groups_of,
    is_plain,
    settings_of,
    streams_of,
)
from headgate.app.backends.copying.filling import fill, govern_groups, mark, unmark
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import GroupNotFound, StreamError, StreamNotFound, Unavailable
from headgate.engine.replies import GroupInfo, StreamInfo
from headgate.engine.requests.entries import Range
from headgate.engine.requests.groups import DescribeGroup
from headgate.engine.requests.streams import (
    AttributeChange,
    ChangeAttributes,
    CloseStream,
    CreateStream,
    DeleteStream,
    DescribeStream,
    GetAttributes,
    UpdateStream,
)

AT_ONCE = 8
"""Streams that are copied at the same time. More do not go faster through one connection."""


class MoveState(StrEnum):
    COPIED = "copied"
    SAME = "same"  # an earlier move has copied it, and both are still the same
    CHANGED = "changed"  # an earlier move has copied it, and one of the two has changed since
    REFUSED = "refused"  # the target has something else of this name
    FAILED = "failed"


_BLOCKING = {MoveState.REFUSED, MoveState.FAILED}


class MoveOutcome(NamedTuple):
    stream: bytes
    state: MoveState
    why: str = ""


class Watcher(Protocol):
    def began(self, streams: int, entries: int) -> None: ...

    def copied(self, entries: int) -> None: ...

    def ended(self, outcome: MoveOutcome) -> None: ...


@dataclass
class Summary:
    states: Counter[MoveState] = field(default_factory=Counter)
    streams: int = 0
    entries: int = 0  # appended to copies
    is_in_force: bool = False  # the copies are complete
    untimed: int = 0  # entries whose times the target cannot keep, about
    left_out: Mapping[str, int] = field(default_factory=dict)  # keys of the source, by kind

    @property
    def is_complete(self) -> bool:
        wrong = _BLOCKING | {MoveState.CHANGED}
        return self.is_in_force and not any(self.states[state] for state in wrong)


class Move:
    def __init__(
        self,
        source: StreamStore,
        target: StreamStore,
        watcher: Watcher,
        *,
        is_chosen: Callable[[bytes], bool] = lambda name: True,  # noqa: ARG005
        replaces: bool = False,
    ) -> None:
        """Take the stores; `replaces` deletes other streams of the same names in the target."""
        self._source = source
        self._target = target
        self._watcher = watcher
        self._is_chosen = is_chosen
        self._replaces = replaces
        self._is_plain = is_plain(source) or is_plain(target)
        self._summary = Summary()

    async def run(self) -> Summary:
        """Move all chosen streams; Unavailable means that the same move can be run again."""
        entries = 0
        async for info in self._chosen():
            self._summary.streams += 1
            entries += info.length
            self._summary.untimed += info.timed_count if is_plain(self._target) else 0
        self._watcher.began(self._summary.streams, entries)
        await self._for_each(self._copy)
        if not any(self._summary.states[state] for state in _BLOCKING):
            await self._for_each(self._put_in_force)
            self._summary.is_in_force = True
        return self._summary

    async def _chosen(self) -> AsyncIterator[StreamInfo]:
        async for info in streams_of(self._source):
            if self._is_chosen(info.name):
                yield info

    async def _for_each(self, act: Callable[[StreamInfo], Coroutine[Any, Any, None]]) -> None:
        room = asyncio.Semaphore(AT_ONCE)
        lost: list[Unavailable] = []

        async def within(info: StreamInfo) -> None:
            try:
                await act(info)
            except Unavailable as error:
                lost.append(error)
            except StreamError as error:
                self._note(MoveOutcome(info.name, MoveState.FAILED, str(error)))
            finally:
                room.release()

        async with asyncio.TaskGroup() as tasks:
            try:
                async for info in self._chosen():
                    await room.acquire()
                    if lost:
                        break
                    tasks.create_task(within(info))
            except Unavailable as error:
                lost.append(error)
        if lost:
            raise lost[0]

    def _note(self, outcome: MoveOutcome) -> None:
        self._summary.states[outcome.state] += 1
        self._watcher.ended(outcome)

    def _note_copied(self, entries: int) -> None:
        self._summary.entries += entries
        self._watcher.copied(entries)

    async def _copy(self, info: StreamInfo) -> None:
        """Copy what the target lacks of a stream, and compare.

        An incomplete copy is continued. If the result differs, it is begun again: entries that it
        has may be gone from the stream by now.
        """
        copy = await self._described(self._target, info.name)
        if await self._is_marked(self._source, info.name):
            self._note(MoveOutcome(info.name, MoveState.REFUSED, "it is an incomplete copy"))
            return
        if copy is not None and await self._is_marked(self._target, info.name):
            if await self._has_more(copy):
                why = "other clients have appended to the incomplete copy"
                self._note(MoveOutcome(info.name, MoveState.REFUSED, why))
                return
            if self._may_be_copy(copy, info) and not await self._fill(info, copy):
                self._note(MoveOutcome(info.name, MoveState.COPIED))
                return
        elif copy is not None and not self._is_blank(copy, info):
            outcome = await self._compared(info, copy)
            if outcome.state is MoveState.SAME or not self._replaces:
                self._note(outcome)
                return
        self._note(await self._begun(info))

    async def _compared(self, info: StreamInfo, copy: StreamInfo) -> MoveOutcome:
        if not self._may_be_copy(copy, info):
            return MoveOutcome(
                info.name, MoveState.REFUSED, "the target has a different stream of this name"
            )
        differing = await differences(self._source, self._target, info.name)
        if not self._is_plain and (
            await settings_of(self._source, info.name) != await settings_of(self._target, info.name)
        ):
            differing.append("settings")
        if differing:
            return MoveOutcome(
                info.name, MoveState.CHANGED, f"they differ in {', '.join(differing)}"
            )
        return MoveOutcome(info.name, MoveState.SAME)

    async def _begun(self, info: StreamInfo) -> MoveOutcome:
        """Copy a stream from its beginning; whatever has its name is deleted."""
        stream, config, source, target = info.name, info.config, self._source, self._target
        await target.perform(DeleteStream(stream))
        if not self._is_plain:
            keys = StreamConfig(None, None, config.idempotency_window_ms, config.idempotency_max)
            await target.perform(CreateStream(stream, keys, info.epoch))
        groups = [group async for group in groups_of(source, stream)]
        await mark(target, stream)
        differing = await self._fill(info, await target.perform(DescribeStream(stream)))
        if not differing:
            return MoveOutcome(stream, MoveState.COPIED)
        now = await self._described(source, stream)
        is_same = now == info and groups == [group async for group in groups_of(source, stream)]
        why = f"the copy differs in {', '.join(differing)}"
        return MoveOutcome(
            stream, MoveState.FAILED, why if is_same else f"it has changed, and {why}"
        )

    async def _fill(self, info: StreamInfo, copy: StreamInfo) -> list[str]:
        source, target, stream = self._source, self._target, info.name
        if copy.last_id == info.last_id and not await differences(source, target, stream):
            self._watcher.copied(info.length)
            return []
        await fill(source, target, info, copy.last_id, self._note_copied)
        return await differences(source, target, stream)

    async def _put_in_force(self, info: StreamInfo) -> None:
        stream, target = info.name, self._target
        if not await self._is_marked(target, stream):
            return
        if info.config != StreamConfig():
            settings = Patch.to(info.config)
            await target.perform(UpdateStream(stream, settings))
        if not self._is_plain:
            await govern_groups(self._source, target, stream)
            attributes = await self._source.perform(GetAttributes(stream))
            await target.perform(ChangeAttributes(stream, AttributeChange({**attributes})))
            if info.closed_at_ms is not None:
                await target.perform(CloseStream(stream, closed_at_ms=info.closed_at_ms))
        await unmark(self._source, target, stream)

    async def _has_more(self, copy: StreamInfo) -> bool:
        newest = await self._target.perform(Range(copy.name, limit=1, reverse=True))
        if not newest or newest[0].fields == PLACEHOLDER:
            return False
        last_id = newest[0].id
        return newest != await self._source.perform(Range(copy.name, last_id, last_id))

    async def _described(self, store: StreamStore, stream: bytes) -> StreamInfo | None:
        try:
            return await store.perform(DescribeStream(stream))
        except StreamNotFound:
            return None

    async def _is_marked(self, store: StreamStore, stream: bytes) -> bool:
        try:
            await store.perform(DescribeGroup(stream, MARK))
        except GroupNotFound:
            return False
        return True

    def _may_be_copy(self, copy: StreamInfo, info: StreamInfo) -> bool:
        return self._is_plain or copy.epoch == info.epoch

    def _is_blank(self, copy: StreamInfo, info: StreamInfo) -> bool:
        """Tell whether a copy was interrupted before it got its mark."""
        is_copy = not self._is_plain and copy.epoch == info.epoch
        return is_copy and not copy.entries_added and not copy.group_count


# Writing: all chosen streams of a store into one that cannot be read back, such as a file.
#
# Nobody can compare the copies, so each stream is looked at again when it is written: if it has
# changed meanwhile, its copy is no good.


async def write_streams(
    source: StreamStore, target: StreamStore, watcher: Watcher, is_chosen: Callable[[bytes], bool]
) -> Summary:
    """Write all chosen streams one after the other; `target` has none of them yet."""
    summary = Summary(is_in_force=True)
    infos = [info async for info in streams_of(source) if is_chosen(info.name)]
    summary.streams = len(infos)
    summary.untimed = sum(info.timed_count for info in infos)
    watcher.began(summary.streams, sum(info.length for info in infos))

    def note_copied(entries: int) -> None:
        summary.entries += entries
        watcher.copied(entries)

    for listed in infos:
        try:
            outcome = await _write(source, target, listed.name, note_copied)
        except Unavailable:
            raise
        except StreamError as error:
            outcome = MoveOutcome(listed.name, MoveState.FAILED, str(error))
        summary.states[outcome.state] += 1
        if outcome.state is not MoveState.COPIED:
            summary.is_in_force = False
        watcher.ended(outcome)
    return summary


async def _write(
    source: StreamStore, target: StreamStore, stream: bytes, on_copied: Callable[[int], None]
) -> MoveOutcome:
    before = await _state(source, stream)
    await mark(target, stream)
    await fill(source, target, before[0], MIN_ID, on_copied)
    await unmark(source, target, stream)
    if await _state(source, stream) != before:
        return MoveOutcome(stream, MoveState.FAILED, "it changed during the copy")
    return MoveOutcome(stream, MoveState.COPIED)


async def _state(source: StreamStore, stream: bytes) -> tuple[StreamInfo, list[GroupInfo]]:
    groups = [group async for group in groups_of(source, stream)]
    return await source.perform(DescribeStream(stream)), groups
