"""Bulk: read plans, batches of entries as Arrow, and a writer that appends each batch once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, cast

import httpx

from headgate.client import tables
from headgate.client.calls import Calls, segment
from headgate.client.entries import Gap
from headgate.client.problems import AnswerLost
from headgate.client.shapes.answers import Committed

if TYPE_CHECKING:
    import pyarrow as pa


_CURSORS_MAX: Final = 1000
"""Of one request, by the contract."""


class Cursor(NamedTuple):
    """The position of a reader in a stream: behind the entry `after`, in the life `epoch`."""

    stream: str
    after: str = "0-0"
    epoch: str | None = None


class Plan(NamedTuple):
    """The part of a stream that a cursor may read next.

    Attributes:
        stream: its name.
        epoch: the life the stream is in; None: there is no such stream.
        after: the position of the cursor.
        end: the last id to read, inclusive; `after` if there is nothing to read.
        entries: number of entries up to `end`.
        backlog: number of entries behind `after`.
        last_id: the last id of the stream; None: there is no such stream.
        first_id: the first entry that is there; None: the stream is empty.
        gap: what was trimmed behind `after`, if anything.
    """

    stream: str
    epoch: str | None
    after: str
    end: str
    entries: int = 0
    backlog: int = 0
    last_id: str | None = None
    first_id: str | None = None
    gap: Gap | None = None


class Split(NamedTuple):
    """A part of a range: the entries behind `after`, up to and with `to`."""

    after: str
    to: str
    entries: int


async def plans_of(
    calls: Calls, cursors: Sequence[Cursor], *, max_entries: int | None, wait_ms: int
) -> list[Plan]:
    """Return a plan for each cursor; see `AsyncClient.plan`."""
    plans: list[Plan] = []
    remaining = max_entries
    for begin in range(0, len(cursors), _CURSORS_MAX):
        portion = cursors[begin : begin + _CURSORS_MAX]
        if remaining == 0:  # full: these stay where they are
            plans += [Plan(stream, epoch, after, after) for stream, after, epoch in portion]
            continue
        is_last = begin + _CURSORS_MAX >= len(cursors)
        wait_now_ms = wait_ms if is_last and not any(plan.entries for plan in plans) else 0
        body = {
            "cursors": [cursor._asdict() for cursor in portion],
            "max_entries": remaining,
            "wait_ms": wait_now_ms,
        }
        answer = await calls.call(
            "POST", "/v1/bulk/plan", body=body, wait_ms=wait_now_ms, is_repeatable=True
        )
        plans += map(_plan, answer["streams"])
        if max_entries is not None:
            remaining = max_entries - sum(plan.entries for plan in plans)
    return plans


def _plan(portion: Mapping[str, Any]) -> Plan:
    values = {name: portion[name] for name in Plan._fields}
    gap = values["gap"]
    return Plan(**values | {"gap": None if gap is None else Gap(gap["from"], gap["to"])})


ARROW = "application/vnd.apache.arrow.stream"

Compression = Literal["none", "zstd"]
Filter = Mapping[str, Any] | Sequence[Any]
"""A condition on fields in the dialects of CloudEvents subscriptions, or several that all hold."""

_COLUMNS_LENGTH_MAX = 16_000
"""Characters of names in a URL: with more of them all fields are sent."""


def selection(columns: Sequence[str] | None, condition: Filter | None) -> dict[str, str]:
    """Return the query parameters for a selection of fields and a filter."""
    query: dict[str, str] = {}
    if columns is not None:
        names = json.dumps(list(columns), ensure_ascii=False) if columns else ""
        if len(names) <= _COLUMNS_LENGTH_MAX:
            query["columns"] = names
    if condition is not None:
        query["filter"] = json.dumps(condition, ensure_ascii=False)
    return query


class Batches:
    """The entries of a range as record batches: an iterator, and a context that ends it.

    A batch has the columns `id`, `ms`, `seq` and `fields`, a map of bytes. If the connection is
    lost, the iterator goes on behind the last entry that came. It raises `AnswerLost` if it cannot:
    the stream was begun anew meanwhile, or entries that were to come were trimmed.

    Example:
        async with await hg.stream("orders").batches() as batches:
            async for batch in batches:
                print(batch.num_rows)

    Attributes:
        epoch: the life the stream is in.
        last_id: the last id of the stream.
        gap_to: up to and with this id, entries of the range were trimmed; None: none were.
    """

    def __init__(
        self, answer: httpx.Response, ask_behind: Callable[[str], Awaitable[httpx.Response]]
    ) -> None:
        """Read a response still without its body; `ask_behind` requests the rest behind an id."""
        self.epoch: str = answer.headers["Headgate-Epoch"]
        self.last_id: str = answer.headers["Headgate-Last-Id"]
        self.gap_to: str | None = answer.headers.get("Headgate-Gap-To")
        self._answer = answer
        self._ask_behind = ask_behind
        self._batches = _batches_in(answer)
        self._newest_id: str | None = None
        """The newest id of this answer."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        while True:
            try:
                batch = await anext(self._batches)
            except AnswerLost:
                if self._newest_id is None:
                    raise
                await self._go_on(behind=self._newest_id)
                continue
            if len(batch):  # without rows it only says that the gateway is still looking
                self._newest_id = batch.column("id")[-1].as_py()
                return batch

    async def aclose(self) -> None:
        """Close the response; what has not arrived is not sent."""
        await self._batches.aclose()
        await self._answer.aclose()

    async def _go_on(self, *, behind: str) -> None:
        await self.aclose()
        self._answer = await self._ask_behind(behind)
        self._batches = _batches_in(self._answer)
        self._newest_id = None
        if self._answer.headers["Headgate-Epoch"] != self.epoch:
            raise AnswerLost("the stream was begun anew while it was read")
        if "Headgate-Gap-To" in self._answer.headers:
            raise AnswerLost(f"entries behind {behind} were trimmed before they were read")


