"""Writer: appends batches of entries exactly once, however often they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from headgate.client import tables
from headgate.client.bulk.batches import ARROW
from headgate.client.calls import Calls, segment
from headgate.client.shapes.answers import Committed

if TYPE_CHECKING:
    import pyarrow as pa


class Attempt(NamedTuple):
    """The staged chunks of a partition that count: those of this attempt, from 0 on."""

    partition: int
    attempt: str
    chunks: int


class Writer:
    """A writer of batches, with a name. It stages a batch in chunks, and commits it as a whole.

    The gateway remembers the number of the last batch: one that is committed again changes nothing.

    Example:
        writer = hg.writer("import-2026-01")
        await writer.stage(0, partition=0, attempt="a", chunk=0, rows=batch, stream="orders")
        await writer.commit(0, [Attempt(partition=0, attempt="a", chunks=1)])
    """

    def __init__(self, calls: Calls, name: str) -> None:
        """See `AsyncClient.writer`."""
        self.name = name
        self._calls = calls
        self._path = f"/v1/bulk/writers/{segment(name)}"

    async def stage(
        self,
        batch: int,
        *,
        partition: int,
        attempt: str,
        chunk: int,
        rows: pa.RecordBatch,
        stream: str | None = None,
    ) -> None:
        """Leave rows with the gateway until `commit`; the same chunk once more replaces itself.

        Args:
            batch: its number; numbers grow.
            partition: which part of the batch.
            attempt: which try at the part.
            chunk: its number in the attempt, from 0.
            rows: columns `fields`, a map of names and values, and optionally `id` and `stream`.
            stream: where to, if there is no such column.
        """
        await self._calls.call(
            "PUT",
            f"{self._path}/batches/{batch}/partitions/{partition}"
            f"/attempts/{segment(attempt)}/chunks/{chunk}",
            query={"stream": stream},
            content=tables.encoded(rows),
            headers={"Content-Type": ARROW},
        )

    async def commit(
        self, batch: int, attempts: Sequence[Attempt], *, create_streams: bool = True
    ) -> Committed:
        """Append the chunks of the attempts, all at once; a repeated batch changes nothing.

        Args:
            batch: its number.
            attempts: which of them count, one for each partition.
            create_streams: also streams that do not exist.

        Raises:
            StagedMissing: a chunk has not arrived.
        """
        body = {
            "attempts": [attempt._asdict() for attempt in attempts],
            "create_streams": create_streams,
        }
        path = f"{self._path}/batches/{batch}/commit"
        return cast(Committed, await self._calls.call("POST", path, body=body, is_repeatable=True))

    async def abort(self, batch: int) -> None:
        """Let the gateway forget what is staged for a batch."""
        await self._calls.call("DELETE", f"{self._path}/batches/{batch}")

    async def last_batch(self) -> int | None:
        """Return the number of the last batch that was committed; None: there is none."""
        return cast(int | None, (await self._calls.call("GET", self._path))["last_batch"])
