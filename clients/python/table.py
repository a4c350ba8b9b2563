"""Table: the latest entry of each key of a stream, read, changed and followed."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headgate.client import tables
from headgate.client.bulk import Filter, selection
from headgate.client.calls import Calls, segment
from headgate.client.entries import Fields, Pairs, Value, encoded, entry_of
from headgate.client.problems import EntryNotFound, Gone
from headgate.client.subscription import ALL_ROWS_CAME, ALL_ROWS_COME

if TYPE_CHECKING:
    import pandas as pd

Follow = Callable[[str, int], Any]
"""Returns the `Following` of rows whose keys begin with a text; so many may be on the way."""


class Row(NamedTuple):
    """The latest entry of a key.

    Attributes:
        key: the value of the key field; `base64:` and base64 text if it is no text.
        id: of the entry.
        fields: its names and values. If a name repeats, its last value.
    """

    key: str
    id: str
    fields: dict[str, Value]


class RowChange(NamedTuple):
    """A change of a row.

    Attributes:
        key: of the row.
        id: of the entry that changed it.
        fields: what it has now; None: it was removed.
    """

    key: str
    id: str
    fields: dict[str, Value] | None


class Table:
    """The table of a stream that has a `key_field`. Creating this object sends nothing.

    Example:
        stock = hg.stream("stock").table()
        row = await stock.get("42")
        await stock.put("42", {"count": "4"}, if_match=row.id)
    """

    def __init__(self, calls: Calls, path: str, follow: Follow) -> None:
        """See `Stream.table`; `follow` follows the rows with a prefix."""
        self._calls = calls
        self._path = f"{path}/table"
        self._follow = follow

    async def get(self, key: str) -> Row | None:
        """Return the row of a key; None: there is none."""
        try:
            return _row_of(await self._calls.call("GET", f"{self._path}/{segment(key)}"))
        except EntryNotFound:
            return None

    async def wait(self, key: str, *, after: str, wait_ms: int = 20_000) -> Row | None:
        """Return the row of a key once it has changed after an id, or when the time is over."""
        query = {"after": after, "wait_ms": wait_ms}
        path = f"{self._path}/{segment(key)}"
        try:
            return _row_of(await self._calls.call("GET", path, query=query, wait_ms=wait_ms))
        except EntryNotFound:
            return None

    async def put(
        self,
        key: str,
        fields: Fields | Pairs,
        *,
        if_match: str | None = None,
        if_absent: bool = False,
        idempotency_key: str | None = None,
    ) -> str:
        """Append the entry that is the row of a key from now on, and return its id.

        Args:
            key: of the row. Its field is added.
            fields: names and values, text or bytes; pairs where a name repeats.
            if_match: only if this is the id of the row (`RowChanged` otherwise).
            if_absent: only if there is no row (likewise).
            idempotency_key: a repeat with the same key appends nothing. The client makes one for
                each put unless it is given, so an answer that is lost is asked for again.
        """
        headers = _conditions(if_match, idempotency_key)
        if if_absent:
            headers["If-None-Match"] = "*"
        path = f"{self._path}/{segment(key)}"
        answer = await self._calls.call("PUT", path, body=encoded(fields), headers=headers)
        return cast(str, answer["id"])

    async def delete(
        self, key: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> bool:
        """Append an entry that removes the row of a key; false: there is none.

        Args:
            key: of the row.
            if_match: only if this is the id of the row (`RowChanged` otherwise).
            idempotency_key: see `put`.
        """
        headers = _conditions(if_match, idempotency_key)
        try:
            await self._calls.call("DELETE", f"{self._path}/{segment(key)}", headers=headers)
        except EntryNotFound:
            return False
        return True

    async def rows(
        self,
        *,
        prefix: str = "",
        filter: Filter | None = None,  # noqa: A002
        limit: int = 1_000,
    ) -> AsyncGenerator[Row]:
        """Yield all rows in order of their keys, as of one id, by pages of `limit`.

        Args:
            prefix: only keys that begin with it.
            filter: only rows that match, such as `{"exact": {"kind": "sale"}}`.
            limit: rows in one page.

        Raises:
            Gone: too much has changed meanwhile: begin again.
        """
        async for page in self._pages(prefix, filter, limit):
            for row in page["rows"]:
                yield _row_of(row)

    async def to_pandas(
        self, *, as_of: str | None = None, schema: tables.Schema | None = None
    ) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame: `_id`, `_time`, and the fields, by `_key`.

        Its `attrs["as_of"]` is the id that the rows are as of.

        Args:
            as_of: such an id of an earlier read, as long as the gateway knows how the table was.
            schema: which fields become columns, and their types; see `Stream.read_arrow`.

        Raises:
            Gone: the gateway does not know how the table was at `as_of`.
            PackageMissing: the extra `tables` is not installed.
            ValueError: a value does not fit the schema.
        """
        tables.arrow()
        rows, as_of = await self._all(as_of)
        entries = [(row.id, row.fields) for row in rows.values()]
        return await asyncio.to_thread(tables.frame_of_rows, list(rows), entries, schema, as_of)

    async def changes(self, *, prefix: str = "", credit: int = 256) -> AsyncGenerator[RowChange]:
        """Yield all rows, and then each change as it comes, until the stream is closed.

        It survives every loss of the connection. Where entries were trimmed before this program
        has seen them, the rows are read again, and what differs is yielded.

        Args:
            prefix: only rows whose keys begin with it.
            credit: rows that may be on the way to this program.
        """
        known: dict[str, str] = {}  # the id of each row
        gone: set[str] = set()  # rows that have not come again
        async with self._follow(prefix, credit) as items:
            async for item in items:
                if item is ALL_ROWS_COME:
                    gone = set(known)
                elif item is ALL_ROWS_CAME:
                    for key in gone:
                        yield RowChange(key, known.pop(key), None)
                else:
                    change = _change_of(item)
                    gone.discard(change.key)
                    before = known.pop(change.key, None)
                    now = None if change.fields is None else change.id
                    if now is not None:
                        known[change.key] = now
                    if before != now:
                        yield change

    async def _all(self, as_of: str | None = None) -> tuple[dict[str, Row], str]:
        """Return all rows by key, and the id that they are as of."""
        while True:
            rows: dict[str, Row] = {}
            try:
                async for page in self._pages("", None, 1_000, as_of):
                    rows |= {row["key"]: _row_of(row) for row in page["rows"]}
            except Gone:
                if as_of is not None:
                    raise
                continue
            return rows, page["as_of"]

    async def _pages(
        self, prefix: str, wanted: Filter | None, limit: int, as_of: str | None = None
    ) -> AsyncGenerator[dict[str, Any]]:
        query: dict[str, Any] = {"prefix": prefix, "limit": limit, **selection(None, wanted)}
        if as_of is not None:
            query["as_of"] = as_of
        while True:
            page = await self._calls.call("GET", self._path, query=query)
            yield page
            if page["next_after_key"] is None:
                return
            query |= {"after_key": page["next_after_key"], "as_of": page["as_of"]}


def _change_of(item: Mapping[str, Any]) -> RowChange:
    if item["fields"] is None:
        return RowChange(item["key"], item["id"], None)
    return RowChange(*_row_of(item))


def _row_of(item: Mapping[str, Any]) -> Row:
    entry = entry_of(item)
    return Row(item["key"], entry.id, entry.fields)


def _conditions(if_match: str | None, idempotency_key: str | None) -> dict[str, str]:
    headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    if if_match is not None:
        headers["If-Match"] = f'"{if_match}"'
    return headers
