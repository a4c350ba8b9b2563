"""Writing: all chosen streams of a store into one that cannot be read back, such as a file.

Nobody can compare the copies, so each stream is looked at again when it is written: if it has
changed meanwhile, its copy is no good.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.app.backends.copying.contents import StreamStore, groups_of, streams_of
from headgate.app.backends.copying.filling import fill, mark, unmark
from headgate.app.backends.copying.moving import MoveOutcome, MoveState, Summary, Watcher
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.replies import GroupInfo, StreamInfo
from headgate.engine.requests.streams import DescribeStream


async def write_streams(
    source: StreamStore, target: StreamStore, watcher: Watcher, is_chosen: Callable[[bytes], bool]
) -> Summary:
    """Write all chosen streams, one after the other.

    Args:
        source: has the streams. Nothing is changed there.
        target: gets the copies, and has none of them yet.
        watcher: is told how it goes on.
        is_chosen: tells whether a stream of this name is written.

    Raises:
        Unavailable: one of the two does not answer any more.
    """
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
        return MoveOutcome(stream, MoveState.FAILED, "it has changed meanwhile")
    return MoveOutcome(stream, MoveState.COPIED)


async def _state(source: StreamStore, stream: bytes) -> tuple[StreamInfo, list[GroupInfo]]:
    groups = [group async for group in groups_of(source, stream)]
    return await source.perform(DescribeStream(stream)), groups
