"""Dumps: a stream is dumped as it is at one moment, and restored at one moment, each in steps."""

from __future__ import annotations

from functools import partial

from headgate.engine.config import StreamConfig
from headgate.engine.decisions import dumps
from headgate.engine.images import StreamImage
from headgate.engine.loop.executor import Executor
from headgate.engine.requests.keyspace import DumpStream, RestoreStream
from headgate.engine.state import restoring
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream
from headgate.engine.threads import this_turn


class Dumps:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def dump(self, request: DumpStream) -> StreamImage:
        executor = self._executor
        dump = dumps.Dump(executor.current(), request)
        position = executor.storage.position
        try:
            for index in range(len(dump.extents)):
                await executor.cold.until_read(partial(dump.add_extent, index))
                await this_turn().end()
            for _ in dump.steps():
                await this_turn().end()
        finally:
            dump.close()
        await executor.until_durable(position)
        return dump.image

    async def restore(self, request: RestoreStream) -> None:
        """Make a stream of a value (RESTORE).

        1. Refuse what would be refused in the end.
        2. Make the stream beside the state, in steps.
        3. Decide again, record, and put the stream into the state in one step.
        """
        executor = self._executor
        dumps.restore_stream(executor.current(), request, executor.now_ms())
        keyspace, clock_set_ms = executor.keyspace, executor.keyspace.clock_set_ms
        stream = Stream(request.stream, 0, StreamConfig(), keyspace.memory)
        try:
            for _ in restoring.fill(stream, request.image, clock_set_ms):
                await this_turn().end()
            is_as_made = executor.keyspace is keyspace and keyspace.clock_set_ms == clock_set_ms
            if is_as_made:  # or else it is made again, in one step
                keyspace.prepared[request.stream] = stream
            running = executor.run(
                lambda: dumps.restore_stream(executor.current(), request, executor.now_ms())
            )
        finally:
            if executor.keyspace.streams.get(request.stream) is not stream:
                self._drop(keyspace, stream)
        await running

    def _drop(self, keyspace: Keyspace, stream: Stream) -> None:
        keyspace.prepared.pop(stream.name, None)
        stream.leave()
        self._executor.disposal.take(stream.dismantle())
