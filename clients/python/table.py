"""Table: read, change and follow the latest entry of each key of a stream."""

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
"""Return the `Following` of rows whose keys start with a prefix, with a maximum in flight."""


class Row(NamedTuple):
    """The latest entry of a key.

    Attributes:
        key: Value of the key field. If it is not text, `base64:` followed by base64 text.
        id: Id of the entry.
        fields: Names and values. If a name repeats, its last value.
    """

    key: str
    id: str
    fields: dict[str, Value]


class RowChange(NamedTuple):
    """A change of a row.

    Attributes:
        key: Key of the row.
        id: Id of the entry that changed it.
        fields: The new names and values. None: the row was removed.
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
        """See `Stream.table`. `follow` follows the rows with a prefix."""
        self._calls = calls
        self._path = f"{path}/table"
        self._follow = follow

    async def get(self, key: str) -> Row | None:
        """Return the row of a key. None: there is no row."""
        try:
            return _row_of(await self._calls.call("GET", f"{self._path}/{segment(key)}"))
        except EntryNotFound:
            return None

    async def wait(self, key: str, *, after: str, wait_ms: int = 20_000) -> Row | None:
        """Return the row of a key when it changes after an id, or when `wait_ms` have passed."""
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
        """Append an entry that becomes the row of a key, and return its id.

        Args:
            key: Key of the row. The gateway adds the key field.
            fields: Names and values, text or bytes. Use pairs if a name repeats.
            if_match: Write only if this is the id of the row; otherwise raise `RowChanged`.
            if_absent: Write only if there is no row; otherwise raise `RowChanged`.
            idempotency_key: A repeat with the same key appends nothing. Default: a new key for each
                put, so the client repeats the request if the answer is lost.
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
        """Append an entry that removes the row of a key. Return False if there is no row.

        Args:
            key: Key of the row.
            if_match: Remove only if this is the id of the row; otherwise raise `RowChanged`.
            idempotency_key: See `put`.
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
        """Yield all rows in the order of their keys, as of one id, in pages of `limit`.

        Args:
            prefix: Only keys that start with this prefix.
            filter: Only rows that match, such as `{"exact": {"kind": "sale"}}`.
            limit: Number of rows per page.

        Raises:
            Gone: Too much has changed meanwhile. Start again.
        """
        async for page in self._pages(prefix, filter, limit):
            for row in page["rows"]:
                yield _row_of(row)

    async def to_pandas(
        self, *, as_of: str | None = None, schema: tables.Schema | None = None
    ) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame: `_id`, `_time` and the fields, indexed by `_key`.

        `attrs["as_of"]` of the frame is the id that the rows are as of.

        Args:
            as_of: The `as_of` of an earlier read, while the gateway still has that state of the
                table.
            schema: Fields to return as columns, and their types. See `Stream.read_arrow`.

        Raises:
            Gone: The gateway no longer has the state of the table at `as_of`.
            PackageMissing: The extra `tables` is not installed.
            ValueError: A value does not match the schema.
        """
        tables.arrow()
        rows, as_of = await self._all(as_of)
        entries = [(row.id, row.fields) for row in rows.values()]
        return await asyncio.to_thread(tables.frame_of_rows, list(rows), entries, schema, as_of)

    async def changes(self, *, prefix: str = "", credit: int = 256) -> AsyncGenerator[RowChange]:
        """Yield all rows, and then each change as it arrives, until the stream is closed.

        The iterator resumes after each loss of the connection. If entries were trimmed before this
        program received them, it reads the rows again and yields the differences.

        Args:
            prefix: Only rows whose keys start with this prefix.
            credit: Maximum number of rows in flight to this program.
        """
        known: dict[str, str] = {}  # the id of each row
        gone: set[str] = set()  # rows not sent again yet
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
