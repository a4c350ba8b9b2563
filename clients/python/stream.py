"""Stream: append entries, read them, and follow them."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from headgate.client import tables
from headgate.client.bulk import ARROW, Batches, Compression, Filter, Split, selection
from headgate.client.calls import Calls, segment
from headgate.client.entries import Draft, Entry, Fields, Gap, Pairs, encoded, entry_of
from headgate.client.live import Live
from headgate.client.problems import NotFound
from headgate.client.shapes.answers import ClosedStream, GroupInfo, StreamDetail, StreamInfo
from headgate.client.shapes.settings import StreamConfig
from headgate.client.subscription import State, Subscription
from headgate.client.table import Table

if TYPE_CHECKING:
    import httpx
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Page(NamedTuple):
    """Entries of one answer.

    Attributes:
        entries: Entries in order.
        next_after: Id after which to continue. None: this is the last page.
        last_id: Last id of the stream.
        gap: Entries that were trimmed before these.
        closed_at_ms: When the stream was closed, if no entries follow `next_after`.
        next_before: Like `next_after`, for a range in descending order: continue with
            `end=f"({id}"`.
        archived: Whether some of the entries were trimmed, and come from the archive of the stream.
    """

    entries: list[Entry]
    next_after: str | None
    last_id: str
    gap: Gap | None
    closed_at_ms: int | None = None
    next_before: str | None = None
    archived: bool = False


class Following:
    """The entries of a stream as they arrive: an iterator, and a context manager that ends it.

    Attributes:
        gap: Ids that were trimmed before the latest entry. None: nothing was trimmed.
    """

    def __init__(
        self,
        live: Live,
        wanted: Mapping[str, Any],
        *,
        credit: int,
        decode: Callable[[Mapping[str, Any]], Any] = entry_of,
    ) -> None:
        """See `Stream.follow`. `decode` converts a frame item to an entry."""
        self.gap: Gap | None = None
        self.on_state: OnState | None = None
        self._live = live
        self._wanted = wanted
        self._credit = credit
        self._decode = decode
        self._subscription: Subscription | None = None

    @property
    def ready_count(self) -> int:
        """Return the number of entries that have arrived and can be read without waiting."""
        return 0 if self._subscription is None else len(self._subscription.items)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        if self._subscription is None:
            self._subscription = self._live.subscribe(self._wanted, credit=self._credit)
            self._subscription.on_state = self.on_state
        subscription = self._subscription
        if not subscription.items:
            await until_ready(subscription)
        self.gap, subscription.gap = subscription.gap, None
        entry: Entry = self._decode(subscription.next_item())
        if subscription.has_frames:
            self._live.say()
        return entry

    async def aclose(self) -> None:
        """End the subscription."""
        if self._subscription is not None:
            await self._live.leave(self._subscription)


async def until_ready(subscription: Subscription) -> None:
    """Wait for an entry. Raise StopAsyncIteration or the error when the subscription has ended."""
    while not subscription.items:
        if subscription.has_ended:
            if subscription.failure is None:
                raise StopAsyncIteration
            raise subscription.failure
        woken = asyncio.Event()
        subscription.waiters.append(woken.set)
        await woken.wait()


class Stream:
    """A stream by name. Creating this object sends nothing.

    Example:
        orders = hg.stream("orders")
        entry_id = await orders.append({"sku": "42"})
        async for entry in orders.follow(after="$"):
            print(entry.id, entry.fields["sku"])
    """

    def __init__(self, calls: Calls, live: Live, name: str, producer: str | None) -> None:
        """See `AsyncClient.stream`."""
        self.name = name
        self._calls = calls
        self._live = live
        self._producer = producer
        self._path = f"/v1/streams/{segment(name)}"

    async def append(
        self,
        fields: Fields | Pairs,
        *,
        id: str | None = None,  # noqa: A002 - the usual name
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        ttl_ms: int | None = None,
        expires_at_ms: int | None = None,
        create_stream: bool = True,
        idempotency_key: str | None = None,
        if_last_id: str | None = None,
    ) -> str:
        """Append an entry and return its id (XADD).

        Args:
            fields: Names and values, text or bytes. Use pairs if a name repeats.
            id: Id of the entry. None: the gateway generates it.
            delay_ms: How long groups wait before they deliver the entry: at most 90 days.
            deliver_at_ms: Alternative to `delay_ms`: a unix time in ms.
            ttl_ms: How long groups may deliver the entry.
            expires_at_ms: Alternative to `ttl_ms`: a unix time in ms.
            create_stream: Whether to create the stream if it does not exist.
            idempotency_key: A repeat with the same key appends nothing and returns the first id.
                Default: a new key for each append if the client has a `producer`, otherwise none.
            if_last_id: Append only if this is the last id of the stream; otherwise raise
                `LastIdMismatch`.

        Raises:
            AnswerLost: The entry may have been appended. With an idempotency key, the client
                repeats the append.
            Problem: The gateway refused the entry.
        """
        body = Draft(fields, id, delay_ms, deliver_at_ms, ttl_ms, expires_at_ms).encoded()
        if not create_stream:
            body["create_stream"] = False
        headers, is_repeatable = self._append_headers(
            idempotency_key, if_last_id, has_ids=id is not None
        )
        path = f"{self._path}/entries"
        answer = await self._calls.call(
            "POST", path, body=body, headers=headers, is_repeatable=is_repeatable
        )
        return cast(str, answer["id"])

    async def append_many(
        self,
        entries: Iterable[Fields | Pairs | Entry | Draft],
        *,
        create_stream: bool = True,
        idempotency_key: str | None = None,
        if_last_id: str | None = None,
    ) -> list[str]:
        """Append all entries or none, and return their ids. See `append`.

        An `Entry` is appended with its own id and times. A `Draft` has options, as in
        `Draft({"sku": "42"}, delay_ms=60_000)`.
        """
        drafts = [Draft.of(entry).encoded() for entry in entries]
        if not drafts:
            return []
        lines = [json.dumps(draft, ensure_ascii=False) for draft in drafts]
        has_ids = any("id" in draft for draft in drafts)
        headers, is_repeatable = self._append_headers(idempotency_key, if_last_id, has_ids=has_ids)
        answer = await self._calls.call(
            "POST",
            f"{self._path}/entries/batch",
            content="\n".join(lines).encode(),
            query=None if create_stream else {"create_stream": "false"},
            headers={**headers, "Content-Type": "application/x-ndjson"},
            is_repeatable=is_repeatable,
        )
        return cast(list[str], answer["ids"])

    async def read(
        self,
        *,
        after: str | None = None,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
        wait_ms: int = 0,
        filter: Filter | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
        archived: bool = True,
    ) -> Page:
        """Return entries after an id, or of a range (XREAD, XRANGE, XREVRANGE).

        Args:
            after: Only entries after this id. `$`: only new entries.
            start: First id of a range, inclusive.
            end: Last id of a range, inclusive.
            limit: Maximum number of entries.
            reverse: Return the range in descending order.
            wait_ms: How long to wait for an entry after `after`. At the end of a closed stream, the
                read does not wait.
            filter: Only entries that match, such as `{"exact": {"sku": "42"}}`. A page can be empty
                even if more entries follow: for a range, continue until `next_after` (or
                `next_before`) is None; after an id, until `next_after` is `last_id`.
            columns: Names of the fields to return. None: all fields.
            archived: Also read archived entries if the stream has an archive.
        """
        query = {
            "after": after,
            "start": start,
            "end": end,
            "limit": limit,
            "order": "desc" if reverse else None,
            "wait_ms": wait_ms or None,
            "archived": None if archived else "false",
            **selection(columns, filter),
        }
        answer = await self._calls.call(
            "GET", f"{self._path}/entries", query=query, wait_ms=wait_ms
        )
        gap = answer["gap"]
        return Page(
            list(map(entry_of, answer["entries"])),
            answer["next_after"],
            answer["last_id"],
            None if gap is None else Gap(gap["from"], gap["to"]),
            answer.get("closed_at_ms"),
            answer.get("next_before"),
            answer.get("archived", False),
        )

    async def pages(
        self,
        *,
        after: str = "0",
        limit: int = 1_000,
        filter: Filter | None = None,  # noqa: A002
    ) -> AsyncGenerator[Page]:
        """Yield the entries that exist now, in pages of `limit`.

        Args:
            after: An id, or `0` for all entries.
            limit: Number of entries per page.
            filter: Only entries that match. A page can be empty.
        """
        page = await self.read(after=after, limit=limit, filter=filter)
        last = _parts_of(page.last_id)
        while True:
            yield page
            is_empty = filter is None and not page.entries
            if is_empty or page.next_after is None or _parts_of(page.next_after) >= last:
                return
            page = await self.read(after=page.next_after, limit=limit, filter=filter)

    async def scan(
        self,
        *,
        after: str = "0",
        limit: int = 1_000,
        filter: Filter | None = None,  # noqa: A002
    ) -> AsyncGenerator[Entry]:
        """Yield the entries that exist now, one by one.

        Args:
            after: An id, or `0` for all entries.
            limit: Number of entries per request.
            filter: Only entries that match.
        """
        async for page in self.pages(after=after, limit=limit, filter=filter):
            for entry in page.entries:
                yield entry

    def follow(
        self,
        *,
        after: str = "$",
        credit: int = 256,
        on_state: OnState | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> Following:
        """Follow the stream: iterate over its entries and wait for new ones (XREAD BLOCK).

        The iterator resumes after each loss of the connection, without lost or repeated entries. It
        ends after the last entry of a closed stream.

        Args:
            after: An id, `0` for all entries, or `$` for new entries only.
            credit: Maximum number of entries in flight to this program.
            on_state: Called when entries arrive, when all entries have been read (`caught_up`),
                when the stream has ended (`closed`), and when the connection is `lost`, with the
                reason.
            filter: Only entries that match, such as `{"exact": {"sku": "42"}}`.
        """
        wanted: dict[str, Any] = {"stream": self.name, "after": after}
        if filter is not None:
            wanted["filter"] = filter
        following = Following(self._live, wanted, credit=credit)
        following.on_state = on_state
        return following

    def table(self) -> Table:
        """Return the table of a stream with a `key_field`: the latest entry of each key."""

        def follow(prefix: str, credit: int) -> Following:
            wanted = {"stream": self.name, "view": "table"}
            if prefix:
                wanted["prefix"] = prefix
            return Following(self._live, wanted, credit=credit, decode=lambda item: item)

        return Table(self._calls, self._path, follow)

    # Record batches and frames

    async def read_arrow(
        self,
        *,
        start: str = "-",
        end: str = "+",
        schema: tables.Schema | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> pa.Table:
        """Return entries as an Arrow table with `_id`, `_time`, and a column for each field.

        Args:
            start: First id, inclusive. `(1718000000000-0`: exclusive.
            end: Last id, inclusive.
            schema: Fields to return as columns, and their types, such as
                `{"sku": "string", "price": "float64"}`. The gateway sends only these fields. None:
                all fields, with inferred types.
            filter: See `batches`.

        Raises:
            PackageMissing: The extra `tables` is not installed.
            ValueError: A value does not match the schema.
        """
        tables.arrow()
        dividing: list[asyncio.Task[tables.Divided]] = []
        try:
            columns = None if schema is None else list(schema)
            asked = self.batches(start=start, end=end, columns=columns, filter=filter)
            async with await asked as arriving:
                async for batch in arriving:  # divide it while others arrive
                    work = asyncio.to_thread(tables.divided, batch, schema)
                    dividing.append(asyncio.create_task(work))
        finally:
            parts = await asyncio.gather(*dividing)
        return await asyncio.to_thread(tables.joined, parts, schema)

    async def read_pandas(
        self,
        *,
        start: str = "-",
        end: str = "+",
        schema: tables.Schema | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> pd.DataFrame:
        """Return entries as a pandas DataFrame with the index `_id`. See `read_arrow`."""
        table = await self.read_arrow(start=start, end=end, schema=schema, filter=filter)
        return await asyncio.to_thread(tables.frame_of, table)

    async def read_polars(
        self,
        *,
        start: str = "-",
        end: str = "+",
        schema: tables.Schema | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> pl.DataFrame:
        """Return entries as a polars DataFrame. See `read_arrow`."""
        table = await self.read_arrow(start=start, end=end, schema=schema, filter=filter)
        return cast("pl.DataFrame", tables.polars().from_arrow(table))

    async def write_arrow(self, table: pa.Table | pa.RecordBatch, *, chunk: int = 10_000) -> int:
        """Append the rows of an Arrow table, and return their number.

        Each column is a field, as text. Null values are left out. `_id` is the id of the entry.
        Each chunk is appended completely or not at all.

        Args:
            table: The rows.
            chunk: Number of rows per request.
        """
        entries = await asyncio.to_thread(tables.entries_of, table)
        for begin in range(0, len(entries), chunk):
            await self.append_batch(entries.slice(begin, chunk))
        return len(entries)

    async def write_pandas(self, frame: pd.DataFrame, *, chunk: int = 10_000) -> int:
        """Append the rows of a pandas DataFrame, and return their number. See `write_arrow`."""
        table = tables.arrow().Table.from_pandas(
            frame, preserve_index=frame.index.name == tables.ID
        )
        return await self.write_arrow(table, chunk=chunk)

    # In bulk

    async def splits(self, *, after: str = "0-0", to: str | None = None, parts: int) -> list[Split]:
        """Split a range into at most `parts` parts with about the same number of entries.

        Args:
            after: Id after which the range starts.
            to: Last id of the range. None: the last id of the stream.
            parts: Maximum number of parts.
        """
        query = {"after": after, "to": to, "parts": parts}
        answer = await self._calls.call("GET", f"{self._path}/splits", query=query)
        return [Split(part["after"], part["to"], part["entries"]) for part in answer["splits"]]

    async def batches(
        self,
        *,
        start: str = "-",
        end: str = "+",
        compression: Compression | None = None,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> Batches:
        """Return the entries that exist now as Arrow record batches, which arrive one by one.

        Args:
            start: First id, inclusive. `(1718000000000-0`: exclusive.
            end: Last id, inclusive.
            compression: `none` or `zstd`. Default: `none` for a gateway on this machine, `zstd`
                otherwise.
            columns: Names of the fields to return. None: all fields.
            filter: Only entries that match, such as `{"exact": {"sku": "42"}}`. For the syntax, see
                `readEntries` in the API.

        Raises:
            StreamNotFound: The stream does not exist.
        """
        if compression is None:
            compression = "none" if self._calls.is_local else "zstd"
        wanted = selection(columns, filter)

        async def ask(start: str) -> httpx.Response:
            return await self._calls.send(
                "GET",
                f"{self._path}/entries",
                query={"start": start, "end": end, "compression": compression, **wanted},
                headers={"Accept": ARROW},
                is_streamed=True,
            )

        return Batches(await ask(start), lambda behind: ask(f"({behind}"))

    async def append_batch(
        self, rows: pa.RecordBatch, *, idempotency_key: str | None = None
    ) -> list[str]:
        """Append all rows of a record batch or none, and return their ids.

        Args:
            rows: Column `fields`, a map of names and values; optionally `id`, and the times of
                `append` (int64).
            idempotency_key: See `append`.
        """
        has_ids = "id" in rows.schema.names
        headers, is_repeatable = self._append_headers(idempotency_key, None, has_ids=has_ids)
        answer = await self._calls.call(
            "POST",
            f"{self._path}/entries/batch",
            content=tables.encoded(rows),
            headers={**headers, "Content-Type": ARROW},
            is_repeatable=is_repeatable,
        )
        return cast(list[str], answer["ids"])

    async def get(self, entry_id: str) -> Entry:
        """Return an entry. Raises `EntryNotFound` if it does not exist."""
        return entry_of(await self._calls.call("GET", f"{self._path}/entries/{segment(entry_id)}"))

    async def delete_entries(self, ids: Iterable[str]) -> dict[str, str]:
        """Delete entries, and return the outcome for each id (XDEL)."""
        body = {"ids": list(ids)}
        path = f"{self._path}/entries/delete"
        answer = await self._calls.call("POST", path, body=body, is_repeatable=True)
        return {result["id"]: result["outcome"] for result in answer["results"]}

    async def create(self, config: StreamConfig | None = None) -> StreamInfo:
        """Create the stream. Raises `StreamExists` if it exists with another configuration."""
        return cast(StreamInfo, await self._calls.call("PUT", self._path, body=config or {}))

    async def update(self, config: StreamConfig) -> StreamInfo:
        """Change the given settings and keep the others (XCFGSET)."""
        return cast(StreamInfo, await self._calls.call("PATCH", self._path, body=config))

    async def info(self) -> StreamInfo:
        """Return the length, ids and configuration of the stream (XINFO STREAM)."""
        return cast(StreamInfo, await self._calls.call("GET", self._path))

    async def detail(self, *, count: int = 10) -> StreamDetail:
        """Return the stream with its groups and their consumers (XINFO STREAM FULL).

        Args:
            count: Maximum number of entries, and of pending entries per group, to return.
        """
        query = {"full": "true", "count": count}
        return cast(StreamDetail, await self._calls.call("GET", self._path, query=query))

    async def schema(self) -> dict[str, Any] | None:
        """Return the schema that new entries must match. None: there is no schema."""
        try:
            answer = await self._calls.call("GET", f"{self._path}/schema")
        except NotFound:
            return None
        return cast(dict[str, Any], answer["schema"])

    async def set_schema(self, schema: Mapping[str, Any], *, force: bool = False) -> None:
        """Set the schema that new entries must match: a JSON Schema for the object of fields.

        Creates the stream if it does not exist.

        Args:
            schema: JSON Schema 2020-12. A value is parsed as JSON unless its field may be a string.
            force: Replace a schema even if the new one may refuse entries that the old one allowed.
        """
        query = {"force": "true"} if force else {}
        await self._calls.call("PUT", f"{self._path}/schema", query=query, body={"schema": schema})

    async def delete_schema(self) -> None:
        """Delete the schema. The stream then accepts any entries."""
        await self._calls.call("DELETE", f"{self._path}/schema")

    async def groups(self, *, limit: int = 100) -> AsyncGenerator[GroupInfo]:
        """Yield the groups, in pages of `limit` (XINFO GROUPS)."""
        async for group in self._calls.items(f"{self._path}/groups", "groups", limit=limit):
            yield cast(GroupInfo, group)

    async def trim(
        self, *, max_length: int | None = None, min_id: str | None = None, approximate: bool = False
    ) -> int:
        """Remove the oldest entries, and return their number (XTRIM).

        If the answer is lost, the client repeats the request. The result is then the number that
        the repeat removed.

        Args:
            max_length: Number of entries to keep.
            min_id: Keep entries from this id on.
            approximate: Faster, but may keep a few more entries.
        """
        body = {"max_length": max_length, "min_id": min_id, "approximate": approximate}
        sent = {name: value for name, value in body.items() if value is not None}
        path = f"{self._path}/trim"
        answer = await self._calls.call("POST", path, body=sent, is_repeatable=True)
        return cast(int, answer["removed"])

    async def trim_archive(self, *, before: str | None = None) -> int:
        """Delete archived entries permanently, and return their number.

        Args:
            before: Keep entries from this id on. None: delete all.
        """
        answer = await self._calls.call("DELETE", f"{self._path}/archive", query={"before": before})
        return cast(int, answer["removed"])

    async def close(
        self,
        fields: Fields | Pairs | None = None,
        *,
        create_stream: bool = True,
        idempotency_key: str | None = None,
        if_last_id: str | None = None,
    ) -> ClosedStream:
        """Close the stream permanently, optionally with a last entry, in one step.

        Followers receive the remaining entries, and then their iterators end. Iterators of
        consumers end when the group has settled everything. Closing a closed stream without an
        entry changes nothing.

        Args:
            fields: Fields of the last entry. None: no entry.
            create_stream: Whether to create the stream for the last entry if it does not exist.
            idempotency_key: Key for the last entry. See `append`.
            if_last_id: Close only if this is the last id of the stream; otherwise raise
                `LastIdMismatch`.

        Raises:
            StreamClosed: The stream is closed already, and there is an entry to append.
            AnswerLost: The stream may be closed. With an idempotency key, the client repeats the
                request.
        """
        body = None if fields is None else encoded(fields)
        if body is not None and not create_stream:
            body["create_stream"] = False
        headers, is_repeatable = self._append_headers(
            idempotency_key, if_last_id, has_ids=fields is None
        )
        path = f"{self._path}/close"
        answer = await self._calls.call(
            "POST", path, body=body, headers=headers, is_repeatable=is_repeatable or body is None
        )
        return cast(ClosedStream, answer)

    async def delete(self) -> None:
        """Delete the stream and its groups (DEL)."""
        await self._calls.call("DELETE", self._path)

    def _append_headers(
        self, idempotency_key: str | None, if_last_id: str | None, *, has_ids: bool
    ) -> tuple[dict[str, str], bool]:
        """Return the headers of an append, and whether it may be repeated.

        Entries with their own ids need no key: the gateway refuses a repeat.
        """
        headers = {} if if_last_id is None else {"If-Match": f'"{if_last_id}"'}
        if self._producer is not None and not has_ids:
            headers["Idempotency-Producer"] = self._producer
            idempotency_key = idempotency_key or uuid.uuid4().hex
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        return headers, idempotency_key is not None


OnState = Callable[[State, str], None]
"""Called with a new state, and the reason for it if there is one."""

OnClaimed = Callable[[str, str], None]
"""Called with the id of an entry that was claimed, and the consumer that claimed it."""


def _parts_of(entry_id: str) -> tuple[int, ...]:
    return tuple(map(int, entry_id.split("-")))