async def _batches_in(answer: httpx.Response) -> AsyncGenerator[pa.RecordBatch]:
    decoder = _Decoder()
    try:
        async for piece in answer.aiter_bytes():
            decoder.receive(piece)
            while (message := decoder.next_message()) is not None:
                batch = await asyncio.to_thread(decoder.decode, message)
                if batch is not None:
                    yield batch
    except httpx.TransportError as error:
        raise AnswerLost(f"{type(error).__name__}: {error}") from None
    if not decoder.has_ended:
        raise AnswerLost("the answer ended before the entries did")


class _Decoder:
    """Arrow's IPC stream format: a schema and then batches, each a length-prefixed message.

    A message begins with eight bytes, a marker and the length of its metadata. The metadata says
    how long the body is. A length of zero is the end.
    """

    def __init__(self) -> None:
        self.has_ended = False
        self._bytes = bytearray()
        self._schema: pa.Schema | None = None

    def receive(self, piece: bytes) -> None:
        self._bytes += piece

    def next_message(self) -> bytes | None:
        """Take the next message, or return None if it is not complete yet."""
        if len(self._bytes) < 8:
            return None
        described = 8 + int.from_bytes(self._bytes[4:8], "little")
        if described == 8:
            self.has_ended = True
            return None
        if len(self._bytes) < described:
            return None
        end = described + _body_size(self._bytes[8:described])
        if len(self._bytes) < end:
            return None
        message = bytes(self._bytes[:end])
        del self._bytes[:end]
        return message

    def decode(self, message: bytes) -> pa.RecordBatch | None:
        ipc = cast(Any, tables.arrow()).ipc
        read = ipc.read_message(message)
        if self._schema is None:
            self._schema = ipc.read_schema(read)
            return None
        return cast("pa.RecordBatch", ipc.read_record_batch(read, self._schema))


def _body_size(description: bytes | bytearray) -> int:
    """Return `bodyLength` of a message, the fourth field of a FlatBuffers table."""

    def number(at: int, size: int) -> int:
        return int.from_bytes(description[at : at + size], "little", signed=True)

    table = number(0, 4)
    places = table - number(table, 4)
    has_it = number(places, 2) > 4 + 2 * 3
    place = number(places + 4 + 2 * 3, 2) if has_it else 0
    return number(table + place, 8) if place else 0


class Attempt(NamedTuple):
    """The staged chunks that count for a partition: those of this attempt, numbered from 0."""

    partition: int
    attempt: str
    chunks: int


class Writer:
    """A named writer of batches. It stages a batch in chunks and commits it as a whole.

    The gateway remembers the last batch number: committing a batch again changes nothing.

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
        """Discard what is staged for a batch."""
        await self._calls.call("DELETE", f"{self._path}/batches/{batch}")

    async def last_batch(self) -> int | None:
        """Return the number of the last committed batch; None if there is none."""
        return cast(int | None, (await self._calls.call("GET", self._path))["last_batch"])
