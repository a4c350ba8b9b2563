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
        entries: in order.
        next_after: read on after this id; None: this is the end.
        last_id: of the stream.
        gap: entries that trimming took before these.
        closed_at_ms: when the stream was closed, if nothing comes behind `next_after` any more.
        next_before: of a range that is read downwards, the same: it goes on with `end=f"({id}"`.
        archived: some of the entries were trimmed, and come from the archive of the stream.
    """

    entries: list[Entry]
    next_after: str | None
    last_id: str
    gap: Gap | None
    closed_at_ms: int | None = None
    next_before: str | None = None
    archived: bool = False


class Following:
    """The entries of a stream as they arrive: an iterator, and a context that ends it.

    Attributes:
        gap: the trimmed ids before the latest entry; None: there are none.
    """

    def __init__(
        self,
        live: Live,
        wanted: Mapping[str, Any],
        *,
        credit: int,
        decode: Callable[[Mapping[str, Any]], Any] = entry_of,
    ) -> None:
        """See `Stream.follow`; `decode` returns an entry of what the gateway sends."""
        self.gap: Gap | None = None
        self.on_state: OnState | None = None
        self._live = live
        self._wanted = wanted
        self._credit = credit
        self._decode = decode
        self._subscription: Subscription | None = None

    @property
    def ready_count(self) -> int:
        """Return the number of entries that have arrived: so many steps do not wait."""
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
        """End it."""
        if self._subscription is not None:
            await self._live.leave(self._subscription)


async def until_ready(subscription: Subscription) -> None:
    """Wait for an entry; raise StopAsyncIteration or the error once the subscription ended."""
    while not subscription.items:
        if subscription.has_ended:
            if subscription.failure is None:
                raise StopAsyncIteration
            raise subscription.failure
        woken = asyncio.Event()
        subscription.waiters.append(woken.set)
        await woken.wait()


class Stream:
    """A stream by its name. Creating this object sends nothing.

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
        id: str | None = None,  # noqa: A002 - what it is called everywhere
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        ttl_ms: int | None = None,
        expires_at_ms: int | None = None,
        create_stream: bool = True,
        idempotency_key: str | None = None,
        if_last_id: str | None = None,
    ) -> str:
        """Append an entry, and return its id (XADD).

        Args:
            fields: names and values, text or bytes; pairs where a name repeats.
            id: of the entry; None: the gateway makes it.
            delay_ms: groups deliver it so much later, by 90 days at most.
            deliver_at_ms: instead: no sooner than this unix time.
            ttl_ms: groups deliver it for so long, and then no more.
            expires_at_ms: instead: until this unix time.
            create_stream: append also if the stream does not exist.
            idempotency_key: a repeat with the same key appends nothing, and returns the first id.
                A client with a `producer` makes one for each append.
            if_last_id: append only if this is the last id (`LastIdMismatch` otherwise).

        Raises:
            AnswerLost: the entry may be there. With an idempotency key the append is repeated.
            Problem: the gateway refused it.
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
        """Append entries, all or none, and return their ids; see `append`.

        An `Entry` is appended under its own id, with its times. A `Draft` says more than fields,
        such as `Draft({"sku": "42"}, delay_ms=60_000)`.
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
            after: only what is above this id; `$`: only what comes from now on.
            start: the lowest id of a range, inclusive.
            end: the highest id of a range, inclusive.
            limit: entries at most.
            reverse: the highest id of the range first.
            wait_ms: how long to wait for an entry after `after`. Where the stream is closed and
                read to its end, it does not wait.
            filter: only entries for which it holds, such as `{"exact": {"sku": "42"}}`. A page may
                have none of them, and more come behind it: of a range until `next_after` (or
                `next_before`) is None, after an id until `next_after` is `last_id`.
            columns: the fields that are sent, by name; None: all of them.
            archived: read what is archived as well, where the stream keeps an archive.
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
        """Yield the entries that are there now, a page of `limit` at a time.

        Args:
            after: an id; `0` for all entries.
            limit: entries in one page.
            filter: only entries that match; a page may have none.
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
        """Yield the entries that are there now, fetched in pages of `limit`.

        Args:
            after: an id; `0` for all entries.
            limit: entries in one page.
            filter: only entries that match.
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
        """Follow the stream: an iterator of entries that waits for the next one (XREAD BLOCK).

        It survives every loss of the connection, without a lost or repeated entry. It ends after
        the last entry of a stream that is closed.

        Args:
            after: an id, `0` for all entries, or `$` for only new ones.
            credit: entries that may be on the way to this program.
            on_state: called when entries come, when all were read (`caught_up`), when there will be
                no others (`closed`), and when the connection is `lost`, with the reason.
            filter: only entries that match, such as `{"exact": {"sku": "42"}}`.
        """
        wanted: dict[str, Any] = {"stream": self.name, "after": after}
        if filter is not None:
            wanted["filter"] = filter
        following = Following(self._live, wanted, credit=credit)
        following.on_state = on_state
        return following

    def table(self) -> Table:
        """Return the table that the stream is, if it has a `key_field`: its latest entry by key."""

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
        """Return entries as an Arrow table, without Spark: `_id`, `_time`, and the fields.

        Args:
            start: the lowest id, inclusive; `(1718000000000-0`: exclusive.
            end: the highest id, inclusive.
            schema: which fields become columns, and their types, such as
                `{"sku": "string", "price": "float64"}`; None: all, with types that are inferred.
                The gateway sends no others.
            filter: see `batches`.

        Raises:
            PackageMissing: the extra `tables` is not installed.
            ValueError: a value does not fit the schema.
        """
        tables.arrow()
        dividing: list[asyncio.Task[tables.Divided]] = []
        try:
            columns = None if schema is None else list(schema)
            asked = self.batches(start=start, end=end, columns=columns, filter=filter)
            async with await asked as arriving:
                async for batch in arriving:  # which is divided while others come
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
        """Return entries as a pandas DataFrame whose index is `_id`; see `read_arrow`."""
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
        """Return entries as a polars DataFrame; see `read_arrow`."""
        table = await self.read_arrow(start=start, end=end, schema=schema, filter=filter)
        return cast("pl.DataFrame", tables.polars().from_arrow(table))

    async def write_arrow(self, table: pa.Table | pa.RecordBatch, *, chunk: int = 10_000) -> int:
        """Append the rows of an Arrow table, and return how many.

        Each column is a field, as text, and left out where it is null. `_id` is the entry's id.
        Each chunk is appended as a whole, or not at all.

        Args:
            table: the rows.
            chunk: rows of one request.
        """
        entries = await asyncio.to_thread(tables.entries_of, table)
        for begin in range(0, len(entries), chunk):
            await self.append_batch(entries.slice(begin, chunk))
        return len(entries)

    async def write_pandas(self, frame: pd.DataFrame, *, chunk: int = 10_000) -> int:
        """Append the rows of a pandas DataFrame, and return how many; see `write_arrow`."""
        table = tables.arrow().Table.from_pandas(
            frame, preserve_index=frame.index.name == tables.ID
        )
        return await self.write_arrow(table, chunk=chunk)

    # In bulk

    async def splits(self, *, after: str = "0-0", to: str | None = None, parts: int) -> list[Split]:
        """Split a range into at most `parts` parts of about the same number of entries.

        Args:
            after: the range begins behind this id.
            to: the last id of the range; None: that of the stream.
            parts: maximum number of parts.
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
        """Return entries that are there now as Arrow record batches, which come one by one.

        Args:
            start: the lowest id, inclusive; `(1718000000000-0`: exclusive.
            end: the highest id, inclusive.
            compression: None: zstd over a network, none on this machine.
            columns: the fields that are sent; None: all.
            filter: only entries for which it holds are sent, such as `{"exact": {"sku": "42"}}`;
                see `readEntries` in the API for what may be written.

        Raises:
            StreamNotFound: there is no such stream.
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
        """Append the rows of a record batch, all or none, and return their ids.

        Args:
            rows: columns `fields`, a map of names and values, and optionally `id`, and times as
                `append` has them (int64).
            idempotency_key: see `append`.
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
        """Return one entry; raises `EntryNotFound` if there is none."""
        return entry_of(await self._calls.call("GET", f"{self._path}/entries/{segment(entry_id)}"))

    async def delete_entries(self, ids: Iterable[str]) -> dict[str, str]:
        """Delete entries, and return what became of each id (XDEL)."""
        body = {"ids": list(ids)}
        path = f"{self._path}/entries/delete"
        answer = await self._calls.call("POST", path, body=body, is_repeatable=True)
        return {result["id"]: result["outcome"] for result in answer["results"]}

    async def create(self, config: StreamConfig | None = None) -> StreamInfo:
        """Create the stream; raises `StreamExists` if it has another configuration."""
        return cast(StreamInfo, await self._calls.call("PUT", self._path, body=config or {}))

    async def update(self, config: StreamConfig) -> StreamInfo:
        """Change the configuration; what is not named stays (XCFGSET)."""
        return cast(StreamInfo, await self._calls.call("PATCH", self._path, body=config))

    async def info(self) -> StreamInfo:
        """Return the stream's length, ids and configuration (XINFO STREAM)."""
        return cast(StreamInfo, await self._calls.call("GET", self._path))

    async def detail(self, *, count: int = 10) -> StreamDetail:
        """Return the stream with its groups and their consumers (XINFO STREAM FULL).

        Args:
            count: how many of its entries, and of the pending entries of each group, are shown.
        """
        query = {"full": "true", "count": count}
        return cast(StreamDetail, await self._calls.call("GET", self._path, query=query))

    async def schema(self) -> dict[str, Any] | None:
        """Return the schema that new entries have to match; None if there is none."""
        try:
            answer = await self._calls.call("GET", f"{self._path}/schema")
        except NotFound:
            return None
        return cast(dict[str, Any], answer["schema"])

    async def set_schema(self, schema: Mapping[str, Any], *, force: bool = False) -> None:
        """Set the schema that new entries have to match: a JSON Schema of the object of fields.

        The stream is created if it is not there.

        Args:
            schema: JSON Schema 2020-12. A value is read as JSON unless its field may be a text.
            force: replace a schema even if entries may be refused that were allowed before.
        """
        query = {"force": "true"} if force else {}
        await self._calls.call("PUT", f"{self._path}/schema", query=query, body={"schema": schema})

    async def delete_schema(self) -> None:
        """Delete the schema, so that the stream takes any entries again."""
        await self._calls.call("DELETE", f"{self._path}/schema")

    async def groups(self, *, limit: int = 100) -> AsyncGenerator[GroupInfo]:
        """Yield the groups, by pages of `limit` (XINFO GROUPS)."""
        async for group in self._calls.items(f"{self._path}/groups", "groups", limit=limit):
            yield cast(GroupInfo, group)

    async def trim(
        self, *, max_length: int | None = None, min_id: str | None = None, approximate: bool = False
    ) -> int:
        """Remove the oldest entries, and return how many (XTRIM).

        If an answer is lost, the request is repeated, and the number is that of the repeat.

        Args:
            max_length: number of entries to keep.
            min_id: entries from this id on are kept.
            approximate: a few more may be kept, which is faster.
        """
        body = {"max_length": max_length, "min_id": min_id, "approximate": approximate}
        sent = {name: value for name, value in body.items() if value is not None}
        path = f"{self._path}/trim"
        answer = await self._calls.call("POST", path, body=sent, is_repeatable=True)
        return cast(int, answer["removed"])

    async def trim_archive(self, *, before: str | None = None) -> int:
        """Remove archived entries for good, and return how many.

        Args:
            before: entries from this id on are kept; None: none is.
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
        """Close the stream for good, behind a last entry if there is one, in one step.

        Whoever follows it gets what there is, and then the iteration ends; of a group once it has
        settled everything. To close it again without an entry changes nothing.

        Args:
            fields: of the last entry; None: there is none.
            create_stream: append it also if the stream does not exist.
            idempotency_key: of the last entry; see `append`.
            if_last_id: close only if this is the last id (`LastIdMismatch` otherwise).

        Raises:
            StreamClosed: it is closed, and there is an entry.
            AnswerLost: it may be closed. With an idempotency key the append is repeated.
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
        """Delete the stream with its groups (DEL)."""
        await self._calls.call("DELETE", self._path)

    def _append_headers(
        self, idempotency_key: str | None, if_last_id: str | None, *, has_ids: bool
    ) -> tuple[dict[str, str], bool]:
        """Return the headers of an append, and whether it may be repeated.

        Entries with ids of their own need no key: a repeat is refused.
        """
        headers = {} if if_last_id is None else {"If-Match": f'"{if_last_id}"'}
        if self._producer is not None and not has_ids:
            headers["Idempotency-Producer"] = self._producer
            idempotency_key = idempotency_key or uuid.uuid4().hex
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        return headers, idempotency_key is not None


OnState = Callable[[State, str], None]
"""Is called with a new state, and with the reason for it where there is one."""

OnClaimed = Callable[[str, str], None]
"""Is called with the id of an entry that was held, and the consumer that has it now."""


def _parts_of(entry_id: str) -> tuple[int, ...]:
    return tuple(map(int, entry_id.split("-")))
