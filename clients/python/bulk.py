"""Bulk: read plans, record batches of entries, and a writer that appends each batch once."""

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
"""Maximum number of cursors per request, by the contract."""


class Cursor(NamedTuple):
    """The position of a reader in a stream: after the entry `after`, in the epoch `epoch`."""

    stream: str
    after: str = "0-0"
    epoch: str | None = None


class Plan(NamedTuple):
    """The part of a stream that a cursor can read next.

    Attributes:
        stream: Name of the stream.
        epoch: Epoch of the stream. None: the stream does not exist.
        after: Position of the cursor.
        end: Last id to read, inclusive. Equal to `after` if there is nothing to read.
        entries: Number of entries up to `end`.
        backlog: Number of entries after `after`.
        last_id: Last id of the stream. None: the stream does not exist.
        first_id: First entry in the stream. None: the stream is empty.
        gap: Entries after `after` that were trimmed, if any.
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
    """A part of a range: the entries after `after`, up to and including `to`."""

    after: str
    to: str
    entries: int


async def plans_of(
    calls: Calls, cursors: Sequence[Cursor], *, max_entries: int | None, wait_ms: int
) -> list[Plan]:
    """Return a plan for each cursor. See `AsyncClient.plan`."""
    plans: list[Plan] = []
    remaining = max_entries
    for begin in range(0, len(cursors), _CURSORS_MAX):
        portion = cursors[begin : begin + _CURSORS_MAX]
        if remaining == 0:  # the limit is reached: the other cursors do not move
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
"""Maximum length of the names in a URL. Above it, all fields are sent."""


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
    """The entries of a range as record batches: an iterator, and a context manager that ends it.

    A batch has the columns `id`, `ms`, `seq` and `fields`, a map of bytes. After a loss of the
    connection, the iterator resumes after the last entry that it received. It raises `AnswerLost`
    if it cannot: the stream was created again, or entries of the range were trimmed before they
    were read.

    Example:
        async with await hg.stream("orders").batches() as batches:
            async for batch in batches:
                print(batch.num_rows)

    Attributes:
        epoch: Epoch of the stream.
        last_id: Last id of the stream.
        gap_to: Entries of the range up to and including this id were trimmed. None: none were.
    """

    def __init__(
        self, answer: httpx.Response, ask_behind: Callable[[str], Awaitable[httpx.Response]]
    ) -> None:
        """Take a response whose body is unread. `ask_behind` requests the rest after an id."""
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
            if len(batch):  # an empty batch only means that the gateway is still searching
                self._newest_id = batch.column("id")[-1].as_py()
                return batch

    async def aclose(self) -> None:
        """Close the response. Batches that have not arrived are not sent."""
        await self._batches.aclose()
        await self._answer.aclose()

    async def _go_on(self, *, behind: str) -> None:
        await self.aclose()
        self._answer = await self._ask_behind(behind)
        self._batches = _batches_in(self._answer)
        self._newest_id = None
        if self._answer.headers["Headgate-Epoch"] != self.epoch:
            raise AnswerLost("the stream was created again while it was read")
        if "Headgate-Gap-To" in self._answer.headers:
            raise AnswerLost(f"entries after {behind} were trimmed before they were read")


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

    A message starts with eight bytes, a marker and the length of its metadata. The metadata
    contains the length of the body. A length of zero marks the end.
    """

    def __init__(self) -> None:
        self.has_ended = False
        self._bytes = bytearray()
        self._schema: pa.Schema | None = None

    def receive(self, piece: bytes) -> None:
        self._bytes += piece

    def next_message(self) -> bytes | None:
        """Remove and return the next message, or return None if it is not complete yet."""
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
    """The staged chunks of a partition to commit: those of this attempt, numbered from 0."""

    partition: int
    attempt: str
    chunks: int


class Writer:
    """A named writer of batches. It stages a batch in chunks and commits it as a whole.

    The gateway stores the number of the last batch, so committing a batch again changes nothing.

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
        """Stage rows in the gateway until `commit`. Staging the same chunk again replaces it.

        Args:
            batch: Number of the batch. Numbers increase.
            partition: Number of the partition of the batch.
            attempt: Name of the attempt at the partition.
            chunk: Number of the chunk in the attempt, from 0.
            rows: Column `fields`, a map of names and values; optionally `id` and `stream`.
            stream: Stream for the rows, if there is no column `stream`.
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
        """Append the chunks of the attempts, all at once. Repeating a batch changes nothing.

        Args:
            batch: Number of the batch.
            attempts: The attempts to commit, one per partition.
            create_streams: Also create streams that do not exist.

        Raises:
            StagedMissing: A chunk has not arrived.
        """
        body = {
            "attempts": [attempt._asdict() for attempt in attempts],
            "create_streams": create_streams,
        }
        path = f"{self._path}/batches/{batch}/commit"
        return cast(Committed, await self._calls.call("POST", path, body=body, is_repeatable=True))

    async def abort(self, batch: int) -> None:
        """Discard the staged chunks of a batch."""
        await self._calls.call("DELETE", f"{self._path}/batches/{batch}")

    async def last_batch(self) -> int | None:
        """Return the number of the last committed batch. None: no batch was committed."""
        return cast(int | None, (await self._calls.call("GET", self._path))["last_batch"])
